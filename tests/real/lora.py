"""LoRA adapters for tests, on the packaged model."""

from pathlib import Path
from typing import Any

from hermes_lab.models.precision import cpu_dtype


def base_model(weights: Path) -> Any:
    """The packaged model, as it is served and trained on this machine."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(weights, dtype=cpu_dtype())


def random_adapter(weights: Path, folder: Path, *, seed: int, scale: float = 1.0) -> Path:
    """Writes an adapter of random weights, neither matrix zero, that changes every reply."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    lora = LoraConfig(
        r=8, lora_alpha=8 * scale, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"
    )
    get_peft_model(base_model(weights), lora).save_pretrained(folder)
    return folder
