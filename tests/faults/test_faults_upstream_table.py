"""What a batch runner promises, row by row of the table of what others were seen to break."""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, reserved_port, running
from lab_process import (
    count,
    finish,
    first_process,
    keys,
    on_endpoint,
    options,
    prompt_server,
    rows,
    start,
    wait_until,
    write_tasks,
)

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import VerifierError
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Suite, Workspace
from hermes_lab.records import episode_files, read_episodes
from hermes_lab.rollout import RolloutContext
from hermes_lab.runners.engine.batch import OnEpisode, run_lanes
from hermes_lab.runners.engine.budget import Budget
from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills.library import Library
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.learner import noop
from hermes_lab.types import Task, Verdict

pytestmark = pytest.mark.timeout(120)

SCRIPTED = options(model__provider="scripted", model__name="hermes_lab.tasks.learner:noop")
LEAK = "export LEAK=secret; cd /tmp; echo x > /tmp/f; pwd; cat f"
LOOK = 'echo "[$LEAK]"; pwd; ls -A /tmp ~'
SAME = {"prompt": "echo same", "expected_output": "same"}
ROWS = [{"prompt": LEAK}, {"prompt": LOOK}, SAME, SAME, SAME | {"expected_output": "other"}]
SAMPLES = 2


class Finished(NamedTuple):
    """A run that nothing disturbed, and the model that it can still ask."""

    args: list[str]
    folder: Path
    server: FakeOpenAIServer


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("finished")
    with prompt_server() as server:
        args = ["run", *on_endpoint(server.base_url, folder, ROWS, run__samples=SAMPLES, run__concurrency=1)]
        done = lab(*args, "--out", folder / "run")
        assert done.returncode == 0, done.stderr
        yield Finished(args, folder / "run", server)


def test_a_task_sees_nothing_of_the_one_before_it(finished: Finished) -> None:
    answers = {(e.task_id, e.trajectory and e.trajectory.final_response) for e in read_episodes(finished.folder)}
    assert ("row-000001", "/tmp\nx\n") in answers
    assert [answer for task, answer in answers if task == "row-000002"] == ["[]\n/app/data\n/app/data:\n\n/tmp:\n"]


def test_every_row_of_a_model_that_emits_no_reasoning_is_kept(finished: Finished) -> None:
    episodes = list(read_episodes(finished.folder))
    assert len(episodes) == len(ROWS) * SAMPLES
    assert all(e.status == "ok" and e.trajectory and len(e.trajectory.messages) == 5 for e in episodes)
    assert not any(m.reasoning for e in episodes if e.trajectory for m in e.trajectory.messages)


