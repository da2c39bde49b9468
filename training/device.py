"""The device of a training: its number format, whether the lock's values fit it, and the base model in 4 bits."""

import gc
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.models.precision import cpu_dtype
from hermes_lab.training.lock import HOW_TO_CHANGE, LockedConfig

_NOMINAL = 0.88
"""A GPU sold as 24 GB reports between 21.9 and 25.8 of them."""


def training_dtype(locked: LockedConfig) -> str:
    """The dtype of the base model's weights and of computation: the locked one, else what this machine is fast in."""
    import torch

    if locked.hardware is not None:
        return locked.hardware.precision
    return "bfloat16" if torch.cuda.is_available() else cpu_dtype()


def is_quantized(locked: LockedConfig) -> bool:
    """Whether the base model's linear layers are stored in 4 bits."""
    return locked.hardware is not None and locked.hardware.quantization == "nf4"


def check_device(locked: LockedConfig, *, planned: bool = False) -> None:
    """Raises `ConfigError` if the lock is for a GPU and this machine has none, a smaller one, or one that lacks its
    precision.

    A plan (`planned`) says itself that there is no GPU.
    """
    if locked.hardware is None:
        return
    import torch

    if not torch.cuda.is_available():
        if planned:
            return
        raise ConfigError(f"lock: hardware: {no_gpu(locked)}")
    found = torch.cuda.get_device_properties(0)
    if found.total_memory < _NOMINAL * locked.hardware.gpu_memory * 1e9:
        raise ConfigError(
            f"lock: hardware.gpu_memory is {locked.hardware.gpu_memory} GB, and {found.name} has "
            f"{found.total_memory / 1e9:.1f} GB: make a lock for it with `hermes-lab train lock --base ... --gpu ...`"
        )
    if locked.hardware.precision == "bfloat16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ConfigError(f"lock: hardware.precision is bfloat16, which {found.name} does not compute; {HOW_TO_CHANGE}")


def no_gpu(locked: LockedConfig) -> str:
    """Why a lock for a GPU does not train on a machine without one, and what to do."""
    size = locked.hardware.gpu_memory if locked.hardware else 0
    return (
        f"the lock is for a GPU of {size} GB, and PyTorch sees none: train on a machine with one (nvidia-smi and "
        "CUDA_VISIBLE_DEVICES say what it sees), or on the CPU with a lock without the section hardware"
    )


def quantization(locked: LockedConfig) -> dict[str, Any]:
    """The arguments of `from_pretrained` that load the base model in 4 bits as QLoRA does, if it is locked."""
    if not is_quantized(locked):
        return {}
    import torch
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, training_dtype(locked)),
    )
    # Weights are quantized as they arrive on their device.
    device = torch.cuda.current_device() if torch.cuda.is_available() else "cpu"
    return {"quantization_config": config, "device_map": {"": device}}


def release_memory() -> None:
    """Releases unused GPU memory to other programs; no effect on a CPU."""
    import torch

    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def peak_memory() -> dict[str, float]:
    """`gpu_gb`, the most gigabytes of the GPU that PyTorch has held in this process; nothing on a CPU."""
    import torch

    return {"gpu_gb": round(torch.cuda.max_memory_reserved() / 1e9, 2)} if torch.cuda.is_available() else {}
