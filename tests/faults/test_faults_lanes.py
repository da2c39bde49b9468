"""Several lanes that learn at once, killed and gone on with: all that they leave is that of an undisturbed run."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakes.command import lab
from lab_process import count, ended_in, finish, keys, options, rows, start, wait_until

from hermes_lab.runners.engine.lane_history import read_histories

KILLS = 2
LEARN = [
    "experiment",
    *options(suite__name="ledger", suite__options="{ruled: 2, plain: 0}", run__concurrency=4, skills__review_every=0),
    *options(learning__arms="[on, placebo]", learning__rounds=3, learning__round_size=2, memory__memory_chars=300),
    *options(agent__toolsets="[terminal, learning]", model__provider="scripted"),
    *options(model__name="fakes.note_taker:note_taker"),
    "--quiet",
]


def left(run: Path) -> dict[str, bytes | str]:
    """Every snapshot, note and history by its path, and where the lanes' links lead."""
    found: dict[str, bytes | str] = {}
    for folder in ("skills", "memory", "lanes"):
        for path in sorted((run / folder).rglob("*")):
            name = path.relative_to(run)
            if path.is_symlink():
                found[str(name)] = str(path.readlink())
            elif path.is_file() and not any(part.startswith(".") for part in name.parts):  # else what a kill left
                found[str(name)] = path.read_bytes()
    return found


def kill_at_a_moment(process: subprocess.Popen[str], run: Path, draw: random.Random) -> None:
    """Some episodes later, and then at any moment of about an episode's length."""
    more = count(run) + draw.randrange(4)
    wait_until(lambda: count(run) >= more or process.poll() is not None)
    time.sleep(draw.uniform(0, 0.1))
    process.kill()


def test_lanes_with_notes_that_are_killed_leave_the_very_bytes_of_an_undisturbed_run(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    whole, run = tmp_path / "whole", tmp_path / "run"
    done = lab(*LEARN, "--out", whole)
    assert done.returncode == 0, done.stderr
    wanted = left(whole)
    borders = [border for history in read_histories(whole).values() for border in history]
    assert len(borders) == 6
    assert all(any(getattr(border, what) for border in borders) for what in ("merged", "dropped", "emptied"))
    assert all(any(getattr(border.notes, what) for border in borders) for what in ("merged", "dropped"))

    seed = int(os.environ.get("FAULTS_SEED", time.time_ns() % 1_000_000))
    print(f"FAULTS_SEED={seed}")
    draw = random.Random(seed)
    for _ in range(KILLS):
        process = start(*LEARN, "--out", run, *resume(run))
        kill_at_a_moment(process, run, draw)
        assert finish(process)[0] in (0, -signal.SIGKILL)
    done = lab(*LEARN, "--out", run, *resume(run))
    assert done.returncode == 0, done.stderr
    assert left(run) == wanted
    assert rows(run) == rows(whole)
    assert keys(run) == keys(whole)
    assert ended_in(scratch)


def resume(run: Path) -> list[str]:
    return ["--resume"] if (run / "run.json").exists() else []