@pytest.fixture(scope="module")
def torn(finished: Finished) -> Iterator[tuple[Path, bytes, int, dict[str, Any]]]:
    """The finished run with half of its last line gone, and resumed; the torn file, and what the resume asked."""
    run = finished.folder.with_name("torn")
    shutil.copytree(finished.folder, run, symlinks=True)
    (file,) = episode_files(run)
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + (len(whole) - whole.rindex(b"\n", 0, -1)) // 2])
    before, asked = file.read_bytes(), len(finished.server.requests)
    done = lab(*finished.args, "--out", run, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    return run, before, len(finished.server.requests) - asked, json.loads(done.stdout)


def test_a_torn_last_line_is_run_again_once(torn: tuple[Path, bytes, int, Any], finished: Finished) -> None:
    run, before, asked, _ = torn
    assert asked == 2  # a call and an answer: one task
    assert rows(run) == rows(finished.folder)
    assert len(keys(run)) == len(ROWS) * SAMPLES
    assert episode_files(run)[0].read_bytes() == before


@pytest.mark.parametrize("resumed", [False, True])
def test_k_copies_of_a_prompt_and_k_samples_are_k_rows(
    torn: tuple[Path, bytes, int, Any], finished: Finished, resumed: bool
) -> None:
    run = torn[0] if resumed else finished.folder
    assert len(keys(run)) == len(set(keys(run))) == len(ROWS) * SAMPLES
    same = [e for e in read_episodes(run) if e.trajectory and e.trajectory.messages[1].content == "echo same"]
    assert len(same) == 3 * SAMPLES


def test_the_summary_after_a_resume_is_that_of_the_whole_run(torn: tuple[Path, bytes, int, dict[str, Any]]) -> None:
    run, _, _, summary = torn
    wanted = len(ROWS) * SAMPLES
    assert [summary[name] for name in ("wanted", "finished", "errored")] == [wanted, wanted, 0]
    assert (summary["scored"], summary["solved"], summary["success_rate"]) == (3 * SAMPLES, 2 * SAMPLES, 2 / 3)
    assert (summary["api_calls"], summary["tool_calls"]) == (2 * wanted, wanted)
    assert json.loads((run / "summary.json").read_text()) == summary


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_other_data_under_the_same_name_are_refused_and_the_difference_named(
    finished: Finished, resume: list[str]
) -> None:
    file = finished.folder.with_name("tasks.jsonl")
    kept, before, asked = file.read_bytes(), rows(finished.folder), len(finished.server.requests)
    try:
        write_tasks(file.parent, [*ROWS[:-1], SAME])
        done = lab(*finished.args, "--out", finished.folder, *resume)
    finally:
        file.write_bytes(kept)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "the suite's tasks have changed since" in line
    assert (rows(finished.folder), len(finished.server.requests)) == (before, asked)


def test_an_endpoint_that_is_down_marks_nothing_done_and_resume_runs_both(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with reserved_port() as port:
        base_url = f"http://127.0.0.1:{port}/v1"
        args = ["run", *on_endpoint(base_url, tmp_path, ROWS[2:4], model__max_retries=0), "--out", run]
        down = lab(*args)
        (line,) = down.stderr.splitlines()
        assert down.returncode == 3
        assert line.startswith(f"hermes-lab: error: {base_url}: cannot connect: Connection refused")
        assert "--resume continues" in line
        assert (count(run), down.stdout) == (0, "")
        with prompt_server(port):
            up = lab(*args, "--resume")
    assert up.returncode == 0, up.stderr
    assert [e.score for e in read_episodes(run)] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", *SCRIPTED, "-c", "suite.path=absent.jsonl", "--out", "OUT"], "absent.jsonl cannot be read"),
        (["run", *SCRIPTED, "--out", "OUT"], "suite.name"),
    ],
)
def test_what_is_missing_is_said_in_one_line_and_nothing_is_written(args: list[str], says: str, tmp_path: Path) -> None:
    done = lab(*(str(tmp_path / "out") if arg == "OUT" else arg for arg in args))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert says in line
    assert list(tmp_path.iterdir()) == []


TOKEN = f"600.{os.getpid()}"
IN_TOOL, IN_VERIFIER = f"sleep {TOKEN}1", f"test -e early || sleep {TOKEN}2"
SERVER = """
import signal, sys
from fakes.openai_server import FakeOpenAIServer, Reply, running
from lab_process import run_the_prompt

def answer(body):
    return Reply("late", delay=600) if body["messages"][-1]["content"] == "wait" else run_the_prompt(body)

with running(FakeOpenAIServer(answer, port=int(sys.argv[1]))):
    print("up", flush=True)
    signal.pause()
"""


class Killed(NamedTuple):
    """A run in which two sandboxes and then the model server were killed with -9."""

    port: int
    args: list[str]
    folder: Path
    returncode: int
    stderr: str


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    folder = tmp_path_factory.mktemp("killed")
    victims = [
        {"id": "tool", "prompt": IN_TOOL, "expected_output": "slept"},
        {"id": "verifier", "prompt": "echo done", "verify": IN_VERIFIER},
        {"id": "model", "prompt": "wait", "expected_output": "waited"},
    ]
    wanted = victims + [SAME] * 5
    with reserved_port() as port:
        options = on_endpoint(f"http://127.0.0.1:{port}/v1", folder, wanted, model__max_retries=1, run__concurrency=4)
        args = ["run", *options, "--out", str(folder / "run")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", SERVER, str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as server:
            assert server.stdout is not None
            server.stdout.readline()
            process = start(*args)
            for sleeping in (f"sleep {TOKEN}1", f"sleep {TOKEN}2"):
                pid = wait_until(partial(first_process, sleeping), process)
                assert pid
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: count(folder / "run") == 7, process)
            server.kill()
            returncode, errors = finish(process)
        yield Killed(port, args, folder / "run", returncode, errors)


def test_a_killed_sandbox_or_server_is_an_errored_episode_and_ends_nothing_else(killed: Killed) -> None:
    assert killed.returncode == 3, killed.stderr
    assert "3 of 8 episodes did not finish" in killed.stderr.splitlines()[-1]
    assert "Traceback" not in killed.stderr
    episodes = {episode.task_id: episode for episode in read_episodes(killed.folder)}
    errors = {name: episode.error for name, episode in episodes.items() if episode.error}
    assert {name: error.kind for name, error in errors.items()} == {
        "tool": "sandbox",
        "verifier": "sandbox",
        "model": "model",
    }
    assert errors["model"].message.startswith(f"http://127.0.0.1:{killed.port}/v1: ")
    assert {(e.score, e.success, e.reward) for name, e in episodes.items() if name in errors} == {(None, None, None)}
    assert [e.score for name, e in episodes.items() if name not in errors] == [1.0] * 5


