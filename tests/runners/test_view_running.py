"""What runs is on the disk for other processes and named in the terminal, and what was killed does not count as
running."""

import io
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, running
from rich.console import Console
from view_runs import hang, options, processes, wait_for

from hermes_lab.activity import EPISODE_ROOM, MESSAGE_ROOM, ROOM, Activities
from hermes_lab.runners.engine.running import STALE, LifeSigns, RunningFile, read_running
from hermes_lab.runners.engine.tally import Tally
from hermes_lab.runners.progress import LiveTable, Plain
from hermes_lab.types import Message, ToolCall, ToolResult

CALL = {"name": "terminal", "arguments": json.dumps({"command": "sleep 600"})}


def sleep_in_a_command(body: dict[str, object]) -> Reply:
    return Reply("I wait.", tool_calls=[{"id": "c", "type": "function", "function": CALL}])


@pytest.fixture
def hanging() -> Iterator[FakeOpenAIServer]:
    with running(FakeOpenAIServer(hang)) as server:
        yield server


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    with processes() as start_:
        yield start_


def test_a_waiting_episode_is_in_the_folder_and_in_the_terminal(
    hanging: FakeOpenAIServer, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start(*options(tmp_path, hanging.base_url))
    (file,) = wait_for(lambda: read_running(tmp_path / "run"), process)
    assert file.pid == process.pid
    assert file.alive(time.time())
    (episode,) = wait_for(lambda: [e for f in read_running(tmp_path / "run") for e in f.episodes if e.turn], process)
    assert (episode.task, episode.state, episode.turn) == ("stuck", "model", 1)
    assert [message.content for message in episode.messages][-1] == "Say it."
    assert process.stderr
    said = next(line for line in process.stderr if line.startswith("oldest"))
    assert said.startswith(f"oldest: {episode.key}: turn 1, waiting for the model for 0:1")


def test_a_command_is_what_an_episode_waits_for(tmp_path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    with running(FakeOpenAIServer(sleep_in_a_command)) as server:
        process = start(*options(tmp_path, server.base_url))
        (episode,) = wait_for(
            lambda: [e for f in read_running(tmp_path / "run") for e in f.episodes if e.state == "command"], process
        )
    assert episode.messages[-1].content == "I wait."
    assert episode.messages[-1].tool_calls[0].arguments == {"command": "sleep 600"}


def test_worker_processes_report_what_they_run(
    hanging: FakeOpenAIServer, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start(*options(tmp_path, hanging.base_url, "run.executor=processes", "run.processes=1"))
    (episode,) = wait_for(lambda: [e for f in read_running(tmp_path / "run") for e in f.episodes if e.turn], process)
    assert episode.state == "model"
    assert {file.pid for file in read_running(tmp_path / "run")} == {process.pid}


def test_a_killed_run_is_not_running_and_a_resumed_one_removes_what_it_left(
    hanging: FakeOpenAIServer, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    run = tmp_path / "run"
    process = start(*options(tmp_path, hanging.base_url))
    wait_for(lambda: read_running(run), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (file,) = read_running(run)
    assert not file.alive(file.at)
    hanging.script = ["Done."]
    done = lab(*options(tmp_path, hanging.base_url), "--resume")
    assert done.returncode == 0, done.stderr
    assert not (run / "running").exists()
    assert lab("summary", run).returncode == 0


def test_an_interrupted_run_leaves_no_file(
    hanging: FakeOpenAIServer, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start(*options(tmp_path, hanging.base_url))
    wait_for(lambda: read_running(tmp_path / "run"), process)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert not (tmp_path / "run" / "running").exists()


def test_a_process_number_that_was_given_again_or_an_old_file_is_no_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hermes_lab.runners.engine import running as module

    now = time.time()
    mine = RunningFile(host=module._host(), pid=os.getpid(), begun=module._begun(os.getpid()), at=now, episodes=[])
    assert mine.alive(now)
    assert not mine.alive(now + STALE + 1)
    assert not msgspec.structs.replace(mine, begun="1").alive(now)
    elsewhere = msgspec.structs.replace(mine, host="another", begun="1")
    assert elsewhere.alive(now)
    assert not elsewhere.alive(now + STALE + 1)


@pytest.mark.parametrize("off", [-3600.0, 0.0, 3600.0])
def test_a_run_on_a_machine_with_another_clock_runs_as_long_as_its_file_changes(off: float) -> None:
    def file(at: float) -> RunningFile:
        return RunningFile(host="another", pid=1, begun="1", at=at + off, episodes=[])

    life, now, ticks = LifeSigns(), 1_000_000.0, 500.0
    assert life.alive(file(now), now, ticks) is (off == 0.0), "the first look has nothing else than the time"
    for _ in range(10):
        now, ticks = now + STALE / 3, ticks + STALE / 3
        assert life.alive(file(now), now, ticks)
    last = file(now)
    assert life.alive(last, now + STALE - 1, ticks + STALE - 1)
    assert not life.alive(last, now + STALE + 1, ticks + STALE + 1)
    assert life.alive(file(now + STALE + 2), now + STALE + 2, ticks + STALE + 2), "it was only slow"


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "1.json").write_text("{")
    assert read_running(tmp_path) == []
    assert read_running(tmp_path / "absent") == []


def test_messages_of_running_episodes_are_bounded() -> None:
    activities = Activities()
    call = ToolCall("c", "write", {"text": "y" * 3 * MESSAGE_ROOM})
    long = [
        Message("user", "x" * 10 * MESSAGE_ROOM),
        Message("assistant", "z" * 10 * MESSAGE_ROOM, tool_calls=(call,)),
        Message("tool", "w" * 10 * MESSAGE_ROOM, results=(ToolResult("c", "write", "w" * 10 * MESSAGE_ROOM),)),
    ]
    with activities.episode("k", "t", "l") as activity:
        activity.messages = long * 20
        (found,) = activities.now()
        assert found.left_out == 60 - len(found.messages) > 0
        assert found.messages[-1].results[0].content.startswith("www")
        assert len(msgspec.json.encode(found)) < 2 * EPISODE_ROOM
        activity.messages = [Message("assistant", f"turn {n}") for n in range(5)]
        (found,) = activities.now()
        assert [message.content for message in found.messages] == [f"turn {n}" for n in range(5)]
        assert found.left_out == 0
    assert activities.now() == []
    with ExitStack() as stack:
        for number in range(2000):
            stack.enter_context(activities.episode(f"{number}", "t", "l")).messages = long * 20
        assert len(msgspec.json.encode(activities.now())) < 4 * ROOM


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


def test_the_longest_waits_are_named_once_they_are_long(stack: ExitStack) -> None:
    tally = Tally([])
    for number, seconds in enumerate([3, 37, 3700, 12, 11]):
        activity = stack.enter_context(tally.activities.episode(f"suite|t{number}|on|0|0", f"t{number}", "on"))
        activity.turn = number
        activity.wait_for("verifier")
        activity.since -= seconds
    assert [line.split(" for ")[0] for line in tally.waiting()] == [
        f"oldest: suite|t{number}|on|0|0: turn {number}, waiting" for number in (2, 1, 3)
    ]
    assert tally.waiting()[0].endswith("waiting for the verifier for 1:01:40")


def test_lines_name_a_waiting_episode_and_not_every_second(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally([])
    activity = stack.enter_context(tally.activities.episode("suite|t|on|0|0", "t", "on"))
    activity.wait_for("model")
    activity.since -= 60
    beats = iter([False] * 20)
    lines: list[str] = []
    plain = Plain(tally, lines.append)
    monkeypatch.setattr(plain, "_ended", threading.Event())
    monkeypatch.setattr(plain._ended, "wait", lambda seconds: next(beats, True))
    plain._beat()
    assert [line.startswith("oldest") for line in lines] == [True, False, True]


def test_the_live_table_names_a_waiting_episode(stack: ExitStack) -> None:
    tally = Tally([])
    activity = stack.enter_context(tally.activities.episode("suite|[t]|on|0|0", "t", "on"))
    activity.wait_for("review")
    activity.since -= 60
    out = io.StringIO()
    with LiveTable(tally, Console(file=out, width=140, force_terminal=True)):
        pass
    assert "oldest: suite|[t]|on|0|0: waiting for its review for 1:00" in out.getvalue()
