"""The bytes that a plan counts for the layers are those that PyTorch keeps for the backward pass."""

from pathlib import Path
from typing import Any

import pytest
from fakes.training import TRAINING

from hermes_lab.training.architecture import Architecture
from hermes_lab.training.lock import load_lock
from hermes_lab.training.memory import layer_bytes
from hermes_lab.training.workload import Micro

pytestmark = TRAINING

SIZES = {
    "llama": Architecture(2, 96, 256, 6, 2, 16, 50, tied=True),
    "qwen2": Architecture(2, 64, 384, 4, 2, 16, 50, tied=True, qkv_bias=True),
    "qwen3": Architecture(2, 64, 192, 4, 2, 32, 50, tied=True, qk_norm=True),
}
PREFIX, ROWS, TOKENS = 24, 3, 40


def adapted(kind: str, layers: int, dtype: str) -> Any:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    a = SIZES[kind]
    config = AutoConfig.for_model(
        kind,
        vocab_size=a.vocabulary,
        hidden_size=a.hidden,
        intermediate_size=a.intermediate,
        num_hidden_layers=layers,
        num_attention_heads=a.heads,
        num_key_value_heads=a.kv_heads,
        head_dim=a.head_dim,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=16, target_modules="all-linear")).train()


def kept(kind: str, layers: int, dtype: str, how: str) -> int:
    """Bytes that a forward pass through a model of `layers` layers keeps for the backward pass, without the weights."""
    import torch
    from peft.helpers import disable_input_dtype_casting

    from hermes_lab.training.loss import Prefix, hidden_states
    from hermes_lab.training.packing import packed_hidden

    model = adapted(kind, layers, dtype)
    base = model.get_base_model()
    alive: list[Any] = []  # so that no storage is reused
    storages: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        alive.append(tensor)
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def autocast() -> Any:
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16")

    ids_BT = torch.ones((ROWS, PREFIX + TOKENS), dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), disable_input_dtype_casting(model):
        prefix = None
        if how == "prefix":
            with autocast():
                prefix = Prefix(base, ids_BT[:1, :PREFIX])
        with autocast():
            if how == "packed":
                packed_hidden(base, ids_BT, range(ROWS), [PREFIX + TOKENS + 1] * ROWS, PREFIX)
            else:
                hidden_states(base, ids_BT[:, PREFIX if prefix else 0 :], prefix)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    return sum(size for pointer, size in storages.items() if pointer not in weights)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("how", ["plain", "prefix", "packed"])
def test_a_layer_keeps_what_the_plan_counts(kind: str, dtype: str, how: str) -> None:
    locked = load_lock(Path("configs/locks/sft-smoke.yaml"))
    bytes_each = 2 if dtype == "bfloat16" else 4
    micros = {
        "plain": [Micro(ROWS, PREFIX + TOKENS, 0)],
        "prefix": [Micro(1, PREFIX, 0), Micro(ROWS, TOKENS, 0, PREFIX, masked=True)],
        "packed": [Micro(1, PREFIX + ROWS * TOKENS, 0, masked=True)],
    }[how]
    counted = sum(layer_bytes(SIZES[kind], locked, micro, bytes_each) for micro in micros)
    assert kept(kind, 3, dtype, how) - kept(kind, 2, dtype, how) == pytest.approx(counted, rel=0.02)