def test_a_resume_after_such_kills_runs_what_is_owed_and_loses_nothing(killed: Killed) -> None:
    kept = [row for row in rows(killed.folder) if row[1] == "ok"]

    def answer(body: dict[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "user":
            return Reply(tool_calls=[function_call("call", "terminal", {"command": "touch early"})])
        return Reply("Done.")

    with running(FakeOpenAIServer(answer, port=killed.port)) as server:
        resumed = lab(*killed.args, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert len(server.requests) == 2 * 3
    now = rows(killed.folder)
    assert len(now) == 8
    assert all(row in now for row in kept)


class Judge:
    """A suite whose verifier fails, in the way that the task names."""

    name = "judge"
    splits = ("train",)
    ways = ("right", "bug", "verifier", "system", "no verdict")

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        return [Task(id=way, suite=self.name, prompt="Go.", domain="d", split=split) for way in self.ways]

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        if task.id == "bug":
            raise KeyError("score")
        if task.id == "verifier":
            raise VerifierError("the grader is away")
        if task.id == "system":
            raise OSError(5, "Input/output error")
        return Verdict(1.0, True) if task.id == "right" else None


async def run_in_process(suite: Suite, folder: Path, on_episode: OnEpisode) -> None:
    """One lane of all tasks, one after another, with a model that says that it is done."""
    config = RunConfig.model_validate({"run": {"concurrency": 1}})
    tasks = suite.load(split="train", count=0, seed=0, world=0)
    model, opened = ScriptedModel(noop()), partial(open_sandbox, config.sandbox)
    lane = Lane("main", "frozen", Library(), 1, [tasks])
    lab = RolloutContext(config, config_digest(config), suite, model, opened)
    await run_lanes([lab], [lane], folder, {}, on_episode, Budget())


@pytest.mark.anyio
async def test_a_crashed_verifier_is_an_errored_episode_never_a_score(tmp_path: Path) -> None:
    await run_in_process(Judge(), tmp_path, lambda episode: None)
    episodes = {episode.task_id: episode for episode in read_episodes(tmp_path)}
    crashed = {name: e for name, e in episodes.items() if e.error}
    told = {name: e.error for name, e in crashed.items() if e.error}
    assert {name: (error.kind, error.message.partition(" (/")[0]) for name, error in told.items()} == {
        "bug": ("verifier", "KeyError: 'score'"),
        "verifier": ("verifier", "the grader is away"),
        "system": ("verifier", "OSError: [Errno 5] Input/output error"),
    }
    _, start = inspect.getsourcelines(Judge.verify)
    line = start + 2
    assert told["bug"].message == f"KeyError: 'score' ({__file__}:{line})"
    assert "Traceback (most recent call last)" in told["bug"].detail
    assert f'File "{__file__}", line {line}, in verify' in told["bug"].detail
    assert told["verifier"].detail == ""  # it says itself what is wrong
    assert {(e.status, e.score, e.success, e.reward) for e in crashed.values()} == {("errored", None, None, None)}
    assert (episodes["right"].score, episodes["no verdict"].status, episodes["no verdict"].score) == (1.0, "ok", None)


@pytest.mark.anyio
async def test_a_finished_task_costs_the_same_however_many_were_finished_before(tmp_path: Path) -> None:
    """The log is only ever appended to, and beside it nothing is written that grows."""
    before, inodes, written = b"", set(), []

    def measure(episode: EpisodeSummary) -> None:
        nonlocal before
        (log,) = episode_files(tmp_path / "run")
        inodes.add(log.stat().st_ino)
        now = log.read_bytes()
        assert now.startswith(before)
        assert now.count(b"\n") == before.count(b"\n") + 1
        before = now
        written.append(int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0]))

    tasks = write_tasks(tmp_path, [{"prompt": f"Task {number:02}."} for number in range(60)])
    await run_in_process(JsonlSuite(tasks), tmp_path / "run", measure)
    costs = [after - before for before, after in pairwise(written)]
    assert len(inodes) == 1
    assert max(costs[-20:]) < 1.1 * max(costs[:20])
