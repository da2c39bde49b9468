"""Tickers that are killed: no slot runs twice, and what was interrupted is told."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.cron.jobs import JobStore, definition_of
from hermes_lab.cron.runs import RunStore
from hermes_lab.cron.ticker import beats

KILLS = 8
PROGRAM = """
import sys
from pathlib import Path
import anyio
from hermes_lab.cron.runs import Outcome, compact
from hermes_lab.cron.ticker import Ticker

home = Path(sys.argv[1])

async def run(claim, output):
    with (home / "ledger").open("a") as ledger:
        ledger.write(f"{claim.job.name} {compact(claim.slot)}\\n")
    await anyio.sleep(0.3)
    return Outcome("ok")

anyio.run(Ticker(home, run, say=lambda line: None).run)
"""

AT_A_THREADS_START = """
import signal
import sys

from anyio._backends._asyncio import WorkerThread

from hermes_lab.runners.cli import main

start = WorkerThread.start

def interrupted(self):
    start(self)
    signal.raise_signal(signal.SIGINT)

WorkerThread.start = interrupted
main()
"""
"""Ctrl-C after a worker thread has started and before its shutdown is registered."""


def ledger(home: Path) -> list[str]:
    file = home / "ledger"
    return file.read_text().splitlines() if file.exists() else []


def test_no_slot_runs_twice_whenever_the_ticker_is_killed(tmp_path: Path) -> None:
    chance = random.Random(5)
    for number in range(6):
        definition = definition_of(name=f"job{number}", schedule="every 1s", prompt="x", missed="once")
        JobStore(tmp_path).add(definition, datetime.now(UTC))
    for _ in range(KILLS):
        before = len(ledger(tmp_path))
        ticker = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)])
        while len(ledger(tmp_path)) < before + 4:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.8))
        ticker.kill()
        ticker.wait()
    store = RunStore(tmp_path)
    store.recover(datetime.now(UTC))
    runs = store.latest(10_000)
    ran = Counter(ledger(tmp_path))
    assert set(ran.values()) == {1}
    assert len(ran) >= 4 * KILLS
    states = Counter(run.state for run in runs)
    assert states["interrupted"]
    assert set(states) <= {"ok", "interrupted", "skipped"}
    assert states["ok"] + states["interrupted"] >= len(ran)  # a claim may be killed before it begins


def test_a_command_ends_with_its_killed_daemon_and_is_told_as_interrupted(tmp_path: Path) -> None:
    home = {"HERMES_HOME": str(tmp_path)}
    # A command that does not end by itself: another daemon.
    assert lab("cron", "add", "hang", "every 1s", "--command", "cron run", "--repeat", "1", **home).returncode == 0
    daemon = subprocess.Popen(
        [sys.executable, "-m", "hermes_lab", "cron", "run"], env=os.environ | home, stderr=subprocess.DEVNULL
    )
    while len(beats(tmp_path)) < 2:
        time.sleep(0.1)
    assert [run.state for run in RunStore(tmp_path).latest()] == ["running"]
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.wait()
    while len(beats(tmp_path)) > 1:  # the command leaves, as after Ctrl-C; the killed daemon cannot
        time.sleep(0.1)
    while "interrupted" not in (told := lab("cron", "runs", "hang", **home).stdout):
        ticked = lab("cron", "tick", **home)
        assert ticked.returncode == 0
    assert "its process ended" in told
    assert len(told.splitlines()) == 2


@pytest.mark.parametrize("command", [["run"], ["tick"], ["trigger", "job"]], ids=" ".join)
def test_a_command_that_is_interrupted_while_it_starts_a_thread_ends(tmp_path: Path, command: list[str]) -> None:
    home = {"HERMES_HOME": str(tmp_path)}
    assert lab("cron", "add", "job", "every 1d", "--command", "cron list", **home).returncode == 0
    started = [sys.executable, "-c", AT_A_THREADS_START, "cron", *command]
    ended = subprocess.run(started, env=os.environ | home, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not beats(tmp_path)
