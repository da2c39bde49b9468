"""Runs in several processes of this machine: the same rows as in one, and nothing lost where a worker or the driver is
killed."""

import os
import random
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from fakes.command import lab
from lab_process import (
    check_same_commands,
    check_same_lanes,
    count,
    ended_in,
    finish,
    keys,
    lab_alone,
    learner_tasks,
    options,
    rows,
    start,
    wait_until,
    write_tasks,
)

from hermes_lab.records import read_episodes

pytestmark = pytest.mark.timeout(600)

TASKS, MANY = 16, 24

POLICY = '''
"""A policy that logs, and kills its process at one task."""
import logging, os, signal
from hermes_lab.types import Message

def make():
    def policy(messages):
        if messages[-1].content == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if messages[-1].content == "warn":
            logging.getLogger("policy").warning("a warning from a worker")
        return Message(role="assistant", content="done")
    return policy
'''


def in_processes(number: int = 2) -> list[str]:
    return options(run__executor="processes", run__processes=number)


def tasks(number: int = TASKS) -> list[str]:
    return learner_tasks(number, concurrency=6)


def workers(driver: subprocess.Popen[str]) -> list[int]:
    """The worker processes of a run."""
    return [
        child.pid
        for child in psutil.Process(driver.pid).children()
        if any("runners.processes.worker" in word for word in child.cmdline())
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """The rows of the run in one process."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    assert lab(*tasks(), "--out", out).returncode == 0
    return rows(out)


def test_a_run_in_two_processes_has_the_rows_of_one(tmp_path: Path) -> None:
    check_same_commands(tmp_path, in_processes(), MANY, concurrency=8)


def test_what_lanes_learn_in_two_processes_is_what_they_learn_in_one(tmp_path: Path) -> None:
    check_same_lanes(tmp_path, in_processes())


def test_what_a_killed_worker_had_begun_is_run_on_another(
    undisturbed: list[tuple[object, ...]], scratch: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(*tasks(), *in_processes(), "--out", out)
    wait_until(lambda: count(out) >= TASKS // 4, process)
    os.kill(random.choice(workers(process)), signal.SIGKILL)
    code, errors = finish(process)
    assert code == 0, errors
    assert ended_in(scratch)
    assert len(keys(out)) == TASKS
    assert rows(out) == undisturbed


def test_a_rollout_that_kills_its_workers_is_errored_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "policy_that_dies.py").write_text(POLICY)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    asked = write_tasks(tmp_path, [{"prompt": prompt} for prompt in ("a", "warn", "die", "b")])
    model = options(model__provider="scripted", model__name="policy_that_dies:make", suite__path=asked)
    # One at a time: what runs beside it on a dying worker is tried again, too.
    args = ["run", *model, *options(run__concurrency=1), *in_processes(1), "--out", tmp_path / "run"]
    done = lab_alone(*args)
    assert done.returncode == 3
    episodes = {e.task_id: e for e in read_episodes(tmp_path / "run")}
    errored = [episode.error for episode in episodes.values() if episode.error]
    assert len(episodes) == 4
    (error,) = errored
    assert error.kind == "worker"
    assert error.message.startswith("3 workers died while running it, the last one on process ")
    assert "a warning from a worker" in done.stderr
    assert "; its rollouts restart on another worker" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_killed_driver_leaves_no_worker_and_resume_does_the_rest(
    undisturbed: list[tuple[object, ...]], scratch: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(*tasks(), *in_processes(), "--out", out)
    wait_until(lambda: count(out) >= TASKS // 4, process)
    left = workers(process)
    process.kill()
    finish(process)
    wait_until(lambda: not any(map(psutil.pid_exists, left)))
    assert ended_in(scratch)
    done = lab_alone(*tasks(), *in_processes(), "--out", out, "--resume")  # and in one process it could go on as well
    assert done.returncode == 0, done.stderr
    assert rows(out) == undisturbed
    assert len(keys(out)) == TASKS


def test_an_interrupt_ends_workers_and_sandboxes(scratch: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    before = set(scratch.iterdir())  # of processes that other tests killed: swept some time later
    process = start(*tasks(500), *in_processes(), "--out", out)
    wait_until(lambda: count(out) >= 5, process)
    left = workers(process)
    assert len(left) == 2
    process.send_signal(signal.SIGINT)
    code, errors = finish(process)
    assert code == 130, errors
    assert "continue with --resume" in errors
    assert "Traceback" not in errors
    assert not any(map(psutil.pid_exists, left))
    assert ended_in(scratch)
    assert set(scratch.iterdir()) <= before


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"run__processes": -1}, "override run.processes=-1: run.processes:"),
        ({"run__executor": "local", "run__processes": 2}, "override run.processes=2: run.processes is not used with"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_line(wrong: dict[str, object], error: str, tmp_path: Path) -> None:
    failed = lab(*tasks(4), *options(**{"run__executor": "processes", **wrong}), "--out", tmp_path / "run")
    assert failed.returncode == 2
    (line,) = failed.stderr.splitlines()
    assert line.startswith(f"hermes-lab: error: {error}")
