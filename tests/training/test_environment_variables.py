"""Variables of the libraries are removed before a training, or it is refused."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hermes_lab.errors import ConfigError
from hermes_lab.training.device import check_device
from hermes_lab.training.environment import refuse_numbers, remove_variables
from hermes_lab.training.lock import load_lock
from hermes_lab.training.lora import require_libraries

LOCK = Path("configs/locks/sft-cpu.yaml")


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Puts the environment back: a training removes variables for good."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(
    "name",
    ["ACCELERATE_MIXED_PRECISION", "ACCELERATE_TORCH_DEVICE", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
     "ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_USE_CPU", "FSDP_OFFLOAD_PARAMS", "PARALLELISM_CONFIG_TP_SIZE",
     "SM_HP_MP_PARAMETERS", "XLA_USE_BF16", "XLA_DOWNCAST_BF16", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "PJRT_DEVICE"],
)  # fmt: skip
def test_a_training_removes_what_would_decide_in_its_place(name: str) -> None:
    os.environ[name] = "1"
    require_libraries(load_lock(LOCK))
    assert name not in os.environ


def test_the_places_of_a_single_process_are_removed_and_the_rest_stays() -> None:
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "x"}
    kept = {"HF_HOME": "/x", "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "2", "WANDB_MODE": "online"}
    os.environ |= kept
    removed = remove_variables()
    assert {"RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"} <= set(removed)
    assert kept.items() <= os.environ.items()


def test_what_connects_the_processes_of_a_launcher_stays() -> None:
    launched = {
        "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
        "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    os.environ |= launched | {"ACCELERATE_MIXED_PRECISION": "fp16"}
    assert remove_variables() == ["ACCELERATE_MIXED_PRECISION"]
    assert launched.items() <= os.environ.items()


@pytest.mark.parametrize(
    "setting",
    ["NVIDIA_TF32_OVERRIDE=1", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1", "ONEDNN_DEFAULT_FPMATH_MODE=BF16",
     "DNNL_DEFAULT_FPMATH_MODE=ANY", "ONEDNN_MAX_CPU_ISA=AVX2", "DNNL_MAX_CPU_ISA=SSE41",
     "ATEN_CPU_CAPABILITY=default", "MKL_ENABLE_INSTRUCTIONS=SSE4_2"],
)  # fmt: skip
def test_other_numbers_are_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    os.environ[name] = value
    with pytest.raises(
        ConfigError, match=rf"^environment variable {setting}: it would change the numbers .*; unset it$"
    ):
        require_libraries(load_lock(LOCK))


@pytest.mark.parametrize(
    "setting", ["NVIDIA_TF32_OVERRIDE=0", "ONEDNN_DEFAULT_FPMATH_MODE=STRICT", "DNNL_MAX_CPU_ISA="]
)
def test_the_usual_numbers_are_let_be(setting: str) -> None:
    name, _, value = setting.partition("=")
    os.environ[name] = value
    refuse_numbers()


def test_a_lock_for_a_gpu_is_not_trained_on_a_cpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    locked = load_lock(Path("configs/locks/sft-qwen2.5-0.5b-instruct-24gb.yaml"))
    with pytest.raises(ConfigError, match=r"^lock: hardware: the lock is for a GPU of 24 GB, and PyTorch sees none: "):
        check_device(locked)
    check_device(locked, planned=True)
