"""Harbor tasks in whole runs: what the agent sees, steps, limits, resume, and an agent that cheats."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.command import lab as command
from fakes.program import install
from harbor_shapes import REWARD, passes, write_all, write_task

import hermes_lab as lab
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.harness.programs import find_program
from hermes_lab.harness.worker import limited
from hermes_lab.manifest import read_manifest
from hermes_lab.records import read_episodes
from hermes_lab.sandbox.backends import stricter
from hermes_lab.types import Episode, Root

LOOK: dict[str, Any] = {"model": {"provider": "scripted", "name": "harbor_policies:look"}}
STEAL: dict[str, Any] = {"model": {"provider": "scripted", "name": "harbor_policies:steal"}}
STEPS = '[[steps]]\nname = "first"\n{}[[steps]]\nname = "second"\n'


def _run(folder: Path, out: Path, *sources: Any, **options: Any) -> list[Episode]:
    suite = {"suite": {"path": str(folder), **({"options": options} if options else {})}}
    lab.run(LOOK, suite, *sources, out=out, progress=False)
    return sorted(read_episodes(out), key=lambda each: each.task_id)


def _said(episode: Episode) -> list[str]:
    assert episode.trajectory is not None
    return [result.content for message in episode.trajectory.messages for result in message.results]


def test_the_agent_is_root_in_the_tasks_own_directory_and_sees_no_test(tmp_path: Path) -> None:
    write_task(tmp_path / "s/app", workdir="/app")
    write_task(tmp_path / "s/home", workdir="/home/user")
    for episode, workdir in zip(_run(tmp_path / "s", tmp_path / "run"), ("/app", "/home/user"), strict=True):
        assert (episode.status, episode.score, episode.success) == ("ok", 1.0, True)
        assert episode.trajectory is not None
        system = episode.trajectory.messages[0].content
        assert f"Your working directory is {workdir};" in system
        assert "You are root; changes elsewhere on the system count too." in system
        assert "are kept" not in system
        looked, _, _, searched, read = _said(episode)
        assert looked.startswith('{"output": "' + workdir + "\\n0\\n")
        for path in ("/tests", "/logs", "/app/skills"):
            assert f"cannot access '{path}'" in looked
        assert "answer.txt:1:right" in searched
        assert "1|right" in read


@pytest.mark.parametrize(("gate", "asked", "criteria"), [("", 2, (1.0, 0.0)), ("min_reward = 1.0\n", 2, (1.0, 0.0))])
def test_steps_follow_in_one_conversation(tmp_path: Path, gate: str, asked: int, criteria: tuple[float, ...]) -> None:
    files = {f"steps/{name}/instruction.md": f"Write {name} to it." for name in ("first", "second")}
    files["steps/first/tests/test.sh"] = f"#!/bin/bash\n{passes('[ -f first.txt ]')}\n"
    files["steps/second/tests/test.sh"] = f"#!/bin/bash\n{passes('[ -f none.txt -a -f first.txt ]')}\n"
    write_task(tmp_path / "s/t", toml=STEPS.format(gate), solution="", files=files)
    (episode,) = _run(tmp_path / "s", tmp_path / "run")
    assert episode.trajectory is not None
    users = [m.content for m in episode.trajectory.messages if m.role == "user" and not m.results]
    assert users == ["Write first to it.", "Write second to it."][:asked]
    (verdict,) = episode.verdicts
    assert verdict.criteria == dict(zip(("first", "second"), criteria, strict=True))
    assert (episode.score, episode.success, episode.task.metadata) == (0.5, False, {"steps": 2})


def test_no_step_follows_one_whose_reward_is_too_low(tmp_path: Path) -> None:
    files = {f"steps/{name}/instruction.md": f"Write {name} to it." for name in ("first", "second")}
    test = f"echo 0.25 > {REWARD}"
    write_task(tmp_path / "s/t", toml=STEPS.format("min_reward = 0.5\n"), test=test, solution="", files=files)
    (episode,) = _run(tmp_path / "s", tmp_path / "run")
    assert episode.trajectory is not None
    assert "Write second to it." not in [message.content for message in episode.trajectory.messages]
    (verdict,) = episode.verdicts
    assert (verdict.score, verdict.reasons) == (0.25, {"first": "failed", "second": "was not reached"})


def test_a_process_in_the_background_neither_forges_the_reward_nor_steals_the_tests(tmp_path: Path) -> None:
    files = {f"steps/{name}/instruction.md": f"Write {name} to it." for name in ("first", "second")}
    files["tests/the-secret"] = "the-secret"
    write_task(tmp_path / "s/t", toml=STEPS.format(""), test=f"sleep 0.3; echo 0 > {REWARD}", solution="", files=files)
    (episode,) = _run(tmp_path / "s", tmp_path / "run", STEAL)
    assert (episode.status, episode.score) == ("ok", 0.0)
    assert "/stolen/lab/provided\n" in _said(episode)[1].replace("\\n", "\n")
    assert "the-secret" not in _said(episode)[1]
    assert "verifier/bin" not in _said(episode)[1]


def test_a_workspace_at_tmp_is_not_taken_for_memory(tmp_path: Path) -> None:
    write_task(tmp_path / "s/t", workdir="/tmp", test=f"sleep 1; {passes('[ -f answer.txt ]')}")
    (episode,) = _run(tmp_path / "s", tmp_path / "run")
    assert (episode.status, episode.score) == ("ok", 1.0)


def test_a_server_that_stands_still_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    code = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/answer.txt', timeout=5).read().decode())"
    serves = passes(f'[ "$(python3 -c "{code}")" = right ]')
    write_task(tmp_path / "s/t", instruction="Serve /app on port 8000.", test=serves, solution="")
    serve = {"model": {"provider": "scripted", "name": "harbor_policies:serve"}}
    (frozen,) = _run(tmp_path / "s", tmp_path / "run", serve)
    assert (frozen.status, frozen.score) == ("errored", None)
    assert frozen.error is not None
    assert "the agent left a server running; it is frozen during verification" in frozen.error.message
    (running,) = _run(tmp_path / "s", tmp_path / "again", serve, running=True)
    assert (running.status, running.score) == ("ok", 1.0)


def test_a_program_that_did_nothing_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy's socket is none, though it listens beside the program."""
    site = tmp_path / "site"
    site.mkdir()
    at = install(site)
    monkeypatch.syspath_prepend(site)
    find_program.cache_clear()
    write_task(tmp_path / "s/t", solution="")
    program = {
        "agent": {"program": "fake", "at": str(at)},
        "model": {"provider": "scripted", "name": "hermes_lab.tasks.learner:noop"},
    }
    (episode,) = _run(tmp_path / "s", tmp_path / "run", program)
    assert (episode.status, episode.score, episode.error) == ("ok", 0.0, None)


