"""A recorded run can be run again: byte for byte from its recording, or with the model, and a difference is shown."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from typer.testing import CliRunner

from hermes_lab.errors import ConfigError, ContextFull
from hermes_lab.models.replay import ReplayModel
from hermes_lab.prompts_version import PROMPTS
from hermes_lab.records import episode_files, read_episodes
from hermes_lab.runners.cli import app
from hermes_lab.runners.episodes import place_of
from hermes_lab.transcript import SUMMARISE, SUMMARY, summary_request, visible
from hermes_lab.types import Compression, Episode, Message, Usage


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments, standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value or 0, result.stdout


@pytest.fixture(scope="module", params=["native", "hermes"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A learning run with reviews, in both tool formats."""
    out = tmp_path_factory.mktemp("replay") / "run"
    settings = ["learning.arms=[on]", "learning.replicates=1", "learning.worlds=1", "learning.rounds=4"]
    options = [part for s in (*settings, f"agent.tool_format={request.param}") for part in ("-c", s)]
    assert invoke("experiment", "-c", "configs/learner.yaml", *options, "--out", str(out), "--quiet")[0] == 0
    return out


def test_every_episode_and_its_review_come_out_the_same(run: Path) -> None:
    reviewed = 0
    for number, episode in enumerate(sorted(read_episodes(run), key=place_of)):
        code, text = invoke("replay", str(run), "--episode", str(number), "--json")
        report = json.loads(text)
        assert (code, report["same"], report["episode"]) == (0, True, episode.key), report
        reviewed += len(episode.review.writes) if episode.review else 0
    assert reviewed, "a review that wrote a skill is among them"


def test_the_live_model_may_be_asked_again(run: Path) -> None:
    key = next(iter(read_episodes(run))).key
    assert invoke("replay", str(run), "--episode", key, "--live")[0] == 0


def changed_copy(run: Path, to: Path, place: int, old: str, new: str) -> Path:
    """The first episode of a run alone, with another text in one of its messages."""
    (to / "episodes").mkdir(parents=True)
    (to / "run.json").write_bytes((run / "run.json").read_bytes())
    (to / "skills").symlink_to(run / "skills")
    first = next(iter(read_episodes(run)))
    messages = list(first.trajectory.messages)
    assert old in messages[place].content
    results = [
        msgspec.structs.replace(result, content=result.content.replace(old, new)) for result in messages[place].results
    ]
    text = messages[place].content.replace(old, new)
    messages[place] = msgspec.structs.replace(messages[place], content=text, results=tuple(results))
    trajectory = msgspec.structs.replace(first.trajectory, messages=tuple(messages))
    changed = msgspec.structs.replace(first, trajectory=trajectory)
    (to / "episodes" / "w0-0.jsonl").write_bytes(msgspec.json.encode(changed) + b"\n")
    return to


def test_a_prompt_that_is_another_now_is_found_out_and_the_difference_shown(run: Path, tmp_path: Path) -> None:
    copy = changed_copy(run, tmp_path / "copy", 0, "You are Hermes", "You are Her mes")
    code, text = invoke("replay", str(copy), "--episode", "0")
    assert code == 1
    assert "message 0 (system) differs at character 11: it was 'You are Her mes" in text


def test_a_run_with_another_version_of_the_prompts_is_said_in_one_line(run: Path, tmp_path: Path) -> None:
    copy = changed_copy(run, tmp_path / "copy", 0, "You are Hermes", "You are Her mes")
    manifest = json.loads((run / "run.json").read_text())
    assert manifest["versions"].pop("prompts") == PROMPTS
    (copy / "run.json").write_text(json.dumps(manifest))
    result = CliRunner().invoke(app, ("replay", str(copy), "--episode", "0"), standalone_mode=False)
    said = f"was made with version 1 of the prompts, and this Hermes Lab has version {PROMPTS}; expect other messages"
    assert [line for line in result.stderr.splitlines() if said in line] == [f"{copy}: {said}"]
    assert "version" not in CliRunner().invoke(app, ("replay", str(run), "--episode", "0")).stderr


def test_a_tool_that_answers_otherwise_now_is_said_and_the_replay_goes_on(run: Path, tmp_path: Path) -> None:
    place = next(i for i, m in enumerate(next(iter(read_episodes(run))).trajectory.messages) if m.results)
    copy = changed_copy(run, tmp_path / "copy", place, "total", "sum")
    code, text = invoke("replay", str(copy), "--episode", "0", "--json")
    report = json.loads(text)
    assert (code, report["same"]) == (0, True)
    (said,) = report["answers_now"]
    assert re.match(r"terminal answered .*sum.* and now .*total", said)


def test_an_episode_that_is_not_there_is_named(run: Path) -> None:
    with pytest.raises(ConfigError, match="has no episode 'nothing'"):
        invoke("replay", str(run), "--episode", "nothing")


