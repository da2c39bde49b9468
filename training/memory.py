"""How much memory a training needs, computed from sizes alone.

What a layer keeps for its backward pass is exact: a test counts the tensors that PyTorch saves. The rest is what a
backward pass needs for a moment, what the logits need, and a constant for Python and its libraries, or for CUDA.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from hermes_lab.training.architecture import Architecture
from hermes_lab.training.layout import HEAD_TOKENS
from hermes_lab.training.lock import LockedConfig
from hermes_lab.training.workload import Micro, StepWork

GB = 1e9
Device = Literal["cpu", "cuda"]

_ADAPTER_BYTES = 4 * 4
"""Of a trained weight: itself, its gradient and Adam's two moments, in float32."""
_NF4_BYTES = 0.5 + 1 / 64 + 1 / 4096
"""Of a weight in 4 bits: a scale of 8 bits for 64 weights, and one of 32 bits for 256 of these (it is quantized
twice)."""
PROCESS = {"cpu": 0.85e9, "cuda": 0.6e9}
"""Python and its libraries on a CPU, the CUDA context on a GPU."""
_SPARE = {"cpu": 0.2, "cuda": 0.1}
"""What the allocator takes beyond the activations, as a share of them: measured on a CPU, assumed on a GPU."""
_SPARE_OF_SEVERAL = 0.55
"""The same on a CPU if a step has several micro-batches: glibc cannot give the pieces that one leaves to a larger one.
Returning them at once (mmap) would take less memory and twice the time."""

TRL_TOKENS, TRL_VOCABULARY = 4096, 32768
"""Tokens and ids whose logits exist at once in preference training on a CPU (`trl/kernels/chunked_logprob.py`)."""
_TRL_BYTES = 33
"""Of such a logit, besides itself: eight numbers in float32 and a mask in its backward pass."""


class Memory(NamedTuple):
    """Bytes at the peak of a training."""

    weights: float
    """The base model."""
    adapter: float
    """LoRA weights, their gradients, and Adam's state."""
    activations: float
    """What the layers keep for the backward pass."""
    logits: float
    """Logits and their gradients, or what a layer's backward pass needs, whichever is more."""
    process: float
    """Python and its libraries on a CPU, the CUDA context on a GPU."""

    @property
    def total(self) -> float:
        """The sum."""
        return sum(self)

    @property
    def least(self) -> float:
        """What is needed whatever the lengths of the rows."""
        return self.weights + self.adapter + self.process


def memory(
    architecture: Architecture, locked: LockedConfig, steps: Iterable[StepWork], device: Device, *, bytes_each: int
) -> Memory:
    """The peak over `steps`. `bytes_each` is 2 for bfloat16 and 4 for float32."""
    trained = architecture.lora_parameters(locked.lora_rank, locked.lora_target)
    moments = (
        _moment(architecture, locked, step, micro, bytes_each, device) for step in steps for micro in step.micros
    )
    activations, logits = max(moments, key=sum)
    reference = 4 * trained if locked.preference else 0  # TRL keeps a copy of the parent
    return Memory(
        weights=base_bytes(architecture, locked, bytes_each),
        adapter=trained * _ADAPTER_BYTES + reference,
        activations=activations,
        logits=logits,
        process=PROCESS[device],
    )


def base_bytes(architecture: Architecture, locked: LockedConfig, bytes_each: int) -> float:
    """The base model's weights; in 4 bits all linear layers but the head are quantized."""
    everything = architecture.parameters()
    if locked.hardware is None or locked.hardware.quantization == "none":
        return everything * bytes_each
    linear = architecture.layers * architecture.linear_parameters()
    unpacked = max(inputs * outputs for inputs, outputs in architecture.linears().values())
    return linear * _NF4_BYTES + (everything - linear + unpacked) * bytes_each


def layer_bytes(architecture: Architecture, locked: LockedConfig, micro: Micro, bytes_each: int) -> float:
    """What one decoder layer keeps of a micro-batch for the backward pass."""
    a, adapted = architecture, architecture.adapted(locked.lora_target)
    each: float = 8 * a.hidden + 8  # two norms, which compute in float32
    each += 2 * bytes_each * a.hidden  # their outputs
    each += 2 * bytes_each * a.attention + 4 * a.heads  # queries and attention, and its normaliser
    each += 4 * bytes_each * a.intermediate  # gate, its activation, up, and their product
    each += bytes_each * locked.lora_rank * len(adapted) / a.layers
    if a.qk_norm:
        each += 4 * (a.attention + a.keys + a.heads + a.kv_heads)
    kept = each * micro.queries
    # With a mask, keys and values are repeated for every head of queries.
    kept += 2 * bytes_each * (micro.keys * a.attention if micro.masked else micro.queries * a.keys)
    if micro.prefix:  # the mask itself, converted in each layer
        kept += bytes_each * micro.rows * micro.tokens * (micro.prefix + micro.tokens)
    if bytes_each < 4:  # LoRA weights are converted once a pass
        kept += bytes_each * locked.lora_rank * sum(inputs + outputs for inputs, outputs in adapted) / a.layers
    return kept


def _moment(
    architecture: Architecture, locked: LockedConfig, step: StepWork, micro: Micro, bytes_each: int, device: Device
) -> tuple[float, float]:
    """Activations, and logits or the needs of a backward pass, while a micro-batch runs."""
    a = architecture
    layer = layer_bytes(a, locked, micro, bytes_each)
    if locked.hardware is not None and locked.hardware.gradient_checkpointing:
        kept = layer + a.layers * micro.queries * a.hidden * bytes_each
    else:
        kept = a.layers * layer
    if step.prefix:
        kept += a.layers * layer_bytes(a, locked, Micro(1, step.prefix, 0), bytes_each)
        kept += a.layers * step.prefix * 2 * a.keys * 8  # keys and values in float32, and their gradients
    if micro.masked and not micro.prefix:  # one mask for all layers, with what makes it
        kept += micro.rows * micro.tokens**2 * (bytes_each + 3)
    if locked.preference and device == "cpu":
        logits = min(micro.scored, TRL_TOKENS) * min(a.vocabulary, TRL_VOCABULARY) * (_TRL_BYTES + bytes_each)
    else:
        logits = min(micro.scored, HEAD_TOKENS) * a.vocabulary * (12 + bytes_each)
    backward = micro.queries * (3 * a.intermediate + 2 * a.hidden) * bytes_each
    spare = _SPARE_OF_SEVERAL if device == "cpu" and len(step.micros) > 1 else _SPARE[device]
    return kept * (1 + spare), max(logits, backward)
