"""A recorded run can be run again: byte for byte from its recording, or with the model, and a difference is shown."""

import json
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from typer.testing import CliRunner

from hermes_lab.agent.compress import SUMMARISE, SUMMARY, summary_request, visible
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.replay import ReplayModel
from hermes_lab.records import episode_files, read_episodes
from hermes_lab.types import Compression, Episode, Message, Usage
from runners.cli import app


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
    assert invoke("learn", "-c", "configs/learner.yaml", *options, "--out", str(out), "--quiet")[0] == 0
    return out


def test_every_episode_and_its_review_come_out_the_same(run: Path) -> None:
    reviewed = 0
    for number, episode in enumerate(read_episodes(run)):
        code, text = invoke("replay", str(run), "--episode", str(number), "--json")
        report = json.loads(text)
        assert (code, report["same"], report["episode"]) == (0, True, episode.key), report
        reviewed += len(episode.review.writes) if episode.review else 0
    assert reviewed, "a review that wrote a skill is among them"


def test_the_live_model_may_be_asked_again(run: Path) -> None:
    key = next(iter(read_episodes(run))).key
    assert invoke("replay", str(run), "--episode", key, "--live")[0] == 0


def test_a_changed_recording_is_found_out_and_the_difference_shown(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "episodes").mkdir(parents=True)
    (copy / "run.json").write_bytes((run / "run.json").read_bytes())
    (copy / "skills").symlink_to(run / "skills")
    first = next(iter(read_episodes(run)))
    messages = list(first.trajectory.messages)
    at = next(i for i, m in enumerate(messages) if m.results)
    messages[at] = msgspec.structs.replace(messages[at], content=messages[at].content.replace("exit_code", "exitcode"))
    trajectory = msgspec.structs.replace(first.trajectory, messages=tuple(messages))
    changed = msgspec.structs.replace(first, trajectory=trajectory)
    (copy / "episodes" / "w0-0.jsonl").write_bytes(msgspec.json.encode(changed) + b"\n")
    code, text = invoke("replay", str(copy), "--episode", "0")
    assert code == 1
    assert "has no reply to this prompt" in text


def test_an_episode_that_is_not_there_is_named(run: Path) -> None:
    with pytest.raises(ConfigError, match="holds no 'nothing'"):
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
    assert invoke("learn", "-c", "configs/learner.yaml", *options, "--out", str(again), "--quiet")[0] == 0
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
    with pytest.raises(ModelError, match="has no reply"):
        anyio.run(ask, messages[:-1], tools)


def _with(episode: Episode, trajectory: Any) -> Episode:
    return msgspec.structs.replace(episode, trajectory=trajectory, review=None)
