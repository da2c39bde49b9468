"""The section `hardware` of a lock, on a tiny model and a CPU: it changes what fits, not what is learned."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import episode, with_review, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, hardware, smoke_lock

from hermes_lab.errors import ConfigError
from hermes_lab.training import lora
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.layout import Layout
from hermes_lab.training.sft import train_sft

pytestmark = TRAINING


@pytest.fixture(scope="module", autouse=True)
def without_gpu() -> Iterator[None]:
    """A lock for a GPU is refused on a CPU; here its other values are tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lora, "check_device", lambda *_, **__: None)
        yield


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny") / "base"))


@pytest.fixture(scope="module")
def plain(base: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The weights of an adapter trained without any of it."""
    return trained(base, tmp_path_factory.mktemp("plain") / "run")


def trained(base: str, folder: Path, **section: Any) -> Any:
    """The weights of an adapter after three steps."""
    from safetensors.torch import load_file

    return load_file(train_sft(config_of(base, folder, **section), print) / "adapter_model.safetensors")


def config_of(base: str, folder: Path, **section: Any) -> TrainConfig:
    folder.mkdir()
    pace = {"total_steps": 3, "batch_size": 4, "warmup_steps": 0, "save_checkpoint_interval": 3}
    values = {"base_model": base, "tokenizer": base, "learning_rate": 0.01, "hardware": hardware(**section)}
    lock = smoke_lock(folder, "sft", **pace, **values)
    run = write_run(folder / "run", *(episode(f"task {n}" * (n + 1)) for n in range(6)), with_review("the last"))
    return TrainConfig(lock=lock, data=(str(run),), adapters=str(folder / "adapters"))


@pytest.mark.parametrize(
    "hardware",
    [{"packing": True}, {"gradient_checkpointing": True}, {"packing": True, "gradient_checkpointing": True}],
    ids=lambda hardware: "+".join(hardware),
)
def test_packing_and_checkpointing_train_the_same_adapter(
    base: str, plain: Any, tmp_path: Path, hardware: dict[str, bool]
) -> None:
    import torch

    other = trained(base, tmp_path / "other", **hardware)
    assert any(tensor.abs().max() > 0.01 for name, tensor in plain.items() if "lora_B" in name)
    torch.testing.assert_close(other, plain, atol=1e-3, rtol=0.02)


@pytest.mark.parametrize("layout", [Layout(packed=True), Layout(shared=False)])
def test_no_layout_changes_log_probabilities_or_their_gradient(layout: Layout) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from hermes_lab.training.logprobs import score

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=97, num_attention_heads=4, num_key_value_heads=2, **sizes))
    ids_BT = torch.randint(1, 97, (3, 14))
    attention_BT = torch.ones_like(ids_BT)
    attention_BT[:, :2] = 0  # left padding of the prompt
    ids_BT[:, :6] = ids_BT[0, :6].clone()
    attention_BT[1, 11:] = 0
    wanted_BC = torch.ones((3, 8), dtype=torch.bool)
    wanted_BC[1, 5:] = False
    wanted_BC[2, 2:4] = False  # a tool's result

    def scored(layout: Layout) -> tuple[Any, ...]:
        found = score(model, ids_BT, attention_BT, wanted_BC, 0.7, layout)
        found.logprobs_BC.sum().backward()
        gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        model.zero_grad()
        return found.logprobs_BC.detach(), found.entropies_BC, gradients

    torch.testing.assert_close(scored(layout), scored(Layout()), atol=1e-4, rtol=1e-4)


def test_qlora_without_bitsandbytes_is_refused_in_one_line(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    config = config_of(base, tmp_path / "nf4", quantization="nf4")
    with pytest.raises(ConfigError, match=r"needs bitsandbytes: pip install 'hermes-lab\[qlora\]'"):
        train_sft(config, print)
    assert not Path(config.adapters).exists()


def test_qlora_trains_an_adapter_on_a_base_in_4_bits(base: str, tmp_path: Path) -> None:
    from hermes_lab.training.lock import load_lock
    from hermes_lab.training.lora import lora_model

    config = config_of(base, tmp_path / "nf4", quantization="nf4")
    model = lora_model(load_lock(Path(config.lock)), Path(base), None)
    layer = model.get_base_model().model.layers[0].mlp.down_proj.base_layer
    assert type(layer).__name__ == "Linear4bit"
    assert layer.weight.numel() == 32 * 64 / 2  # two weights a byte
    folder = train_sft(config, print)
    steps = [line.split('"loss": ')[1].split(",")[0] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert float(steps[-1]) < float(steps[0])
