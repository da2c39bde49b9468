"""The libraries' environment variables, really: the same adapter with them set, and none that we have not looked at."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.episodes import episode, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, smoke_lock

from hermes_lab.training import environment
from hermes_lab.training.config import TrainConfig

pytestmark = TRAINING

SET = {
    "ACCELERATE_MIXED_PRECISION": "bf16",
    "ACCELERATE_TORCH_DEVICE": "meta",
    "ACCELERATE_USE_CPU": "0",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
    "ACCELERATE_DYNAMO_BACKEND": "eager",
    "FSDP_OFFLOAD_PARAMS": "1",
    "PARALLELISM_CONFIG_TP_SIZE": "2",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "XLA_USE_BF16": "1",
    "XLA_DOWNCAST_BF16": "1",
    "SM_HP_MP_PARAMETERS": '{"partitions": 2}',
    "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
    # Harmless ones.
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "PYTORCH_JIT": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "USE_HUB_KERNELS": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_MODULES_CACHE": "/nonexistent",
    "HF_DATASETS_IN_MEMORY_MAX_SIZE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "CI": "1",
    "WANDB_WATCH": "all",
    "MLFLOW_RUN_ID": "x",
    "PYTHONHASHSEED": "7",
}
TRAIN = """
import sys
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.sft import train_sft

lock, run, out = sys.argv[1:]
train_sft(TrainConfig(lock=lock, data=(run,), adapters=out), lambda line: None)
"""


def test_an_adapter_is_the_same_bytes_with_all_of_them_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_lab.training.sft import train_sft

    base = str(tiny_model(tmp_path / "base"))
    lock = smoke_lock(tmp_path, "sft", base_model=base, tokenizer=base, total_steps=3, batch_size=2, learning_rate=0.01)
    run = write_run(tmp_path / "run", *(episode(f"task {n}") for n in range(4)))
    for name in SET:
        monkeypatch.delenv(name, raising=False)
    clean = train_sft(TrainConfig(lock=lock, data=(str(run),), adapters=str(tmp_path / "clean")), print)
    # Libraries read them when they are imported.
    command = [sys.executable, "-c", TRAIN, lock, str(run), str(tmp_path / "set")]
    subprocess.run(command, env=os.environ | SET, check=True)
    made = [folder / "adapter_model.safetensors" for folder in (clean, tmp_path / "set" / "sft-v1")]
    assert made[0].read_bytes() == made[1].read_bytes()


HARMLESS = {
    r"HF_.*|HUGGINGFACE_.*|HUGGING_FACE_.*|XDG_.*|TMPDIR|TMP|TEMP|systemdrive|AWS_.*|SPACE_.*|OAUTH_.*|OPENID_.*"
    r"|CLAUDE_.*|WEBHOOK_.*|DATABRICKS_.*|ECS_.*|TRAINING_JOB_ARN|VERTEX_.*|GITHUB_ACTIONS|ACTIONS_.*|HFJOBS_.*"
    r"|JOB_ID": "where files come from; weights and tokenizer are compared by their digests",
    r"TRANSFORMERS_(VERBOSITY|NO_ADVISORY_WARNINGS|IS_CI|OFFLINE|DISABLE_.*)|.*_VERBOSITY|.*LOG_LEVEL|CI|TQDM_.*|NO_COLOR"
    r"|VLLM_LOGGING_LEVEL|SHELL"
    r"|DISABLE_TELEMETRY|DO_NOT_TRACK|NETWORK_DEBUG_.*|TRL_EXPERIMENTAL_SILENCE|EAGER_IMPORT": "what is printed",
    r"WANDB_.*|COMET_.*|MLFLOW_.*|CLEARML_.*|SWANLAB_.*|TENSORBOARD_.*|KUBEFLOW_.*|DISABLE_(KUBEFLOW|MLFLOW)_.*|RAY_SCOPE"
    r"|BRANCH|TRACKIO_.*|NEPTUNE_.*|AZUREML_.*|FLYTE_.*": "trackers: the lock says which one is used",
    r"MASTER_.*|NPROC|NCCL_.*|HCCL_.*|TPU_NAME": "several processes, of which there is one",
    r"(CUDA|HIP)_VISIBLE_DEVICES|CUDA_(LAUNCH_BLOCKING|HOME|PATH)|ASCEND_.*|CUBLAS_WORKSPACE_CONFIG|OMP_NUM_THREADS"
    r"|TOKENIZERS_PARALLELISM|PYTORCH_ENABLE_MPS_FALLBACK|PYTORCH_CNDEV_.*|NPU_.*|KMP_.*": "which device, and how fast",
    r"USE_(HUB_KERNELS|JAX|TF|TORCH|TORCH_XLA)|TF_CPP_.*|FLASH_ATTENTION_DETERMINISTIC": "code that is not used here",
    r"PMI_SIZE|OMPI_COMM_WORLD_SIZE|MV2_COMM_WORLD_SIZE|OPENREWARD_.*|FOO|VAR1": "refused above 1; examples",
    r"DEEPSPEED_.*": "of another launcher, which is refused",
}  # fmt: skip
_READ = re.compile(
    r"""(?:environ(?:\.get|\.pop|\.setdefault)?\s*[(\[]|getenv\(|(?:parse_flag|parse_choice)_from_env\()\s*["']([A-Za-z_]\w*)"""
)


def read_by(library: str) -> set[str]:
    """The names of the variables that a library's Python code reads."""
    spec = importlib.util.find_spec(library)
    assert spec
    assert spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    files = [
        path for path in root.rglob("*.py") if not re.search(r"testing_utils|test_utils", str(path.relative_to(root)))
    ]
    return {name for path in files for name in _READ.findall(path.read_text(errors="ignore"))}


@pytest.mark.parametrize("library", ["accelerate", "trl", "peft", "transformers"])
def test_every_variable_that_a_library_reads_loses_is_refused_or_is_harmless(library: str) -> None:
    removed = (environment._REMOVED.pattern, environment._OF_A_LAUNCHER.pattern)
    known = re.compile("|".join([*removed, *environment._REFUSED, *HARMLESS]))
    found = read_by(library)
    assert found
    assert sorted(name for name in found if not known.fullmatch(name)) == []


def test_torch_reads_no_other_variable_about_numbers() -> None:
    about = re.compile(r".*(TF32|PRECISION|BF16|FP16|FPMATH|DTYPE|CPU_CAPABILITY|_ISA$|DETERMIN).*")
    known = re.compile(
        "|".join(
            [
                environment._REMOVED.pattern,
                environment._OF_A_LAUNCHER.pattern,
                *environment._REFUSED,
                r"TORCHINDUCTOR_.*|TORCHDYNAMO_.*",
            ]
        )
    )
    assert sorted(name for name in read_by("torch") if about.fullmatch(name) and not known.fullmatch(name)) == []
