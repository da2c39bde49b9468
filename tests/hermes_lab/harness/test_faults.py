"""What goes wrong with a program and its model: counted as what it is, and never as a score."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from typer.testing import CliRunner

import hermes_lab
from hermes_lab.errors import ConfigError
from hermes_lab.records import read_episodes
from hermes_lab.runners.cli import app
from hermes_lab.types import Episode

Experiment = Callable[..., list[Episode]]
ONE = {"arms": ["off"], "rounds": 1}
CALL = Reply(tool_calls=[function_call("c", "sh", {"command": "true"})])


@pytest.fixture
def on_endpoint(tmp_path: Path, installed: Path) -> Callable[..., Episode]:
    """Runs one task with the program at an endpoint."""

    def run(url: str, task: dict[str, Any] | None = None, limit: int | None = None, **agent: Any) -> Episode:
        row = {"id": "a", "prompt": "Write x.", "expected_output": "Done.", **(task or {})}
        (tmp_path / "tasks.jsonl").write_text(json.dumps(row) + "\n")
        program = {"program": "fake", "at": str(installed), **agent}
        model = {"name": "fake", "base_url": url, "max_retries": 1, "timeout": 2, "sampling": {"max_tokens": limit}}
        config = {"model": model, "agent": program, "suite": {"path": str(tmp_path / "tasks.jsonl")}}
        hermes_lab.run(config, out=tmp_path / "run")
        (episode,) = read_episodes(tmp_path / "run")
        return episode

    return run


FAULTS = {
    "server error": Reply(status=500, body={"error": {"message": "down"}}),
    "rate limit": Reply(status=429, body={"error": {"message": "later"}}, headers={"Retry-After": "0"}),
    "no key": Reply(status=401, body={"error": {"message": "no key"}}),
    "empty": Reply(body=b""),
    "html": Reply(body=b"<html>gateway</html>"),
    "not json": Reply(body=b'{"choices": ['),
    "no choices": Reply(body={"choices": []}),
    "hang up": Reply(hang_up=True),
    "slow": Reply("late", delay=5),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("program_fault", ["", "lies"])
def test_an_endpoint_that_fails_gives_no_score(
    on_endpoint: Callable[..., Episode], fault: str, program_fault: str
) -> None:
    with running(FakeOpenAIServer([FAULTS[fault]])) as server:
        episode = on_endpoint(server.base_url, settings={"fault": program_fault})
    assert (episode.status, episode.score) == ("errored", None)
    assert episode.error is not None
    assert episode.error.kind == "model"


def test_a_program_that_does_not_start_gives_no_score(experiment: Experiment) -> None:
    (episode,) = experiment(agent={"settings": {"fault": "crash"}}, learning=ONE)
    assert (episode.status, episode.score) == ("errored", None)
    assert episode.error is not None
    assert episode.error.kind == "program"
    assert "(status 1: the configuration is broken)" in episode.error.message
    assert episode.program is not None


def test_a_program_whose_session_cannot_be_told_is_named(experiment: Experiment) -> None:
    (episode,) = experiment("confused", learning=ONE)  # its first answer is rejected
    assert episode.error is not None
    assert episode.error.kind == "program"
    assert episode.error.message.startswith("confused: IndexError while its session was read from the output of")


def test_a_program_that_hangs_is_stopped_at_the_time_limit(experiment: Experiment) -> None:
    (episode,) = experiment(agent={"settings": {"fault": "hang"}, "max_seconds": 1.0}, learning=ONE)
    assert episode.status == "ok"
    assert episode.trajectory is not None
    assert episode.trajectory.stop_reason == "max_seconds"
    assert episode.success is False


def test_a_budget_stops_the_program(on_endpoint: Callable[..., Episode]) -> None:
    again = Reply(tool_calls=[function_call("c", "sh", {"command": "echo again"})])
    with running(FakeOpenAIServer([again])) as server:
        episode = on_endpoint(server.base_url, max_iterations=3, settings={"fault": "lies"})
    assert episode.trajectory is not None
    assert episode.trajectory.stop_reason == "max_iterations"
    assert len(episode.trajectory.steps) == 3
    assert episode.score == 0


def test_a_limit_that_nothing_counts_for_is_an_error_of_the_episode(on_endpoint: Callable[..., Episode]) -> None:
    again = Reply(tool_calls=[function_call("c", "sh", {"command": "echo again"})], counted=False)
    with running(FakeOpenAIServer([again])) as server:
        episode = on_endpoint(server.base_url, max_tokens=9_000, settings={"fault": "lies"})
        assert len(server.requests) == 1
    assert (episode.status, episode.score) == ("errored", None)
    assert episode.error is not None
    assert episode.error.message.endswith(
        "so agent.max_tokens cannot be enforced: have the endpoint report usage, or remove agent.max_tokens"
    )


def test_a_prompt_that_does_not_fit_is_an_outcome(on_endpoint: Callable[..., Episode]) -> None:
    too_long = {
        "error": {"message": "This model's maximum context length is 10 tokens", "code": "context_length_exceeded"}
    }
    with running(FakeOpenAIServer([Reply(status=400, body=too_long)])) as server:
        episode = on_endpoint(server.base_url)
    assert episode.status == "ok"
    assert episode.trajectory is not None
    assert episode.trajectory.stop_reason == "context_full"
    assert episode.program is not None
    assert episode.program.refused == 1


@pytest.mark.parametrize(("first", "outcome"), [([], "errored"), ([CALL], "context_full")])
def test_a_reply_that_leaves_no_room_for_the_first_prompt_is_an_error_of_the_episode(
    on_endpoint: Callable[..., Episode], first: list[Reply], outcome: str
) -> None:
    said = (
        "This model's maximum context length is 1024 tokens. However, you requested 1024 output tokens and your prompt "
        "contains at least 1 input tokens, for a total of at least 1025 tokens."
    )
    with running(FakeOpenAIServer([*first, Reply(status=400, body={"error": {"message": said}})])) as server:
        episode = on_endpoint(server.base_url, limit=1024)
    assert outcome == (episode.trajectory.stop_reason if episode.trajectory else episode.status)
    if episode.error:
        assert "a reply of up to 1024 tokens leaves 0 of the model's context of 1024" in episode.error.message


TOO_LONG = {"error": {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"}}
REFUSED = {"error": {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}}


@pytest.mark.parametrize(("refusal", "outcome"), [(TOO_LONG, "context_full"), (REFUSED, "errored")])
def test_the_reply_to_a_side_request_is_no_answer(
    on_endpoint: Callable[..., Episode], refusal: dict[str, Any], outcome: str
) -> None:
    """The title is answered with what would be right, the work is refused."""

    def answer(body: dict[str, Any]) -> str | Reply:
        return Reply(status=400, body=refusal) if body.get("tools") else "Done."

    with running(FakeOpenAIServer(answer)) as server:
        episode = on_endpoint(server.base_url, settings={"fault": "title"})
    assert not episode.score
    assert outcome == (episode.trajectory.stop_reason if episode.trajectory else episode.status)


@pytest.mark.parametrize("body", [REFUSED, b"<html>Bad gateway</html>"])
@pytest.mark.parametrize("program", ["fake", "serving"])
def test_a_program_that_gives_up_as_its_request_was_refused_is_not_scored(
    on_endpoint: Callable[..., Episode], program: str, body: object
) -> None:
    with running(FakeOpenAIServer([CALL, Reply(status=400, body=body)])) as server:
        episode = on_endpoint(server.base_url, program=program)
    assert (episode.status, episode.score) == ("errored", None)
    assert episode.error is not None
    assert episode.error.message.startswith(
        f"{program} gave up, as its request was refused: {server.base_url}: HTTP 400:"
    )


def test_a_server_that_dies_after_a_reply_has_ended_without_an_answer(on_endpoint: Callable[..., Episode]) -> None:
    """Otherwise an agent could avoid a failure by ending itself."""
    with running(FakeOpenAIServer(["Not it."])) as server:
        assert on_endpoint(server.base_url, program="serving", settings={"fault": "dies"}).score == 0


def test_a_server_whose_prompt_does_not_fit_is_an_outcome(on_endpoint: Callable[..., Episode]) -> None:
    with running(FakeOpenAIServer([CALL, Reply(status=400, body=TOO_LONG)])) as server:
        episode = on_endpoint(server.base_url, program="serving")
    assert (episode.status, episode.score) == ("ok", 0)
    assert episode.trajectory is not None
    assert episode.trajectory.stop_reason == "context_full"


def test_the_time_limit_ends_a_program_that_always_has_a_request_in_flight(on_endpoint: Callable[..., Episode]) -> None:
    with running(FakeOpenAIServer(lambda body: Reply("Hm.", delay=0.3))) as server:
        episode = on_endpoint(server.base_url, max_seconds=1.0, settings={"fault": "overlaps"})
    assert episode.trajectory is not None
    assert episode.trajectory.stop_reason == "max_seconds"


def test_a_reply_that_the_client_has_mended_is_given_mended(on_endpoint: Callable[..., Episode]) -> None:
    bare = {"type": "function", "function": {"name": "sh", "arguments": {"command": "echo seen"}}}
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [bare]}, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    with running(FakeOpenAIServer([Reply(body={"choices": [choice], "usage": usage}), "Done."])) as server:
        episode = on_endpoint(server.base_url)
    assert (episode.status, episode.score) == ("ok", 1)


@pytest.mark.parametrize("prompt", ["/help", "  /app/data.csv has three columns."])
def test_a_prompt_that_looks_like_a_slash_command_reaches_a_server(
    on_endpoint: Callable[..., Episode], prompt: str
) -> None:
    with running(FakeOpenAIServer(["Done."])) as server:
        episode = on_endpoint(server.base_url, {"prompt": prompt}, program="serving")
        assert server.requests[0]["messages"][-1]["content"] == f"Task: {prompt}"
    assert (episode.score, episode.prompt) == (1, prompt)


def test_a_prompt_that_no_argument_can_hold_is_said(on_endpoint: Callable[..., Episode]) -> None:
    with running(FakeOpenAIServer(["unused"])) as server:
        episode = on_endpoint(server.base_url, {"prompt": "x" * 140_000})
    assert episode.error is not None
    assert "longer than the 131,071 bytes" in episode.error.message


def test_the_key_stays_outside(
    on_endpoint: Callable[..., Episode], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    look = Reply(tool_calls=[function_call("c", "sh", {"command": "env; cat /proc/*/environ /app/home/* 2>/dev/null"})])
    with running(FakeOpenAIServer([look, "Done."])) as server:
        episode = on_endpoint(server.base_url)
        assert server.headers[0]["Authorization"] == "Bearer sk-very-secret"
    assert episode.success
    written = "".join(path.read_text() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert "FAKE_KEY=" in written
    assert "sk-very-secret" not in written


def test_skills_written_by_shell_are_harvested_and_what_cannot_be_read_is_said(
    on_endpoint: Callable[..., Episode],
) -> None:
    good = "---\\nname: Desk Rules\\ndescription: how the desk counts\\n---\\n\\nCount twice.\\n"
    command = (
        "mkdir -p ~/skills/general/desk ~/skills/broken ~/skills/.hidden && "
        f"printf -- '{good}' | tee ~/skills/general/desk/SKILL.md > ~/skills/.hidden/SKILL.md && "
        "printf 'x\\000' > ~/skills/general/desk/data.bin && printf '\\377' > ~/skills/general/desk/raw && "
        "echo nothing > ~/skills/broken/SKILL.md && ln -s /etc/passwd ~/skills/general/desk/link && "
        "echo 'The desk is busy.' > ~/NOTES.md"
    )
    with running(
        FakeOpenAIServer([Reply(tool_calls=[function_call("c", "sh", {"command": command})]), "Done."])
    ) as server:
        episode = on_endpoint(server.base_url)
    writes = [(w.action, w.name, w.path, w.origin) for w in episode.skills.writes]
    assert writes == [
        ("create", "desk-rules", "", "foreground"),
        ("write_file", "desk-rules", "data.bin", "foreground"),
    ]
    assert [(w.action, w.text) for w in episode.memory.writes] == [("add", "The desk is busy.")]
    assert episode.program is not None
    assert len(episode.program.unread) == 2
    assert any("broken" in line for line in episode.program.unread)
    assert any("raw is not text" in line for line in episode.program.unread)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"program": "hermess"},
            r"agent\.program: there is no program 'hermess'; did you mean hermes\?.*in the lab's environment \(/",
        ),
        ({"at": "/nowhere"}, r"agent\.at: /nowhere does not exist$"),
        ({"settings": {"falt": "x"}}, r"agent\.settings\.falt: fake has no such setting \(it has: fault\)"),
        ({"settings": {"fault": 3}}, r"agent\.settings\.fault: "),
        ({"program": "asked", "review": "own"}, r"agent\.review: asked does not review its work by itself"),
        ({"program": "", "settings": {"x": 1}, "at": ""}, r"`settings` has no effect while agent.program is empty"),
        ({"program": "", "review": "own", "at": ""}, r"`review` has no effect without `program`"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_written(
    experiment: Experiment, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        experiment(agent=change, learning=ONE)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "setting", ["agent.toolsets=[terminal]", "agent.tool_format=hermes", "agent.max_repeats=2", "skills.max_listed=3"]
)
def test_a_field_of_the_own_loop_is_refused(installed: Path, tmp_path: Path, setting: str) -> None:
    program = ["-c", "agent.program=fake", "-c", f"agent.at={installed}"]
    done = CliRunner().invoke(
        app, ["run", *program, "-c", setting, "-c", "suite.name=ledger", "--out", str(tmp_path / "r")]
    )
    assert isinstance(done.exception, ConfigError)
    assert f"{setting.partition('=')[0]} is not used with agent.program=fake" in str(done.exception)


def test_an_api_that_needs_a_limit_gets_one_from_a_program_of_its_own_interface_only(
    experiment: Experiment,
) -> None:
    model = {"provider": "anthropic", "name": "a", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(ConfigError, match=r"model\.sampling\.max_tokens: .* needs a number, which fake does not give"):
        experiment(model=model, learning=ONE)


def test_a_task_with_pages_of_its_own_is_refused(experiment: Experiment) -> None:
    with pytest.raises(ConfigError, match="web pages of their own, which only the lab's own loop can search"):
        experiment(suite={"name": "notices", "options": {"ruled": 1, "plain": 0}}, learning=ONE)


def test_another_installation_is_not_resumed(experiment: Experiment, installed: Path) -> None:
    experiment(learning={"arms": ["off"], "rounds": 1})
    with (installed / "bin" / "fake-agent").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(ConfigError, match=r"was started with fake  ?\(digest .*, now it is fake"):
        resume(experiment)


def resume(experiment: Experiment) -> list[Episode]:
    return experiment(learning={"arms": ["off"], "rounds": 1}, resume=True)


def test_kill_minus_nine_leaves_nothing_and_resumes_to_the_same_rows(tmp_path: Path, installed: Path) -> None:
    config = {
        "model": {"provider": "scripted", "name": "hermes_lab.tasks.learner:learner"},
        "suite": {"name": "ledger", "options": {"ruled": 1, "plain": 0}},
        "skills": {"review_every": 0},
        "learning": {"arms": ["on"], "rounds": 4},
        "agent": {"program": "fake", "at": str(installed)},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = os.pathsep.join([str(installed.parent), str(Path(__file__).parents[2])])
    for out, kills in (("calm", 0), ("killed", 3)):
        command = [sys.executable, "-m", "hermes_lab", "experiment", "-c", str(tmp_path / "config.json"), "--quiet"]
        command += ["--out", str(tmp_path / out)]
        for number in range(kills + 1):
            resumed = ["--resume"] if (tmp_path / out / "run.json").exists() else []
            process = subprocess.Popen([*command, *resumed], env={**os.environ, "PYTHONPATH": path})
            if number < kills:
                time.sleep(1.5 + 0.4 * number)
                process.send_signal(signal.SIGKILL)
            process.wait(timeout=120)
    calm, killed = (
        {e.key: (e.success, len(e.verdicts), e.skills.snapshot, e.skills.loaded) for e in read_episodes(tmp_path / out)}
        for out in ("calm", "killed")
    )
    assert calm == killed
    time.sleep(0.5)
    own = os.fsencode(installed)  # other tests run the program, too
    assert not [path for path in Path("/proc").glob("[0-9]*") if own in _command_line(path)]


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
