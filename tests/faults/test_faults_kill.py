"""Runs that are killed or interrupted, and gone on with: each row of an undisturbed run, and each once."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer
from lab_process import (
    LEARNER,
    count,
    ended_in,
    finish,
    first_process,
    keys,
    lab_alone,
    on_endpoint,
    options,
    prompt_server,
    rows,
    start,
    wait_until,
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAIServer]:
    with prompt_server() as started:
        yield started


def squares(folder: Path, server: FakeOpenAIServer, tasks: int) -> list[str]:
    """`run`: a JSONL suite of which every other task is solved, twice each."""
    wanted = [{"prompt": f"echo $(({i} * {i}))", "expected_output": str(i * i + i % 2)} for i in range(tasks)]
    return ["run", *on_endpoint(server.base_url, folder, wanted, run__samples=2), "--quiet"]


def learning(**shape: int) -> list[str]:
    """`learn`: a learner whose every round depends on the one before it."""
    lanes = options(suite__name="ledger", **{f"learning__{name}": value for name, value in shape.items()})
    return ["experiment", *lanes, *LEARNER, *options(run__concurrency=4), "--quiet"]


@dataclass
class Torment:
    """Starts a command again and again, and kills each start with -9; every finished folder is compared with a run that
    nothing disturbed."""

    args: list[str]
    folder: Path
    kill: Callable[["Torment", subprocess.Popen[str], Path], None]
    """Waits, and kills the process that works in the folder; it may end before."""
    kills: int = 0
    finished: int = 0
    wanted: list[tuple[object, ...]] = field(default_factory=list)
    seconds: float = 0.0

    def measure(self) -> "Torment":
        began = time.monotonic()
        done = lab_alone(*self.args, "--out", self.folder / "whole")
        self.seconds = time.monotonic() - began
        assert done.returncode == 0, done.stderr
        self.wanted = rows(self.folder / "whole")
        return self

    def go_on(self, kills: int) -> "Torment":
        while self.kills < kills:
            run = self.folder / f"run-{self.finished}"
            process = self.start(run)
            self.kill(self, process, run)
            returncode, errors = finish(process)
            if returncode == -signal.SIGKILL:
                self.kills += 1
            else:
                assert returncode == 0, errors
                self.check(run)
        run = self.folder / f"run-{self.finished}"
        assert finish(self.start(run)) == (0, "")
        self.check(run)
        return self

    def start(self, run: Path) -> subprocess.Popen[str]:
        resume = ["--resume"] if (run / "run.json").exists() else []
        return start(*self.args, "--out", run, *resume)

    def check(self, run: Path) -> None:
        assert rows(run) == self.wanted
        assert keys(run) == sorted({str(row[0]) for row in self.wanted})
        self.finished += 1


def after_some_episodes(torment: Torment, process: subprocess.Popen[str], run: Path) -> None:
    """In the middle of work: after a few episodes more."""
    more = count(run) + 1 + torment.kills % 2
    wait_until(lambda: count(run) >= more or process.poll() is not None)
    process.kill()


def test_kill_9_in_mid_run_then_resume_gives_each_row_of_an_uninterrupted_run_once(
    server: FakeOpenAIServer, tmp_path: Path, scratch: Path
) -> None:
    both = {}
    for name, args in (("run", squares(tmp_path, server, 8)), ("experiment", learning(rounds=3, round_size=2))):
        both[name] = Torment(args, tmp_path / name, after_some_episodes)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda torment: torment.measure().go_on(kills=2), both.values()))
    assert ended_in(scratch)


def test_kill_9_in_mid_command_leaves_no_process(server: FakeOpenAIServer, tmp_path: Path, scratch: Path) -> None:
    command = f"sleep 700.{os.getpid()}"
    asked = on_endpoint(server.base_url, tmp_path, [{"prompt": f"{command} & {command}"}])
    process = start("run", *asked, "--out", tmp_path / "run")
    wait_until(lambda: first_process(command), process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert ended_in(scratch)


KILLS = int(os.environ.get("SIMULATIONS", "6"))
"""At random moments, half of them of `run` and half of `experiment`. `make simulations` has 100."""


@pytest.mark.long
def test_kills_at_random_moments_lose_no_row_and_double_none(
    server: FakeOpenAIServer, tmp_path: Path, scratch: Path
) -> None:
    seed = int(os.environ.get("FAULTS_SEED", time.time_ns() % 1_000_000))
    print(f"FAULTS_SEED={seed}")
    draws = {name: random.Random(f"{seed}/{name}") for name in ("run", "experiment")}

    def at_random(torment: Torment, process: subprocess.Popen[str], run: Path) -> None:
        """At any moment of a start's typical length, imports and planning included."""
        try:
            process.wait(draws[torment.folder.name].uniform(0.05, min(torment.seconds, 2.5)))
        except subprocess.TimeoutExpired:
            process.kill()

    both = {}
    for name, args in (
        ("run", squares(tmp_path, server, 2 * KILLS)),
        ("experiment", learning(rounds=KILLS // 10 + 3, round_size=2, worlds=2)),
    ):
        both[name] = Torment(args, tmp_path / name, at_random)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda torment: torment.measure().go_on(kills=KILLS // 2), both.values()))
    for name, torment in both.items():
        print(f"{name}: {torment.kills} kills, {torment.finished} runs, {torment.seconds:.1f} s a whole one")
    assert sum(torment.kills for torment in both.values()) == 2 * (KILLS // 2)
    assert ended_in(scratch)


BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "-")  # so a script's shell starts what it does not wait for


INTERRUPTS: dict[str, tuple[list[signal.Signals], Sequence[str]]] = {
    "Ctrl-C": ([signal.SIGINT], ()),
    "a scheduler": ([signal.SIGTERM], BACKGROUND),
    "impatience": ([signal.SIGINT, signal.SIGTERM, *[signal.SIGINT] * 8], ()),
}


def test_an_interrupt_keeps_what_is_finished_says_how_to_go_on_and_leaves_no_process(
    tmp_path: Path, scratch: Path
) -> None:
    asleep = f"sleep 800.{os.getpid()}"
    wanted = [{"prompt": asleep}, *[{"prompt": "echo awake"}] * 20]

    def interrupt(name: str) -> None:
        run, (signals, under) = tmp_path / name, INTERRUPTS[name]
        process = start(*args, "--out", run, under=under)
        wait_until(lambda: first_process(asleep) and count(run) >= 5, process)
        for sent in signals:
            process.send_signal(sent)
            time.sleep(0.01)
        returncode, errors = finish(process)
        assert returncode == 130, errors
        (said,) = errors.splitlines()
        assert said == f"interrupted: {count(run)} of 21 episodes are kept; continue with --resume"
        assert len(set(keys(run))) == count(run) < 21

    with prompt_server() as server, ThreadPoolExecutor() as pool:
        args = ["run", *on_endpoint(server.base_url, tmp_path, wanted), "--quiet"]
        list(pool.map(interrupt, INTERRUPTS))
        assert ended_in(scratch)
        server.script = ["Awake."]
        resumed = lab(*args, "--out", tmp_path / "impatience", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert len(keys(tmp_path / "impatience")) == len(set(keys(tmp_path / "impatience"))) == 21
