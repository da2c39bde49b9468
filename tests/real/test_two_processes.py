"""One training in two processes, as a launcher starts them, on CPUs: the locked batch is divided, not multiplied."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.command import lab
from fakes.episodes import conversation, episode, trajectory, with_review, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, hardware, smoke_lock

from hermes_lab.models.cards import read_card
from hermes_lab.training import lora
from hermes_lab.types import Message, Verdict

pytestmark = TRAINING

LAUNCHERS = {
    "accelerate": [
        *("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", "0"),
        *("--mixed_precision", "bf16"),  # which the lock decides
    ],
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
}


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock for a GPU is accepted on this CPU."""
    monkeypatch.setattr(lora, "check_device", lambda *_, **__: None)


def train(method: str, folder: Path, lock: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Trains in this process."""
    return lab("train", method, *sources(folder, lock, 1), **environment)


def train_in_two(method: str, folder: Path, lock: str, launcher: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *LAUNCHERS[launcher], "-m", "fakes.gpu_lock_on_cpu", "train", method]
    return subprocess.run(
        [*command, *sources(folder, lock, 2)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def sources(folder: Path, lock: str, processes: int) -> list[str]:
    given = [f"lock={lock}", f"data=[{folder / 'run'}]", f"adapters={folder / f'adapters-{processes}'}", "name=made"]
    return [part for value in given for part in ("-c", value)]


def weights(folder: Path, processes: int) -> Any:
    from safetensors.torch import load_file

    return load_file(folder / f"adapters-{processes}" / "made-v1" / "adapter_model.safetensors")


def steps(folder: Path, processes: int) -> list[dict[str, float]]:
    text = (folder / f"adapters-{processes}" / "made-v1" / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(("method", "launcher"), [("sft", "accelerate"), ("preference", "torchrun")])
def test_two_processes_train_the_adapter_of_one(tmp_path: Path, method: str, launcher: str) -> None:
    import torch

    base = str(tiny_model(tmp_path / "base"))
    pace = {"total_steps": 3, "batch_size": 4, "warmup_steps": 0, "save_checkpoint_interval": 2}
    values = {"base_model": base, "tokenizer": base, "learning_rate": 0.01, "hardware": hardware()}
    lock = smoke_lock(tmp_path, method, **pace, **values)
    if method == "sft":
        write_run(tmp_path / "run", *(episode(f"task {n}" * (n + 1)) for n in range(6)), with_review("the last"))
    else:
        write_run(tmp_path / "run", *(sample(task, n) for task in "tuvwx" for n in (0, 1)))
    for processes, done in ((1, train(method, tmp_path, lock)), (2, train_in_two(method, tmp_path, lock, launcher))):
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(tmp_path / f"adapters-{processes}" / "made-v1")]
    one, two = steps(tmp_path, 1), steps(tmp_path, 2)
    assert [step["step"] for step in two] == [1, 2, 3]
    for field in ("loss", "learning_rate", "grad_norm"):
        assert [step[field] for step in two] == pytest.approx([step[field] for step in one], rel=0.02, abs=1e-6)
    cards = [read_card(tmp_path / f"adapters-{processes}" / "made-v1") for processes in (1, 2)]
    assert cards[0].data_digest == cards[1].data_digest
    torch.testing.assert_close(weights(tmp_path, 2), weights(tmp_path, 1), atol=2e-3, rtol=0.05)


def sample(task_id: str, number: int) -> Any:
    messages = [*conversation(f"Do {task_id}")[:-1], Message(role="assistant", content=f"Answer {number} is right.")]
    score = float(number)
    verdict = Verdict(score, number == 1)
    return episode(task_id, sample=number, score=score, verdicts=(verdict,), trajectory=trajectory(messages))


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_batch_that_processes_cannot_share_is_refused_in_each(tmp_path: Path, rank: str) -> None:
    base = str(tiny_model(tmp_path / "base"))
    lock = smoke_lock(tmp_path, "sft", base_model=base, tokenizer=base, batch_size=3)
    write_run(tmp_path / "run", episode("task"))
    launched = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    done = train("sft", tmp_path, lock, **launched)
    assert done.returncode != 0
    assert "batch_size is locked at 3, which 2 processes cannot share evenly" in done.stderr
    assert not (tmp_path / "adapters-1").exists()
