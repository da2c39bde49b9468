"""The number format in which this machine's CPU serves and trains."""

from pathlib import Path
from typing import Literal

_CPUINFO = Path("/proc/cpuinfo")
_MULTIPLY_BFLOAT16 = ({"avx512bw", "avx512vl", "avx512dq"}, {"bf16", "asimd"})
"""CPU flags (x86 or Arm) that oneDNN needs to multiply bfloat16; AVX-512 is sufficient."""


def cpu_dtype(cpuinfo: Path = _CPUINFO) -> Literal["bfloat16", "float32"]:
    """bfloat16 if the CPU has fast kernels for it, else float32.

    Without them PyTorch multiplies bfloat16 in a plain loop, about thirty times slower than float32. float32 represents
    all bfloat16 values, so the weights are the same; replies differ only as between machines.
    """
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return "float32"
    # `flags` on x86, `Features` on Arm; all cores are the same.
    has = next((set(line.split()) for line in lines if line.startswith(("flags", "Features"))), set())
    return "bfloat16" if any(needed <= has for needed in _MULTIPLY_BFLOAT16) else "float32"
