"""A repair of vLLM's LoRA on CPUs. vLLM loads it by the entry point `vllm.general_plugins`, and it runs only there.

For a request without an adapter, vLLM's PyTorch operations index the stacked adapters by -1. Once every slot has held
an adapter, a reply of the base model that shares a batch with an adapter's therefore comes from the weights of the last
slot (https://github.com/vllm-project/vllm/pull/48421). The kernels for GPUs skip such requests.
"""

import logging
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

_OPERATIONS = ("bgmv_shrink", "bgmv_expand", "bgmv_expand_slice")
"""All others call these."""


def keep_base_model() -> None:
    """Makes requests without an adapter independent of the adapters in their batch, in this process of vLLM."""
    if not import_module("vllm.platforms").current_platform.is_cpu():
        return
    try:
        defined = import_module("vllm.lora.ops.torch_ops.lora_ops")
        used = import_module("vllm.lora.punica_wrapper.punica_cpu")
        repaired = {name: _skips_base(getattr(defined, name)) for name in _OPERATIONS}
    except (ImportError, AttributeError) as error:  # another version of vLLM, which must start all the same
        logging.getLogger("vllm.hermes_lab").warning("LoRA on CPUs is not repaired: %s", error)
        return
    for module in (defined, used):
        vars(module).update(repaired)


def _skips_base(operation: Callable[..., None]) -> Callable[..., None]:
    """The operation, which adds nothing to a row of zeros, with zeros in the rows of the base model."""

    @wraps(operation)
    def skipping(inputs_N_D: Any, weights: Any, output: Any, adapter_N: Any, *rest: Any, **named: Any) -> None:
        operation(inputs_N_D * (adapter_N >= 0).unsqueeze(-1), weights, output, adapter_N, *rest, **named)

    return skipping