def test_a_whole_run_replays_as_a_run(run: Path, tmp_path: Path) -> None:
    """`provider: replay` is a model like any other; skills are learnt again from the recorded reviews."""
    manifest = json.loads((run / "run.json").read_text())["config"]
    settings = [
        "model.provider=replay",
        f"model.name={run}",
        "model.options={}",
        f"agent.tool_format={manifest['agent']['tool_format']}",
        *("learning.arms=[on]", "learning.replicates=1", "learning.worlds=1", "learning.rounds=4"),
    ]
    options = [part for s in settings for part in ("-c", s)]
    again = tmp_path / "again"
    assert invoke("experiment", "-c", "configs/learner.yaml", *options, "--out", str(again), "--quiet")[0] == 0
    assert _rows(again) == _rows(run)


def _rows(run: Path) -> list[tuple[Any, ...]]:
    assert episode_files(run)
    return [
        (e.key, e.success, [m.content for m in e.trajectory.messages], e.skills.snapshot) for e in read_episodes(run)
    ]


def test_a_compressed_conversation_replays_its_summaries_too(run: Path) -> None:
    """The prompts of the recording, as they are told from the log, get the recorded replies."""
    first = next(iter(read_episodes(run)))
    turns = first.trajectory.messages
    at = len(turns) - 1  # before the last reply
    summary = Message("user", SUMMARY + "What was done.")
    messages = (*turns[:at], summary, turns[at])
    compression = Compression(at, 2, at - 1, 500, Usage(7, 7))
    steps = [msgspec.structs.replace(s, message=s.message + (s.message >= at)) for s in first.trajectory.steps]
    trajectory = msgspec.structs.replace(
        first.trajectory, messages=messages, compressions=(compression,), steps=tuple(steps)
    )
    model = ReplayModel([_with(first, trajectory)])
    tools = first.trajectory.tools if first.trajectory.tool_format == "native" else ()

    async def ask(prompt: Any, tools: Any) -> str:
        return (await model.generate(prompt, tools)).message.content

    request = summary_request(messages, (), 2, at - 1, 500)
    assert request[0].content == SUMMARISE
    assert anyio.run(ask, request, ()) == "What was done."
    assert anyio.run(ask, visible(messages[:-1], [compression]), tools) == turns[at].content
    with pytest.raises(ContextFull, match="has no reply"):
        anyio.run(ask, messages[:-1], tools)


def _with(episode: Episode, trajectory: Any) -> Episode:
    return msgspec.structs.replace(episode, trajectory=trajectory, review=None)


CLOCK = {"name": "terminal", "arguments": {"command": "date +%s%N; ls -l --time-style=full-iso; echo x >made"}}


def slow(requests: dict[str, Any]) -> Reply:
    """Calls a tool whose answer is never the same, each time after a while; answers when it is told to."""
    said = requests["messages"][-1]["content"] or ""
    if "Answer now" in said:
        return Reply("I had no time.")
    return Reply(tool_calls=[function_call("c", **CLOCK)], delay=0.4)


def outside(tmp_path: Path, server: FakeOpenAIServer, *more: str) -> Path:
    """A run on a JSONL suite that is gone afterwards."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"prompt": "What time is it?", "expected_output": "late"}\n')
    settings = [f"suite.path={data}", f"model.base_url={server.base_url}", "model.name=fake", *more]
    args = [part for setting in settings for part in ("-c", setting)]
    assert invoke("run", *args, "--out", str(tmp_path / "run"), "--quiet")[0] == 0
    data.unlink()
    return tmp_path / "run"


def test_clocks_and_a_suite_that_is_gone_are_no_hindrance(tmp_path: Path) -> None:
    clock = Reply(tool_calls=[function_call("c", **CLOCK)])
    with running(FakeOpenAIServer([clock, clock, "It is late."])) as server:
        run = outside(tmp_path, server)
    code, text = invoke("replay", str(run), "--episode", "0", "--json")
    report = json.loads(text)
    assert (code, report["same"], len(report["answers_now"])) == (0, True, 2), report


def test_an_episode_whose_time_was_up_is_replayed_without_the_wait(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(slow)) as server:
        run = outside(tmp_path, server, "agent.max_seconds=1")
    (episode,) = read_episodes(run)
    assert episode.trajectory.stop_reason == "max_seconds"
    code, text = invoke("replay", str(run), "--episode", "0", "--json")
    assert (code, json.loads(text)["same"]) == (0, True), text


@pytest.mark.parametrize("summary", ["So far it was early.", Reply(status=400, body={"error": {"message": "no"}})])
def test_an_episode_whose_prompt_was_refused_as_too_long_is_replayed(summary: str | Reply, tmp_path: Path) -> None:
    full = Reply(status=400, body={"error": {"message": "maximum context length is 10 tokens", "code": 400}})
    turns = [Reply(tool_calls=[function_call("c", **CLOCK)])] * 4
    with running(FakeOpenAIServer([*turns, full, summary, "It is late."])) as server:
        run = outside(tmp_path, server)
    (episode,) = read_episodes(run)
    assert episode.trajectory.stop_reason == ("answered" if isinstance(summary, str) else "context_full")
    code, text = invoke("replay", str(run), "--episode", "0", "--json")
    assert (code, json.loads(text)["same"]) == (0, True), text
