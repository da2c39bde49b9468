"""The LoRA weights that a training starts from, and the modules that it adapts."""

from pathlib import Path

import pytest
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING

from hermes_lab.errors import ConfigError
from hermes_lab.training.lock import load_lock
from hermes_lab.training.lora import keep_float32, lora_model, restore_float32, save_adapter

pytestmark = TRAINING
LOCKED = load_lock(Path("configs/locks/sft-cpu.yaml"))


def test_a_training_starts_from_the_parents_weights_though_trl_rounds_them(tmp_path: Path) -> None:
    import torch

    base = tiny_model(tmp_path / "base")
    parent = lora_model(LOCKED, base, None)
    for _, parameter in parent.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.1)
    (tmp_path / "parent").mkdir()
    save_adapter(parent, tmp_path / "parent", LOCKED)
    child = lora_model(LOCKED, base, tmp_path / "parent")
    before = {name: p.detach().clone() for name, p in child.named_parameters() if p.requires_grad}
    keep_float32(child)
    for _, parameter in child.named_parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)  # as TRL's trainers do with a quantized base
    assert any((p.float() != before[name]).any() for name, p in child.named_parameters() if name in before)
    restore_float32(child)
    for name, parameter in child.named_parameters():
        if parameter.requires_grad:
            assert parameter.dtype == torch.float32
            assert torch.equal(parameter.detach(), before[name])
    restore_float32(child)  # the copies are used once: what is trained later is not undone
    assert "kept_float32" not in vars(child)


@pytest.mark.parametrize("target", [".*(q_proj|lm_head)", ".*embed_tokens"])
def test_a_head_that_is_also_the_embedding_is_not_trained(tmp_path: Path, target: str) -> None:
    from transformers import AutoModelForCausalLM

    base = tiny_model(tmp_path / "base")
    model = AutoModelForCausalLM.from_pretrained(base)
    locked = LOCKED.model_copy(update={"base_model": str(base), "lora_target": target})
    for tied in (True, False):
        model.config.tie_word_embeddings = tied
        model.config.save_pretrained(base)
        if tied:
            with pytest.raises(ConfigError, match=r"lora_target .* adapts (lm_head|model.embed_tokens)"):
                lora_model(locked, base, None)
        else:
            assert lora_model(locked, base, None)