def test_a_verifier_that_fails_is_an_errored_episode_with_its_reason(tmp_path: Path) -> None:
    write_task(tmp_path / "s/t", test="no-such-tool; echo 0 > " + REWARD)
    (episode,) = _run(tmp_path / "s", tmp_path / "run")
    assert (episode.status, episode.score) == ("errored", None)
    assert episode.error is not None
    assert (episode.error.kind, episode.error.detail) == ("verifier", "")
    assert episode.error.message.startswith("t: tests/test.sh: no-such-tool: command not found: ")


def test_a_test_script_that_takes_too_long_and_a_layout_that_fails(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("hermes_lab.tasks.adapters.harbor.verifier._GRACE", 0.5)
    write_task(tmp_path / "s/slow", test="sleep 60", toml="[verifier]\ntimeout_sec = 0.1\n")
    write_task(tmp_path / "s/wrong", dockerfile="FROM debian\nWORKDIR /app\nRUN echo so; false\n")
    slow, wrong = _run(tmp_path / "s", tmp_path / "run")
    assert slow.error is not None
    assert slow.error.message == "slow: tests/test.sh: not done after 0.1 seconds (verifier.timeout_sec)"
    assert wrong.error is not None
    assert (wrong.error.kind, wrong.error.message) == (
        "sandbox",
        "wrong: environment/Dockerfile:3: failed with exit code 1: so",
    )


def test_a_changed_test_is_another_task_for_a_resume(tmp_path: Path) -> None:
    task = write_task(tmp_path / "s/t")
    _run(tmp_path / "s", tmp_path / "run")
    again = {"resume": True, "out": tmp_path / "run", "progress": False}
    lab.run(LOOK, {"suite": {"path": str(tmp_path / "s")}}, **again)
    (task / "solution/solve.sh").write_text("another")  # decides nothing
    lab.run(LOOK, {"suite": {"path": str(tmp_path / "s")}}, **again)
    with (task / "tests/test.sh").open("a") as file:
        file.write("\n")
    with pytest.raises(ConfigError, match="the suite's tasks have changed since the run started"):
        lab.run(LOOK, {"suite": {"path": str(tmp_path / "s")}}, **again)


def test_what_was_left_out_is_said_and_recorded(tmp_path: Path) -> None:
    write_task(tmp_path / "s/good")
    write_task(tmp_path / "s/bad", toml="[environment]\ngpus = 1\n")
    arguments = ["-c", f"suite.path={tmp_path / 's'}", "-c", "model.provider=scripted", "-c"]
    arguments += ["model.name=harbor_policies:look", "--out", str(tmp_path / "run")]
    refused = command("run", *arguments)
    assert refused.returncode == 2
    assert "bad: task.toml: environment.gpus: GPUs are not supported; to leave" in refused.stderr
    assert not (tmp_path / "run").exists()
    done = command("run", *arguments, "-c", "suite.options={skip_unsupported: true}")
    assert done.returncode == 0, done.stderr
    assert f"left out as unsupported: 1 of 2 tasks of {tmp_path / 's'}" in done.stderr
    left_out = read_manifest(tmp_path / "run").left_out
    assert left_out == {"bad": "task.toml: environment.gpus: GPUs are not supported"}


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("run.keep_workspaces=true", "run.keep_workspaces: t has a system of its own"),
        ("agent.toolsets=[terminal, delegate_task]", "agent.toolsets: t has a system of its own"),
        ("sandbox={backend: local, allow_local: true}", "sandbox.backend: local has no system for a task to change"),
    ],
)
def test_a_plan_refuses_what_needs_a_plain_workspace(tmp_path: Path, field: str, said: str) -> None:
    write_task(tmp_path / "s/t")
    with pytest.raises(ConfigError, match=said):
        _run(tmp_path / "s", tmp_path / "run", field)
    assert not (tmp_path / "run").exists()


