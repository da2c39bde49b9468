"""Base weights + LoRA adapter -> one folder of weights, in a separate process: `... merge BASE ADAPTER FOLDER TYPE`.

On a CPU, vLLM serves merged weights several times faster than base weights with an adapter.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, cast

from hermes_lab.models.weights import ENOUGH_KEPT, INDEX, MERGE_NOTE, Written


def merge(base: Path, adapter: Path, folder: Path, dtype: Written) -> None:
    """Adds the adapter to the weights in float32 and writes them, with the base's other files.

    `auto` writes bfloat16, or float32 if bfloat16 would keep less than `ENOUGH_KEPT` of the adapter's change. The
    configuration says bfloat16 either way, so that servers compute as with the base model unless they are told.
    `float32` writes float32, and the configuration says so.
    """
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    adapted = PeftModel.from_pretrained(model, adapter)
    kept = share_kept(adapted)
    merged = adapted.merge_and_unload()
    written = "bfloat16" if dtype == "auto" and kept >= ENOUGH_KEPT else "float32"
    merged.to(getattr(torch, written)).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"dtype": "bfloat16" if dtype == "auto" else dtype}, indent=2) + "\n"
    )
    for path in base.iterdir():
        # An index names the base's weight files.
        of_weights = path.suffix in (".safetensors", ".bin") or path.name.endswith(INDEX)
        if path.is_file() and not (folder / path.name).exists() and not of_weights:
            shutil.copyfile(path, folder / path.name)
    (folder / MERGE_NOTE).write_text(json.dumps({"kept": kept, "written": written}) + "\n")


def share_kept(adapted: Any) -> float:
    """The share of an adapter's change that is left in bfloat16: 1 - |error|² / |change|², over all adapted weights.

    1 for an adapter that changes nothing.
    """
    import torch
    from peft.tuners.lora import LoraLayer

    change = error = 0.0
    for layer in adapted.modules():
        if not isinstance(layer, LoraLayer):
            continue
        weight = layer.get_base_layer().weight
        for name in layer.active_adapters:
            delta = layer.get_delta_weight(name)
            left = (weight + delta).to(torch.bfloat16).float() - weight.to(torch.bfloat16).float()
            change += float((delta * delta).sum())
            error += float(((left - delta) ** 2).sum())
    return max(0.0, 1 - error / change) if change else 1.0


if __name__ == "__main__":
    base, adapter, folder, dtype = sys.argv[1:]
    merge(Path(base), Path(adapter), Path(folder), cast(Written, dtype))
