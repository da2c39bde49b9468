"""A program instead of the lab's own loop: arms, reviews, records, replay."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest
from typer.testing import CliRunner

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.rollout import RolloutContext
from hermes_lab.runners.cli import app
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.learner import noop
from hermes_lab.types import Episode

Experiment = Callable[..., list[Episode]]


def outcomes(episodes: list[Episode]) -> dict[str, tuple[bool | None, int]]:
    return {episode.key: (episode.success, len(episode.verdicts)) for episode in episodes}


@pytest.mark.parametrize("program", ["fake", "asked"])
def test_a_program_that_learns_has_the_outcomes_of_the_own_loop(experiment: Experiment, program: str) -> None:
    own, theirs = experiment(""), experiment(program, "theirs")
    assert all(episode.status == "ok" for episode in theirs)
    assert outcomes(theirs) == outcomes(own)
    by_arm = {arm: [e.success for e in theirs if e.lane.startswith(arm)] for arm in ("off", "on", "placebo", "oracle")}
    assert by_arm == {"off": [False] * 3, "on": [False, True, True], "placebo": [False] * 3, "oracle": [True] * 3}


def test_skills_are_listed_loaded_and_followed_as_in_the_own_loop(experiment: Experiment) -> None:
    for own, theirs in zip(experiment(""), experiment("fake", "theirs"), strict=True):
        assert (theirs.skills.listed, theirs.skills.loaded) == (own.skills.listed, own.skills.loaded)
        assert [(t.name, t.listed, t.loaded, t.followed) for t in theirs.skills.traces] == [
            (t.name, t.listed, t.loaded, t.followed) for t in own.skills.traces
        ]


def test_writes_of_its_review_are_the_reviews_and_lead_to_the_same_library(experiment: Experiment) -> None:
    own, theirs = experiment(""), experiment("fake", "theirs")
    first = next(e for e in theirs if e.lane.startswith("on") and e.round == 0)
    assert first.review is not None
    assert [(write.action, write.origin) for write in first.review.writes] == [("create", "review")]
    assert first.skills.writes == ()
    assert [e.skills.snapshot for e in theirs] == [e.skills.snapshot for e in own]


def test_without_learning_there_is_no_review(experiment: Experiment) -> None:
    for program in ("fake", "asked"):
        episodes = experiment(program, program, learning={"arms": ["off", "oracle"], "heldout": {"tasks": 1}})
        assert all(episode.review is None for episode in episodes)
        assert not any("REVIEW" in m.content for e in episodes if e.trajectory for m in e.trajectory.messages)


def test_the_record_has_the_program_and_the_whole_conversation(experiment: Experiment, tmp_path: Path) -> None:
    episodes = experiment(learning={"arms": ["on"], "rounds": 1})
    manifest = read_manifest(tmp_path / "run")
    assert manifest.program is not None
    assert len(manifest.program.digest) == 64
    (episode,) = episodes
    assert episode.program is not None
    known = {"requests": episode.program.requests, "prompt": episode.program.prompt}
    assert episode.program == msgspec.structs.replace(manifest.program, **known)
    assert episode.prompt == episode.program.prompt
    assert episode.trajectory is not None
    assert [m.role for m in episode.trajectory.messages][:4] == ["system", "user", "assistant", "tool"]
    assert episode.trajectory.messages[1].content == episode.trajectory.messages[1].content.strip()
    assert episode.trajectory.tools[0]["function"]["name"] == "sh"
    assert episode.trajectory.final_response == "Done."
    # A review after each of the two submissions; the first one is kept beside the last.
    assert [child.goal for child in episode.children] == ["review of an earlier submission"]
    assert episode.review is not None


def test_a_program_without_sessions_gets_the_task_again(experiment: Experiment) -> None:
    (episode,) = experiment("forgetful", learning={"arms": ["off"], "rounds": 1})
    assert [verdict.success for verdict in episode.verdicts] == [False, True]
    assert episode.trajectory is not None
    prompts = [m.content for m in episode.trajectory.messages if m.role == "user"]
    assert prompts[1].startswith(f"{prompts[0]}\n\nAn earlier attempt was rejected: ")


def test_runs_of_two_programs_are_compared(experiment: Experiment, tmp_path: Path) -> None:
    """A program may put the prompt among texts of its own."""
    experiment("asked", "one", learning={"arms": ["off"]})
    experiment("asked", "two", learning={"arms": ["off"]}, agent={"settings": {"fault": "adds"}})
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "one"), str(tmp_path / "two")])
    assert done.exit_code == 0, done.output + str(done.exception)


def test_a_side_request_is_a_child(experiment: Experiment) -> None:
    (episode,) = experiment(agent={"settings": {"fault": "title"}}, learning={"arms": ["off"], "rounds": 1})
    assert episode.status == "ok"
    assert episode.trajectory is not None
    assert episode.trajectory.messages[0].role == "system"
    assert [child.goal.startswith("A title for: ") for child in episode.children] == [True, True]


def test_replay_needs_no_server_and_gives_the_same_messages(experiment: Experiment, tmp_path: Path) -> None:
    for episode in experiment(learning={"arms": ["on"], "rounds": 2}):
        done = CliRunner().invoke(app, ["replay", str(tmp_path / "run"), "--episode", episode.key])
        assert done.exit_code == 0, done.output
        assert "messages are the same, byte for byte" in done.output


async def _group(config: RunConfig, folder: Path) -> tuple[Episode, ...]:
    async with open_rollouts(config, log=folder / "server.log", say=print) as rollouts:
        (task,) = rollouts.tasks(split="train", count=1, seed=0, world=0)
        return await rollouts.group(task, 2)


def test_training_environments_run_the_program(installed: Path, tmp_path: Path) -> None:
    config = RunConfig.model_validate(
        {
            "model": {"provider": "scripted", "name": "hermes_lab.tasks.learner:learner"},
            "suite": {"name": "ledger"},
            "agent": {"program": "fake", "at": str(installed)},
        }
    )
    episodes = anyio.run(_group, config, tmp_path)
    assert [(e.status, e.program and e.program.name, e.review) for e in episodes] == [("ok", "fake", None)] * 2


def test_a_context_without_the_configured_program_is_refused(tmp_path: Path) -> None:
    config = RunConfig.model_validate({"agent": {"program": "fake"}, "suite": {"name": "ledger"}})
    with pytest.raises(ConfigError, match=r"^agent\.program: a RolloutContext without a program"):
        RolloutContext(
            config, "", load_suite(config.suite), ScriptedModel(noop()), partial(open_sandbox, config.sandbox)
        )


def test_its_episodes_are_training_data(experiment: Experiment, tmp_path: Path) -> None:
    experiment(learning={"arms": ["on"], "rounds": 2})
    for form in ("openai", "sft", "hermes", "atif"):
        out = tmp_path / f"{form}.out"
        done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--format", form, "-o", str(out)])
        assert done.exit_code == 0, done.output
        assert out.exists()