def test_the_stricter_limits_hold() -> None:
    root = Root(workdir="/app", memory_mb=512, disk_mb=9999, seconds=60.0)
    limits = stricter(SandboxConfig(memory_mb=1000, disk_mb=1000), root)
    assert (limits.memory_mb, limits.disk_mb) == (512, 1000)
    task = lab.Task(id="t", suite="s", prompt="p", root=root)
    agent = RunConfig().agent
    assert limited(agent, task).max_seconds == 60.0
    assert limited(agent.model_copy(update={"max_seconds": 5.0}), task).max_seconds == 5.0
    assert limited(agent, msgspec.structs.replace(task, root=None)) == agent


def test_check_tells_what_was_found(tmp_path: Path) -> None:
    names = write_all(tmp_path / "all")
    folder = tmp_path / "some"
    folder.mkdir()
    for name in (names[0], next(name for name in names if name.startswith("steps"))):
        (tmp_path / "all" / name).rename(folder / name)
    write_task(folder / "easy", test=f"echo 1 > {REWARD}", solution="")
    write_task(folder / "wrong", solution="true")
    write_task(folder / "gpu", toml="[environment]\ngpus = 1\n")
    done = command("tasks", "check", str(folder))
    assert done.returncode == 1
    assert done.stdout.startswith(
        f"{folder}: 4 tasks checked: doing nothing scores 0 in 3 of 4; the solution scores 1 in 2 of 3 "
        "(1 without a solution); 1 unsupported, 0 broken\n"
    )
    assert done.stderr.splitlines() == [
        f"{folder}: gpu: task.toml: environment.gpus: GPUs are not supported",
        f"{folder}: easy: doing nothing scores 1, not 0",
        f"{folder}: wrong: its solution scores 0, not 1",
    ]
    told = command("tasks", "check", str(folder), "-c", "suite.options={skip_unsupported: true}", "-n", "1", "--json")
    found = msgspec.json.decode(told.stdout)
    assert (found["suite"], found["failures"]) == ("some", [])
    assert found["tasks"] == [{"task": names[0], "noop": 0.0, "oracle": 1.0}]
    assert list(found["unsupported"]) == ["gpu"]
    write_task(folder / "torn", toml="[environment\n")
    told = command("tasks", "check", str(folder), "-c", "suite.options={skip_unsupported: true}", "-n", "1", "--json")
    assert told.returncode == 1
    (failure,) = msgspec.json.decode(told.stdout)["failures"]
    assert "torn" in failure
