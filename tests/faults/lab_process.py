"""The real command line as a process, what it wrote, and what of it is alive."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running

from hermes_lab.records import episode_files, read_attempts, read_episodes
from hermes_lab.types import Episode

Found = TypeVar("Found")

COMMAND = [sys.executable, "-m", "hermes_lab"]
PATIENCE = 300.0
"""Seconds after which what is waited for is held to come no more."""


def lab_alone(*args: object) -> subprocess.CompletedProcess[str]:
    """`hermes-lab` in a process of its own, to its end: where its workers or all that it prints are tested."""
    return subprocess.run([*COMMAND, *map(str, args)], capture_output=True, text=True)


def start(*args: str | Path, under: Sequence[str] = ()) -> subprocess.Popen[str]:
    """`hermes-lab`, running; `under` is a command that becomes it."""
    return subprocess.Popen(
        [*under, *COMMAND, *map(str, args)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it said on stderr, once it has ended."""
    _, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, errors


def options(**chosen: object) -> list[str]:
    """`-c` options; `__` in a name stands for its dot."""
    return [part for name, value in chosen.items() for part in ("-c", f"{name.replace('__', '.')}={value}")]


LEARNER = options(model__provider="scripted", model__name="hermes_lab.tasks.learner:learner")


def on_endpoint(base_url: str, folder: Path, rows: Sequence[dict[str, Any]], **more: object) -> list[str]:
    """Options: a JSONL suite of these rows, written to `folder`, at the fake endpoint."""
    return options(suite__path=write_tasks(folder, rows), model__name="fake", model__base_url=base_url, **more)


def write_tasks(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A JSONL suite."""
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_the_prompt(body: dict[str, Any]) -> Reply:
    """A model that runs its prompt as a command, and answers with what that printed."""
    last = body["messages"][-1]
    if last["role"] == "user":
        return Reply(tool_calls=[function_call("call", "terminal", {"command": last["content"]})])
    return Reply(json.loads(last["content"])["output"])


def prompt_server(port: int = 0) -> AbstractContextManager[FakeOpenAIServer]:
    """A server of that model."""
    return running(FakeOpenAIServer(run_the_prompt, port=port))


def learner_tasks(number: int, concurrency: int) -> list[str]:
    """`run`: tasks of a world of rules, by a learner that solves some."""
    suite = options(suite__name="ledger", suite__count=number, agent__toolsets="[terminal,skill_view,skill_manage]")
    return ["run", *suite, *LEARNER, *options(run__concurrency=concurrency), "--quiet"]


def check_same_rows(folder: Path, args: Sequence[str], there: Sequence[str]) -> Path:
    """Runs a command here, and again as the options `there` say, and returns the second run."""
    here = lab(*args, "--out", folder / "here")
    assert here.returncode == 0, here.stderr
    away = lab_alone(*args, *there, "--out", folder / "there")
    assert away.returncode == 0, away.stderr
    assert rows(folder / "there") == rows(folder / "here")
    return folder / "there"


def check_same_commands(folder: Path, there: Sequence[str], number: int, concurrency: int) -> None:
    """Of many short tasks, each a command in a sandbox of its own; a third of them is not solved."""
    wanted = [{"prompt": f"echo $((7 * {n}))", "expected_output": str(7 * n + (n % 3 == 0))} for n in range(number)]
    with prompt_server() as model:
        asked = on_endpoint(model.base_url, folder, wanted, agent__toolsets="[terminal]", run__concurrency=concurrency)
        run = check_same_rows(folder, ["run", *asked, "--quiet"], there)
    assert len(keys(run)) == number
    assert sum(bool(episode.success) for episode in read_episodes(run)) == number - len(range(0, number, 3))


def check_same_lanes(folder: Path, there: Sequence[str]) -> None:
    """What lanes learn."""
    lanes = options(suite__name="ledger", learning__worlds=2, learning__rounds=3, learning__round_size=2)
    check_same_rows(folder, ["experiment", *lanes, *LEARNER, "--quiet"], there)
    here, away = (sorted(path.name for path in (folder / out / "skills").iterdir()) for out in ("here", "there"))
    assert here == away


def count(run: Path) -> int:
    """Whole lines of the log."""
    return sum(path.read_bytes().count(b"\n") for path in episode_files(run))


def keys(run: Path) -> list[str]:
    """Of all records, in no order; one that was run twice is there twice."""
    return sorted(episode.key for episode in read_attempts(run, Episode))


def rows(run: Path) -> list[tuple[object, ...]]:
    """What must be the same however often a run was interrupted: everything but clocks."""
    return sorted(
        (
            e.key,
            e.status,
            e.score,
            e.success,
            e.experience,
            e.skills.snapshot,
            e.trajectory and (e.trajectory.final_response, [(m.role, m.content) for m in e.trajectory.messages]),
            e.review and ([m.content for m in e.review.trajectory.messages], [w.text for w in e.review.writes]),
        )
        for e in read_episodes(run)
    )


def wait_until(holds: Callable[[], Found], process: subprocess.Popen[str] | None = None) -> Found:
    """What is waited for, once it is there; for no longer than `process` lives."""
    end = time.monotonic() + PATIENCE
    while True:
        began = time.monotonic()
        if found := holds():
            return found
        assert began < end, "it never came"
        assert process is None or process.poll() is None, f"it ended too early: {finish(process)}"
        time.sleep(max(0.02, 2 * (time.monotonic() - began)))  # looking leaves the processes most of the time


def first_process(command: str) -> int | None:
    """Process 1 of the sandbox in which `command` runs, if it does."""
    for process in Path("/proc").glob("[0-9]*"):
        if command in _read(process / "cmdline").replace("\0", " "):
            status = _status(process)
            while len(status.get("NSpid", ())) > 1:
                if status["NSpid"][-1] == "1":
                    return int(status["Pid"][0])
                status = _status(Path("/proc", status["PPid"][0]))
    return None


def ended_in(scratch: Path) -> bool:
    """Whether every sandbox below `scratch` has ended; one that was killed a moment ago may still be about it."""
    end = time.monotonic() + 10
    while alive := [process.name for process in Path("/proc").glob("[0-9]*") if _is_in(process, scratch)]:
        if time.monotonic() > end:
            print("alive:", {name: _read(Path("/proc", name, "cmdline")) for name in alive})
            return False
        time.sleep(0.02)
    return True


def _is_in(process: Path, scratch: Path) -> bool:
    return f"{scratch.name}/" in _read(process / "mountinfo") + _read(process / "cmdline")


def _status(process: Path) -> dict[str, list[str]]:
    """Nothing of a process that has ended since it was found."""
    lines = (line.split() for line in _read(process / "status").splitlines())
    return {words[0].rstrip(":"): words[1:] for words in lines}


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended, or is none of ours
        return ""
