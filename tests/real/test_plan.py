"""`train sft --plan` and `train preference --plan` on a tiny model: what they say, and that they make nothing."""

import json
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.episodes import conversation, episode, trajectory, with_review, write_run
from fakes.tiny_model import tiny_model
from fakes.training import TRAINING, hardware, smoke_lock
from gpu_check import tokens_of_step

from hermes_lab.training import machine
from hermes_lab.training.lock import load_lock, lock_digest
from hermes_lab.training.plan import plan_grpo_steps
from hermes_lab.types import Message, Verdict

pytestmark = TRAINING


def sources(folder: Path, lock: str) -> list[str]:
    values = [f"lock={lock}", f"data=[{folder / 'run'}]", f"adapters={folder / 'adapters'}", "name=made"]
    return [part for value in values for part in ("-c", value)]


@pytest.fixture
def base(tmp_path: Path) -> str:
    return str(tiny_model(tmp_path / "base"))


def test_a_plan_says_what_a_training_needs_and_makes_nothing(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = smoke_lock(tmp_path, "sft", base_model=base, tokenizer=base, total_steps=5, batch_size=2)
    write_run(tmp_path / "run", *(episode(f"task {n}") for n in range(3)), with_review("the last"))
    done = lab("train", "sft", *sources(tmp_path, lock), "--plan")
    out = done.stdout
    assert done.returncode == 0
    assert out.startswith(f"sft under {lock}, on this CPU\n")
    for part in (
        "  data      4 rows",
        "  steps     5, each 2 rows",
        "measured now, on six layers",
        "  start     possible",
    ):
        assert part in out
    assert tokens_of_step(out) > 0
    assert not (tmp_path / "adapters").exists()
    monkeypatch.setattr(machine, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable: 100000 kB\n")
    done = lab("train", "sft", *sources(tmp_path, lock), "--plan")
    assert done.returncode == 2
    assert "  start     refused: it needs " in done.stdout
    assert "GB, and this CPU has 0.1 GB free: end other programs on it, or make a lock with a smaller" in done.stdout


def test_a_plan_refuses_to_resume_a_training_with_other_inputs(base: str, tmp_path: Path) -> None:
    lock = smoke_lock(tmp_path, "sft", base_model=base, tokenizer=base, total_steps=5, batch_size=2)
    write_run(tmp_path / "run", episode("task"))
    begun = tmp_path / "adapters" / "made-v1" / "checkpoints" / "made_from.json"
    begun.parent.mkdir(parents=True)
    begun.write_text(json.dumps({"lock": lock_digest(load_lock(Path(lock))), "data": "other"}))
    before = sorted(tmp_path.rglob("*"))
    done = lab("train", "sft", *sources(tmp_path, lock), "--plan", "--resume")
    assert (done.returncode, done.stdout) == (2, "")
    assert "made-v1 was started with another data; start without resume" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_plan_for_a_gpu_that_is_not_here_assumes_its_speed(base: str, tmp_path: Path) -> None:
    section = hardware(precision="bfloat16", gradient_checkpointing=True)
    lock = smoke_lock(tmp_path, "preference", base_model=base, tokenizer=base, hardware=section)
    for score in (0.0, 1.0):
        messages = [*conversation("Do t")[:-1], Message(role="assistant", content=f"Answer {score}.")]
        made = episode(
            "t", sample=int(score), score=score, verdicts=(Verdict(score, score == 1),), trajectory=trajectory(messages)
        )
        write_run(tmp_path / "run", made)
    done = lab("train", "preference", *sources(tmp_path, lock), "--plan")
    assert done.returncode == 2
    assert "a 24 GB GPU (not in this machine)" in done.stdout
    assert "  start     refused: the lock is for a GPU of 24 GB, and PyTorch sees none" in done.stdout
    assert "assumed: 35 TFLOP/s" in done.stdout


def test_a_plan_of_grpo_counts_the_longest_rollouts(base: str, tmp_path: Path) -> None:
    lock = smoke_lock(tmp_path, "grpo", base_model=base, tokenizer=base, max_token_length=64)
    locked = load_lock(Path(lock))
    assert locked.grpo
    made = plan_grpo_steps(lock, locked, locked.grpo, [("about", "what is sampled")])
    assert [(step.tokens, step.ran()) for step in made.steps] == [(8 * 64, 8 * 64)]
    rows = dict(made.rows())
    assert rows["about"] == "what is sampled"
    assert rows["memory"].startswith("at most ")
    assert ", without the server: weights " in rows["memory"]
    assert " for the steps, without the rollouts; " in rows["time"]
    assert made.seconds > 0
