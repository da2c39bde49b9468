"""The number format that this machine's CPU serves and trains in."""

from pathlib import Path
from typing import Literal

_CPUINFO = Path("/proc/cpuinfo")
_MULTIPLY_BFLOAT16 = ({"avx512bw", "avx512vl", "avx512dq"}, {"bf16", "asimd"})
"""What an x86 or an Arm CPU has to have for oneDNN to multiply bfloat16; the older AVX-512 is enough for it."""


def cpu_dtype(cpuinfo: Path = _CPUINFO) -> Literal["bfloat16", "float32"]:
    """bfloat16 where the CPU has fast kernels for it, and else float32.

    Without them PyTorch multiplies bfloat16 in a plain loop, some thirty times as slowly as float32. float32 holds all
    of bfloat16, so that the weights are the same, and replies differ as they do between machines.
    """
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return "float32"
    # `flags` of x86, `Features` of Arm; the cores are alike.
    has = next((set(line.split()) for line in lines if line.startswith(("flags", "Features"))), set())
    return "bfloat16" if any(needed <= has for needed in _MULTIPLY_BFLOAT16) else "float32"
