"""Prompts that run at set times, `/cron` in chats, and the jobs that the agent proposes."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import anyio
import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running

from hermes_lab.chat.turns import FOLDER
from hermes_lab.commands.cron import COMMAND
from hermes_lab.cron.jobs import Job, JobStore, definition_of
from hermes_lab.cron.run import JobRunner
from hermes_lab.cron.runs import Claim, Outcome, Run, RunStore
from hermes_lab.cron.ticker import Ticker
from hermes_lab.errors import ConfigError
from hermes_lab.records import read_attempts
from hermes_lab.sessions import SessionKey, SessionStore
from hermes_lab.skills import format as skill_format
from hermes_lab.types import Episode

CREATE = '/cron create "Daily News" "0 9 * * *" "Summarise the news." '


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield tmp_path


def options(server: FakeOpenAIServer) -> list[str]:
    fields = (f"model.base_url={server.base_url}", "model.name=fake", "model.price.prompt=1", "model.max_retries=0")
    return [word for field in fields for word in ("-c", field)]


def add(home: Path, name: str, **fields: object) -> Job:
    given = {"name": name, "schedule": "@daily", "prompt": "What is new?", "zone": "UTC"} | fields
    return JobStore(home).add(definition_of(**given), datetime.now(UTC))


def last(home: Path, name: str) -> Run:
    return RunStore(home).latest(1, name)[0]


def test_a_prompt_runs_in_a_session_of_its_own_and_is_an_episode(home: Path) -> None:
    add(home, "Daily News", model="other", toolsets=["terminal"])
    with running(FakeOpenAIServer(["nothing new"], models=("fake", "other"))) as server:
        done = lab("cron", "trigger", "Daily News", *options(server))
        assert (done.returncode, done.stdout) == (0, "nothing new")
        request = server.requests[-1]
    assert request["model"] == "other"
    assert [tool["function"]["name"] for tool in request["tools"]] == ["terminal"]
    (session,) = SessionStore().latest()
    assert session.key == "cron:Daily%20News"
    run = last(home, "Daily News")
    assert (run.session, run.state, run.exit) == (session.id, "ok", None)
    assert run.cost is not None
    assert Path(run.output).read_text() == "nothing new"
    (episode,) = read_attempts(home / FOLDER, Episode)
    assert episode.trajectory is not None
    assert episode.trajectory.final_response == "nothing new"


def test_skills_are_put_before_the_prompt(home: Path) -> None:
    for name, body in (("tidy", "Sort by size."), ("brief", "Be brief.")):
        (home / "skills" / name).mkdir(parents=True)
        (home / "skills" / name / "SKILL.md").write_text(skill_format.render(name, "How to.", body))
    add(home, "both", skills=["tidy", "brief"])
    add(home, "gone", skills=["nosuch"])
    with running(FakeOpenAIServer(["done"])) as server:
        assert lab("cron", "trigger", "both", *options(server)).returncode == 0
        said = server.requests[-1]["messages"][-1]["content"]
        assert said.index("Sort by size.") < said.index("Be brief.") < said.index("What is new?")
        asked = len(server.requests)
        assert lab("cron", "trigger", "gone", *options(server)).returncode == 1
        assert len(server.requests) == asked
    assert last(home, "gone").note == "skills: there is no skill nosuch"
    assert [info.opening for info in SessionStore().latest()] == ["/tidy /brief What is new?"]


def test_a_prompt_without_an_answer_has_failed(home: Path) -> None:
    add(home, "a")
    with running(FakeOpenAIServer([Reply(status=500, body="down")])) as server:
        assert lab("cron", "trigger", "a", *options(server)).returncode == 1
    assert last(home, "a").state == "failed"
    assert "500" in last(home, "a").note


@pytest.mark.anyio
async def test_prompts_run_side_by_side_in_one_process(home: Path) -> None:
    for number in range(4):
        add(home, f"job {number}", schedule="every 1s", repeat=1)
    async with FakeOpenAIServer(["done"]) as server:
        server.gather = 4  # no request is answered before all four are there
        ticker = Ticker(home, JobRunner(home, options(server)[1::2], lambda _: None), say=lambda _: None)
        async with anyio.create_task_group() as group:
            group.start_soon(ticker.run)
            while [run.state for run in RunStore(home).latest()] != ["ok"] * 4:  # noqa: ASYNC110
                await anyio.sleep(0.1)
            group.cancel_scope.cancel()
    assert len({run.session for run in RunStore(home).latest()}) == 4


@pytest.mark.anyio
async def test_a_command_that_fails_is_delivered_with_its_files(home: Path) -> None:
    (home / "old.txt").write_text("of another day")
    os.utime(home / "old.txt", times=(0, 0))
    line = "config show --nosuch"
    add(home, "night", schedule="every 1s", prompt="", command=line, repeat=1, deliver="telegram", files=["*.txt"])
    runner, sent = JobRunner(home, (), lambda _: None), []

    async def run(claim: Claim, output: IO[bytes]) -> Outcome:
        (home / "report.txt").write_text("half a report")
        return await runner(claim, output)

    async def deliver(name: str, target: str, text: str, files: Sequence[Path]) -> None:
        sent.append((target, text.splitlines(), [file.name for file in files]))

    async with anyio.create_task_group() as group:
        group.start_soon(Ticker(home, run, deliver=deliver, say=lambda _: None).run)
        while not sent:  # noqa: ASYNC110
            await anyio.sleep(0.1)
        group.cancel_scope.cancel()
    ((target, lines, files),) = sent
    assert (target, files) == ("telegram", ["report.txt"])
    assert lines[0].startswith("night: failed, exit code 2, ")
    assert lines[1].startswith("hermes-lab: error: ")
    assert last(home, "night").exit == 2


def chat(line: str, *more: str) -> str:
    done = lab("chat", *more, "--", line)
    assert done.returncode in (0, 2), done
    return done.stdout + done.stderr


def test_a_person_makes_and_changes_jobs_in_a_chat(home: Path) -> None:
    with running(FakeOpenAIServer(["done"])) as server:
        given = options(server)
        assert "no jobs; /cron create" in chat("/cron list", *given)
        assert "created: Daily News; it runs next at " in chat(f"{CREATE} deliver=telegram repeat=3", *given)
        assert "nothing runs jobs now" in chat("/cron", *given)
        job = JobStore(home).find("Daily News")
        assert (job.definition.deliver, job.definition.repeat, job.origin, job.target) == (
            "telegram",
            3,
            "cli:local",
            "telegram",
        )
        assert "paused: Daily News" in chat('/cron pause "Daily News"', *given)
        assert "resumed: Daily News" in chat("/cron resume Daily News", *given)
        assert "Daily News runs now" in chat("/cron run Daily News", *given)
        while not (runs := RunStore(home).latest()) or not runs[0].delivery:
            pass
        assert (runs[0].state, runs[0].delivery) == ("ok", "undelivered")
        assert "last ok" in chat("/cron list", *given)
        assert "removed: Daily News" in chat("/cron remove Daily News", *given)
    assert JobStore(home).all() == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/cron nosuch", "no action 'nosuch'"),
        ("/cron create", "give a name, a schedule and a prompt"),
        ('/cron create "a" "0 9 * * *', "a quotation mark is not closed"),
        (f"{CREATE} dliver=x", "'dliver=x' is not one of deliver=..."),
        (f"{CREATE} repeat=many", "repeat: must be an integer"),
        ('/cron create a "0 25 * * *" b', "wrong hour"),
        ("/cron pause", "give the name of a job"),
        ("/cron run nosuch", "no job 'nosuch'"),
        ("/cron list all", "/cron list takes no arguments"),
    ],
)
def test_a_mistake_in_a_chat_is_told_and_makes_no_job(line: str, said: str, home: Path) -> None:
    with running(FakeOpenAIServer(["hello"])) as server:
        assert said in chat(line, *options(server))
        assert not server.requests
    assert JobStore(home).all() == []


@pytest.mark.parametrize(("key", "made"), [("telegram:dm:1", False), ("cli:local", True)])
@pytest.mark.anyio
async def test_a_chat_on_a_platform_makes_no_files_here(key: str, made: bool, home: Path) -> None:
    context: Any = SimpleNamespace(chat=SimpleNamespace(key=SessionKey.parse(key), sources=()))
    with nullcontext() if made else pytest.raises(ConfigError, match="cannot write files of this machine"):
        await COMMAND.run(context, 'create a "0 9 * * *" "What is new?" deliver=./news.txt')
    assert [job.target for job in JobStore(home).all()] == ([str(home / "news.txt")] if made else [])


def test_what_the_agent_proposes_runs_once_a_person_approves_it(home: Path) -> None:
    create = {"action": "create", "name": "tea", "schedule": "every 1s", "prompt": "Tea?", "repeat": 1}
    calls = [
        Reply(tool_calls=[function_call("a", "cronjob", create)]),
        Reply(
            tool_calls=[
                function_call("b", "cronjob", {"action": "create", "name": "x", "schedule": "bad", "prompt": "y"})
            ]
        ),
        Reply(tool_calls=[function_call("c", "cronjob", {"action": "list"})]),
        Reply(tool_calls=[function_call("d", "cronjob", {"action": "remove", "name": "mine"})]),
        "proposed",
    ]
    add(home, "mine")
    with running(FakeOpenAIServer(calls)) as server:
        given = [*options(server), "-c", "agent.toolsets=[cron]"]
        chat("remind me", *given)
        results = [
            json.loads(message["content"]) for message in server.requests[-1]["messages"] if message["role"] == "tool"
        ]
        assert results[0]["proposed"] == "tea"
        assert "schedule 'bad'" in results[1]["error"]
        assert {job["name"]: job["state"] for job in results[2]["jobs"]} == {"mine": "active", "tea": "proposed"}
        assert results[3] == {"error": "mine is no proposal: a person removes it"}
        assert lab("cron", "tick", *options(server)).returncode == 0
        assert lab("cron", "trigger", "tea", *options(server)).returncode == 2
        assert RunStore(home).latest() == []
        assert "approved: tea" in chat("/cron approve tea", *given)
        while not RunStore(home).latest():
            lab("cron", "tick", *given)
        # A job cannot make jobs.
        assert "tools" not in server.requests[-1]
    assert last(home, "tea").state == "ok"


def test_config_check_tells_a_wrong_schedule(home: Path) -> None:
    (home / "config.yaml").write_text("cron:\n- name: a\n  schedule: 0 25 * * *\n  prompt: x\n")
    told = lab("config", "check")
    assert told.returncode == 2
    assert told.stdout.startswith(f"{home}/config.yaml:2: cron.0 (a): schedule '0 25 * * *': wrong hour")


def test_a_command_that_hermes_lab_does_not_have_is_no_job(home: Path) -> None:
    done = lab("cron", "add", "wrong", "@daily", "--command", "rm -rf x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--command: hermes-lab has no command 'rm'" in done.stderr
    for line in ("doctor --json", "hermes-lab doctor"):
        assert lab("cron", "add", line.replace(" ", ""), "@daily", "--command", line).returncode == 0
    assert len(JobStore(home).all()) == 2
