"""A saved adapter: its type, its lock, its bytes, and what PEFT makes of it."""

import json
import multiprocessing
from pathlib import Path

from fakes.training import TRAINING

from hermes_lab.models.cards import LOCK_KEY
from hermes_lab.training.lock import load_lock, lock_digest

pytestmark = TRAINING


def make(base: Path, out: Path) -> None:
    """Saves a base of random weights and an adapter on it: with the same seed, the same."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    from hermes_lab.training.lora import save_adapter

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    LlamaForCausalLM(LlamaConfig(vocab_size=97, **sizes)).save_pretrained(base)
    lora = LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear")
    model = get_peft_model(LlamaForCausalLM.from_pretrained(base), lora)
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter)
    out.mkdir()
    save_adapter(model, out, load_lock(Path("configs/locks/sft-cpu.yaml")))


def test_a_saved_adapter_is_the_same_bytes_anywhere_and_names_its_lock(tmp_path: Path) -> None:
    import torch
    from peft import PeftModel
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    files = []
    for place in ("here", "there"):
        base = tmp_path / place / "some-base"
        out = tmp_path / place / "adapter"
        if place == "here":
            make(base, out)
        else:  # where sets have another order
            process = multiprocessing.get_context("spawn").Process(target=make, args=(base, out))
            process.start()
            process.join()
            assert process.exitcode == 0
        assert sorted(path.name for path in out.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
        files.append([(out / name).read_bytes() for name in ("adapter_config.json", "adapter_model.safetensors")])
    assert files[0] == files[1]
    config = json.loads(files[0][0])
    assert (config["base_model_name_or_path"], config["inference_mode"]) == ("some-base", True)
    with safe_open(out / "adapter_model.safetensors", "pt") as saved:
        assert saved.metadata()[LOCK_KEY] == lock_digest(load_lock(Path("configs/locks/sft-cpu.yaml")))
        tensors = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    model = AutoModelForCausalLM.from_pretrained(base)
    loaded = PeftModel.from_pretrained(model, out).state_dict()
    for name, tensor in tensors.items():
        assert torch.equal(loaded[name.replace(".weight", ".default.weight")], tensor)


def test_a_snapshot_of_a_hub_is_named_as_the_hub_names_it() -> None:
    from hermes_lab.training.lora import _base_name

    assert _base_name(Path("/x/models--owner--a-name/snapshots/0123")) == "owner/a-name"
    assert _base_name(Path("/x/weights/SmolLM2-135M-Instruct-v1")) == "SmolLM2-135M-Instruct-v1"
