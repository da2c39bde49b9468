"""Learning episodes as groups of an Atropos environment."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from fakes.learning_sampler import LearningSampler
from fakes.openai_server import FakeOpenAIServer

from hermes_lab.config.schema import SuiteConfig
from hermes_lab.envs.atropos.config import EnvConfig, check_sampling, load_env_config
from hermes_lab.envs.atropos.learning import LearningSource
from hermes_lab.envs.atropos.messages import MASKED
from hermes_lab.envs.atropos.process import process
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.groups import read_groups
from hermes_lab.envs.rollouts import open_rollouts
from hermes_lab.errors import ConfigError
from hermes_lab.skills.library import Library
from hermes_lab.types import Episode

REVIEWS = "env.reviews={tasks: 1, followups: 2, repeats: 2, listed_cost: 0.001, body_cost: 0.0001}"


def config_of(base_url: str, *overrides: str) -> EnvConfig:
    return load_env_config(
        [
            "configs/env/atropos.yaml",
            *(f"model.base_url={base_url}", "model.name=fake", "model.max_retries=0", "run.concurrency=4"),
            *("suite.options.ruled=1", "suite.options.plain=0", "learning.arms=[on]", "learning.worlds=2"),
            *("env.group_size=2", "env.max_token_length=100000", "env.objective=both", REVIEWS),
            *("env.knowledge=none", "env.min_success=0", "env.max_success=1"),
            *overrides,
        ]
    )


async def rows(folder: Path, objective: str, **written: Any) -> tuple[list[dict[str, Any]], Tally, list[Episode]]:
    """What two learning episodes give, of which every other review writes the rule."""
    kept: list[Episode] = []

    async def keep(episode: Episode) -> None:
        kept.append(episode)

    def every_other(number: int) -> bool:
        return number % 2 == 0

    sampler = LearningSampler(3, worlds=range(2), writes=every_other)
    async with FakeOpenAIServer(sampler) as server:
        config = config_of(server.base_url, f"env.objective={objective}")
        check_sampling(config)
        async with open_rollouts(config.rollouts, log=folder / "server.log", say=print) as rollouts:
            tally = Tally()
            source = LearningSource(config, rollouts, tally, keep, Library())
            out = folder / "groups.jsonl"
            await process(source, tally, count=2, out=out, page=None, say=print, **({"scored": False} | written))
    return [json.loads(line) for line in out.read_text().splitlines()], tally, kept


async def test_reviews_are_posted_with_their_own_tokens_and_what_they_earned(tmp_path: Path) -> None:
    found, tally, kept = await rows(tmp_path, "review")
    assert [row["group_overrides"]["kind"] for row in found] == ["review", "review"]
    assert {row["group_overrides"]["world"] for row in found} == {0, 1}
    for row in found:
        assert sorted(score > 0.9 for score in row["scores"]) == [False, True]
        for tokens, mask, score in zip(row["tokens"], row["masks"], row["scores"], strict=True):
            said = bytes(token for token, mark in zip(tokens, mask, strict=True) if mark != MASKED).decode()
            assert ("skill_manage" in said) == (score > 0.9)
            assert "Done." not in said  # that is the work
        assert [row["overrides"][n]["review"] for n in range(2)] == [0, 1]
        assert {len(messages) for messages in row["messages"]} >= {len(row["messages"][0])}
    assert "mean value of a review +0.49" in str(tally)
    assert sum(bool(episode.review) for episode in kept) == 2


async def test_every_pass_has_worlds_of_its_own(tmp_path: Path) -> None:
    async with FakeOpenAIServer(LearningSampler(3)) as server:
        config = config_of(server.base_url, "suite.world=40", "learning.worlds=3")
        async with open_rollouts(config.rollouts, log=tmp_path / "server.log", say=print) as rollouts:
            source = LearningSource(config, rollouts, Tally(), ignore, Library())
            lanes = list(islice(source.items(), 7))
    assert [lane.world for lane in lanes] == list(range(40, 47))
    assert len({lane.name for lane in lanes}) == 7


async def test_learning_episodes_of_a_finite_suite_have_keys_of_their_own(tmp_path: Path) -> None:
    """Its tasks are the same in every world, so their keys differ by the lane alone."""
    questions = [{"prompt": f"Question {number}?", "expected_output": str(number)} for number in range(3)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    suite = SuiteConfig(path=str(tmp_path / "t.jsonl"))
    async with FakeOpenAIServer(LearningSampler(1)) as server:
        config = config_of(server.base_url).model_copy(update={"suite": suite})
        async with open_rollouts(config.rollouts, log=tmp_path / "server.log", say=print) as rollouts:
            source = LearningSource(config, rollouts, Tally(), ignore, Library())
            lanes = list(islice(source.items(), 6))
    assert {lane.world for lane in lanes} == {0}
    assert len({lane.name for lane in lanes}) == 6


async def ignore(episode: Episode) -> None:
    del episode


async def test_follow_ups_with_one_library_are_groups_of_their_own(tmp_path: Path) -> None:
    await rows(tmp_path, "both", scored=True)
    groups = read_groups(tmp_path / "groups.jsonl")
    # The fake server repeats itself, so the rewards of a follow-up are equal and its groups are left out.
    assert [group.kind for group in groups] == ["review", "review"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["env.reviews=null"], r"env\.reviews: objective=both needs it: tasks, followups, repeats"),
        (["learning.arms=[off]"], r"learning\.arms: off"),
        (["env.group_size=4"], r"env\.reviews\.repeats: is 2, and env\.group_size 4"),
        (["agent.program=hermes"], r"agent\.program"),
        (["env.min_success=0.1"], r"env\.min_success: has no effect with objective=both"),
        (["env.max_success=0.9"], r"env\.max_success: has no effect"),
        (["env.refills=0"], r"env\.refills: has no effect .* a failed rollout is tried once more; remove it"),
        (["env.knowledge=mixed"], r"env\.knowledge: is mixed; a learning episode begins with skills\.library"),
    ],
)
def test_an_environment_that_cannot_review_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_sampling(config_of("http://127.0.0.1:1/v1", *overrides))
