"""Environment variables of the training libraries: the lock takes precedence, or the training is refused.

What a library reads when a trainer is built is removed from the environment of this process first, so that the
training's arguments decide. What it reads when it is loaded, or in another process, is refused. All others, such as
`OMP_NUM_THREADS`, `HF_HOME` and `CUDA_VISIBLE_DEVICES`, say where and how fast a training runs, not what it computes.
"""

import os
import re

from hermes_lab.errors import ConfigError
from hermes_lab.training import processes

_REMOVED = re.compile(
    r"ACCELERATE_.*"  # number format, device, gradient accumulation, compilation
    r"|FSDP_.*|PARALLELISM_CONFIG_.*|MEGATRON_LM_.*|DEEPSPEED_.*|SM_.*|SMDATAPARALLEL_.*|FORK_LAUNCHED"
    r"|XLA_(?:USE|DOWNCAST)_BF16|PT_HPU_LAZY_MODE|PJRT_DEVICE"
    r"|TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD|TRUST_REMOTE_CODE"  # would run code from files
)
_OF_A_LAUNCHER = re.compile(r"(?:GROUP_|ROLE_|LOCAL_|NODE_)?RANK|(?:LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|TORCHELASTIC_.*")
"""Needed by a training in several processes, and removed from one in a single process."""
_REFUSED = {
    "NVIDIA_TF32_OVERRIDE": ("0",),
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": ("0",),
    "ONEDNN_DEFAULT_FPMATH_MODE": ("strict",),
    "DNNL_DEFAULT_FPMATH_MODE": ("strict",),
    "ONEDNN_MAX_CPU_ISA": ("default", "all"),
    "DNNL_MAX_CPU_ISA": ("default", "all"),
    "ATEN_CPU_CAPABILITY": (),
    "MKL_ENABLE_INSTRUCTIONS": (),
}
"""Variables that torch and its libraries read when they are loaded, and that change the numbers they compute, with the
values that do not."""


def remove_variables() -> list[str]:
    """Removes the variables that would decide instead of the training's arguments, and returns their names.

    Those that connect a launcher's processes stay if there are several.
    """
    several = processes.count() > 1
    removed = sorted(
        name for name in os.environ if _REMOVED.fullmatch(name) or (not several and _OF_A_LAUNCHER.fullmatch(name))
    )
    for name in removed:
        del os.environ[name]
    return removed


def refuse_numbers() -> None:
    """Raises `ConfigError` if a variable would change the numbers that torch computes."""
    for name, harmless in _REFUSED.items():
        if (value := os.environ.get(name, "").strip()) and value.lower() not in harmless:
            raise ConfigError(
                f"environment variable {name}={value}: it would change the numbers that the training computes, under "
                "the same lock; unset it"
            )
