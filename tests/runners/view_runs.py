"""Run folders, runs and a server for the tests of `hermes-lab view`."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from anyio.from_thread import start_blocking_portal
from fakes.episodes import RESULT, conversation, episode, trajectory
from fakes.openai_server import Reply

from hermes_lab.activity import Running, State
from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import RunManifest
from hermes_lab.records import write_json
from hermes_lab.runners.engine import running as engine
from hermes_lab.runners.view.runs import Runs
from hermes_lab.runners.view.server import serve
from hermes_lab.types import Episode, Message, TaskInfo

T = TypeVar("T")


def make_run(folder: Path, episodes: Sequence[Episode] = (), wanted: int = 0) -> Path:
    config = RunConfig().model_dump(mode="json")
    manifest = RunManifest(
        command="learn", config=config, config_digest="", tasks_digest="", wanted=wanted or len(episodes),
        created_at="2026-01-02T03:04:05+00:00", versions={},
    )  # fmt: skip
    write_json(folder / "run.json", manifest)
    (folder / "episodes").mkdir()
    add(folder, *episodes)
    return folder


def add(folder: Path, *episodes: Episode) -> None:
    with (folder / "episodes" / "w0-0.jsonl").open("ab") as file:
        for one in episodes:
            file.write(msgspec.json.encode(one) + b"\n")


def lesson(number: int, arm: str, success: bool, lane: int = 0) -> Episode:
    """An episode of an experiment, which says `word<number>`."""
    said = trajectory(conversation(f"Do word{number}", RESULT))
    return episode(
        f"t{number}", lane=f"{arm}-r0-w{lane}", round=number, experience=number, success=success, score=float(success),
        task=TaskInfo("d", "train", world=lane), trajectory=said,
    )  # fmt: skip


def set_running(
    folder: Path, *episodes: Running, pid: int | None = None, at: float | None = None, begun: str = ""
) -> None:
    pid = pid or os.getpid()
    file = engine.RunningFile(
        host=engine._host(), pid=pid, begun=begun or engine._begun(pid), at=at or time.time(), episodes=episodes
    )
    (folder / "running").mkdir(exist_ok=True)
    (folder / "running" / f"{pid}.json").write_bytes(msgspec.json.encode(file))


def in_progress(task: str, state: State, seconds: float, *said: str, turn: int = 2, arm: str = "on") -> Running:
    lane = f"{arm}-r0-w0"
    now = time.time()
    turns = tuple(Message("assistant", text) for text in said)
    key = f"made-up|{task}|{lane}|0|0"
    return Running(key, task, lane, state, now - seconds, now - seconds, turn=turn, messages=turns)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of the page on the runs of a folder."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serve(Runs(folder))) as address:
        yield address


def hang(body: dict[str, object]) -> Reply:
    """The script of an endpoint that never answers."""
    return Reply("late", delay=600)


def options(folder: Path, url: str, *more: str) -> list[str]:
    tasks = folder / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "stuck", "prompt": "Say it.", "expected_output": "Done."}) + "\n")
    chosen = (
        *("model.provider=openai", f"model.base_url={url}", "model.name=fake"),
        *("agent.toolsets=[terminal]", f"suite.path={tasks}", *more),
    )
    return ["run", *(word for one in chosen for word in ("-c", one)), "--out", str(folder / "run")]


@contextmanager
def processes() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `hermes-lab` in processes, which end with the block."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "hermes_lab", *args]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()


def wait_for(found: Callable[[], T], process: subprocess.Popen[str]) -> T:
    """What is found, once there is something."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if result := found():
            return result
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it did not come")
