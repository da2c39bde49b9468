"""One training in two processes, as a launcher starts them, on CPUs: the locked batch is divided, not multiplied."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import conversation, episode, trajectory, with_review, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, hardware, smoke_lock

from hermes_lab.models.cards import read_card
from hermes_lab.types import Message, Verdict

pytestmark = TRAINING

LAUNCHERS = {
    "accelerate": [
        *("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", "0"),
        *("--mixed_precision", "bf16"),  # which the lock decides
    ],
    "torchrun": ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
}


def train(method: str, folder: Path, launcher: str, lock: str) -> subprocess.CompletedProcess[str]:
    """Trains in two processes, or in one if there is no `launcher`."""
    processes = 2 if launcher else 1
    launch = ["-m", *LAUNCHERS[launcher]] if launcher else []
    command = [sys.executable, *launch, "-m", "fakes.gpu_lock_on_cpu", "train", method]
    given = [f"lock={lock}", f"data=[{folder / 'run'}]", f"adapters={folder / f'adapters-{processes}'}", "name=made"]
    return subprocess.run(
        [*command, *(part for value in given for part in ("-c", value))],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )


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
    for processes, started in ((1, ""), (2, launcher)):
        done = train(method, tmp_path, started, lock)
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


def test_a_batch_that_processes_cannot_share_is_refused_once(tmp_path: Path) -> None:
    base = str(tiny_model(tmp_path / "base"))
    lock = smoke_lock(tmp_path, "sft", base_model=base, tokenizer=base, batch_size=3)
    write_run(tmp_path / "run", episode("task"))
    done = train("sft", tmp_path, "accelerate", lock)
    assert done.returncode != 0
    assert "batch_size is locked at 3, which 2 processes cannot share evenly" in done.stderr
    assert not (tmp_path / "adapters-2").exists()
