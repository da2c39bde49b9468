"""Merging, really: what rounding to bfloat16 takes of a small change is measured, said and avoided."""

import json
from pathlib import Path

import pytest
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING
from typer.testing import CliRunner

from hermes_lab.models import weights
from hermes_lab.runners.cli import app
from hermes_lab.training.lock import load_lock

pytestmark = TRAINING


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base model in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = tiny_model(tmp_path / "base")
    AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(folder)
    return folder


def adapter(folder: Path, base: Path, size: float) -> Path:
    """An adapter whose change has elements of that size. The base's are about 0.02."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from hermes_lab.training.lora import save_adapter

    torch.manual_seed(0)
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base), LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", r=4)
    )
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=1.0 if "lora_A" in name else size)
    folder.mkdir()
    save_adapter(model, folder, load_lock(Path("configs/locks/sft-cpu.yaml")))
    return folder


def logits(folder: Path, adapter: Path | None = None) -> object:
    """What the model predicts after a few tokens, in float32."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if adapter:
        model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        return model(torch.arange(1, 30)[None]).logits


@pytest.mark.parametrize(("size", "written"), [(1e-5, "float32"), (0.05, "bfloat16")])
def test_a_small_change_is_kept_and_its_loss_is_told(tmp_path: Path, base: Path, size: float, written: str) -> None:
    import torch
    from safetensors import safe_open

    lines: list[str] = []
    tuned, out = adapter(tmp_path / "adapter", base, size), tmp_path / "out"
    weights.merge_into(out, base, tuned, lines.append)
    note = json.loads((out / weights.MERGE_NOTE).read_text())
    assert note["written"] == written
    assert (note["kept"] < 0.9) == (written == "float32")
    said = [line for line in lines if "bfloat16 keeps" in line]
    assert len(said) == (written == "float32")
    with safe_open(out / "model.safetensors", "pt") as saved:
        assert {str(saved.get_tensor(name).dtype) for name in saved.keys()} == {f"torch.{written}"}  # noqa: SIM118
    assert json.loads((out / "config.json").read_text())["dtype"] == "bfloat16"
    plain, with_adapter, merged = logits(base), logits(base, tuned), logits(out)
    change, error = torch.dist(plain, with_adapter), torch.dist(merged, with_adapter)
    assert change > 0
    assert error < 0.2 * change


def test_weights_of_a_base_in_several_files_are_merged_into_one(tmp_path: Path, base: Path) -> None:
    from transformers import AutoModelForCausalLM

    sharded = tmp_path / "sharded"
    AutoModelForCausalLM.from_pretrained(base).save_pretrained(sharded, max_shard_size="100KB")
    index = "model.safetensors.index.json"
    assert (sharded / index).exists()
    tuned, out = adapter(tmp_path / "adapter", sharded, 0.05), tmp_path / "out"
    weights.merge_into(out, sharded, tuned)
    assert not (out / index).exists()
    assert len(weights.digest(out)) == 64


def test_float32_is_written_where_it_is_asked_for(tmp_path: Path, base: Path) -> None:
    import torch
    from safetensors import safe_open

    tuned, out = adapter(tmp_path / "adapter", base, 0.05), tmp_path / "out"
    called = CliRunner().invoke(
        app, ["adapters", "merge", str(tuned), "-o", str(out), "--base", str(base), "--float32"], catch_exceptions=False
    )
    assert called.exit_code == 0, called.output
    with safe_open(out / "model.safetensors", "pt") as saved:
        assert {str(saved.get_tensor(name).dtype) for name in saved.keys()} == {"torch.float32"}  # noqa: SIM118
    assert json.loads((out / "config.json").read_text())["dtype"] == "float32"
    assert torch.allclose(logits(out), logits(base, tuned), atol=1e-5)


def test_what_is_lost_is_told_again_when_the_merge_is_used_again(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    tuned = adapter(tmp_path / "adapter", base, 1e-5)
    lines: list[list[str]] = [[], []]
    for said in lines:
        weights.merged(base, tuned, "0" * 64, said.append)
    assert [line for line in lines[0] if "bfloat16 keeps" in line] == lines[1] != []
