"""Locks for real base models on a GPU: precision, checkpointing and sizes that fit, by the same figures as a plan."""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import Method
from hermes_lab.training.architecture import Architecture, architecture
from hermes_lab.training.layout import layout_of
from hermes_lab.training.lock import GrpoLock, HardwareLock, LockedConfig, PreferenceLock
from hermes_lab.training.memory import GB, Memory, memory
from hermes_lab.training.workload import Micro, StepWork, grpo_step

LENGTH = 4096
"""Tokens of the longest row, unless another length is asked for."""
_USABLE = 0.92
"""Share of a GPU's nominal memory that is planned: the driver and fragmentation take the rest."""
_SLEEPING = 2.5 * GB
"""What a server that sleeps or has been stopped still occupies beside GRPO's steps, at most."""
_SERVER = 2.5 * GB
"""What vLLM needs beside weights and key-value cache."""
_MOST_TOKENS = 8192
"""Rows are not put together beyond this: the mask of a packed sequence grows with its square."""
_RATES: dict[Method, float] = {"sft": 2e-4, "preference": 1e-5, "grpo": 2e-5}
_ROWS: dict[Method, int] = {"sft": 16, "preference": 8, "grpo": 8}
_STEPS: dict[Method, int] = {"sft": 300, "preference": 200, "grpo": 100}


class Preset(NamedTuple):
    """A lock that fits, and the memory that its largest step needs."""

    locked: LockedConfig
    memory: Memory

    def sentence(self) -> str:
        """The choice in one line."""
        assert self.locked.hardware
        hardware = self.locked.hardware
        parts = [
            "QLoRA (nf4)" if hardware.quantization == "nf4" else hardware.precision,
            *(["gradient checkpointing"] if hardware.gradient_checkpointing else []),
            f"rows of up to {self.locked.max_token_length} tokens",
            f"about {self.memory.total / GB:.1f} of {hardware.gpu_memory} GB",
        ]
        return ", ".join(parts)


def preset(base: str, gpu_memory: int, method: Method, *, length: int = LENGTH, qlora: bool = False) -> Preset:
    """The lock of a training of `base` on one GPU of `gpu_memory` GB, for rows of up to `length` tokens.

    Prefers bfloat16, then bfloat16 with gradient checkpointing, then QLoRA, then QLoRA with checkpointing. Raises
    `ConfigError` with the smallest need if nothing fits.
    """
    sizes = architecture(base)
    needs: list[float] = []
    for locked in _candidates(base, gpu_memory, method, length, qlora):
        needed = memory(sizes, locked, [_largest_step(locked)], "cuda", bytes_each=2)
        server = _server_bytes(sizes, locked) if method == "grpo" else 0.0
        need = max(needed.total + (_SLEEPING if method == "grpo" else 0), server)
        if need <= _USABLE * gpu_memory * GB:
            return Preset(locked, needed)
        needs.append(need)
    raise ConfigError(
        f"train lock: {method} of {base} does not fit on a GPU of {gpu_memory} GB, of which {_USABLE:.0%} are planned; "
        f"rows of {length} tokens need at least {min(needs) / GB:.1f} GB{' with QLoRA' if qlora else ''}: give a "
        "smaller --length, a larger --gpu or a smaller --base"
    )


def _candidates(base: str, gpu_memory: int, method: Method, length: int, qlora: bool) -> Iterator[LockedConfig]:
    """Locks in the order of preference."""
    at_once = [size for size in (4 * length, 2 * length) if size <= _MOST_TOKENS] + [length]
    rows = [8, 4, 2, 1] if method == "grpo" else [_ROWS[method]]
    for quantization, checkpointing in product(["nf4"] if qlora else ["none", "nf4"], [False, True]):
        for micro_tokens, batch in product(at_once if method == "sft" else [length], rows):
            hardware = {
                "gpu_memory": gpu_memory,
                "precision": "bfloat16",
                "quantization": quantization,
                "gradient_checkpointing": checkpointing,
                "packing": method == "sft" or (method == "grpo" and checkpointing),
                "micro_tokens": micro_tokens,
            }
            yield _locked(base, method, length, batch, HardwareLock(**hardware))


def _locked(base: str, method: Method, length: int, batch: int, hardware: HardwareLock) -> LockedConfig:
    values: dict[str, Any] = {
        "base_model": base,
        "tokenizer": base,
        "rollout_server_url": "http://127.0.0.1:8000/v1",
        "max_token_length": length,
        "learning_rate": _RATES[method],
        "warmup_steps": _STEPS[method] // 20,
        "total_steps": _STEPS[method],
        "batch_size": batch,
        "lora_rank": 16,
        "lora_alpha": 32,
        "lora_target": "all-linear",
        "save_checkpoint_interval": 2 if method == "grpo" else 25,
        "seed": 0,
        "use_wandb": False,
        "grpo": _grpo(length) if method == "grpo" else None,
        "preference": PreferenceLock(beta=0.1) if method == "preference" else None,
    }
    return LockedConfig(**values, hardware=hardware)


def _grpo(length: int) -> GrpoLock:
    return GrpoLock(
        group_size=8,
        groups_per_round=8,
        steps_per_round=2,
        temperature=1.0,
        max_reply_tokens=min(1024, length // 4),
        clip_epsilon=0.2,
        max_batches_offpolicy=0,
        max_num_workers=32,
        worker_timeout=600.0,
        steps_per_eval=20,
        eval_limit_ratio=0.5,
        inference_weight=1.0,
    )


def _largest_step(locked: LockedConfig) -> StepWork:
    """The step that needs the most memory: every row is as long as the lock allows, and half of it has a loss."""
    length = locked.max_token_length
    if locked.grpo:
        sequences = locked.grpo.group_size * locked.grpo.groups_per_round
        return grpo_step(locked, locked.batch_size, sequences, layout_of(locked))
    if locked.preference:
        return StepWork(0, [Micro(2, length, length, masked=True)], 2 * length, forwards=1)
    assert locked.hardware
    at_once = max(locked.hardware.micro_tokens, length)
    return StepWork(0, [Micro(1, at_once, at_once // 2, masked=at_once > length)], at_once)


def _server_bytes(sizes: Architecture, locked: LockedConfig) -> float:
    """What vLLM needs at least: the weights in bfloat16, and the keys and values of four of the longest rollouts."""
    cache = 4 * locked.max_token_length * sizes.layers * 2 * sizes.keys * 2
    return sizes.parameters() * 2 + cache + _SERVER
