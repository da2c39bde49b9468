"""Scored groups hold what was sampled, and refuse what was not."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.groups import build_groups, normalized_advantages, validate_group
from hermes_lab.errors import ConfigError
from hermes_lab.types import (
    Episode,
    EpisodeError,
    ModelIdentity,
    Reward,
    ScoredGroup,
    Step,
    TaskInfo,
    TokenBranch,
    Trajectory,
    Usage,
)

BRANCH = TokenBranch((1, 2, 3), (0, 1, 1), (0.0, -0.5, -0.1))


def rollout(
    sample: int, reward: float | None, branches: tuple[TokenBranch, ...] = (BRANCH,), task: str = "t"
) -> Episode:
    return Episode(
        suite="s",
        task_id=task,
        lane="main",
        round=0,
        sample=sample,
        experience=0,
        place=0,
        status="ok",
        task=TaskInfo("d", "train"),
        model=ModelIdentity("vllm", "m", adapter="a", adapter_digest="digest"),
        config_digest="c",
        started_at="",
        seconds=0.0,
        score=reward,
        reward=None if reward is None else Reward(reward),
        trajectory=Trajectory((), (), "hermes", "answered", steps=(Step(1, "stop", Usage()),), branches=branches),
    )


def test_samples_of_a_task_make_one_group_scored_against_each_other() -> None:
    (group,) = build_groups([rollout(0, 1.0), rollout(1, 0.0), rollout(2, 0.0), rollout(3, 1.0)])
    assert group.rewards == (1.0, 0.0, 0.0, 1.0)
    assert group.advantages == pytest.approx((0.866, -0.866, -0.866, 0.866), abs=1e-3)
    assert group.policy == "digest"
    assert group.masks[0] == (0, 1, 1)


def test_an_episode_in_two_branches_gives_two_sequences_and_weighs_once_in_the_mean() -> None:
    (group,) = build_groups([rollout(0, 1.0, (BRANCH, BRANCH)), rollout(1, 0.0)])
    assert group.rewards == (1.0, 1.0, 0.0)
    assert group.advantages == pytest.approx((0.707, 0.707, -0.707), abs=1e-3)


def test_errored_and_unscored_episodes_never_become_a_reward() -> None:
    errored = msgspec.structs.replace(
        rollout(1, None), status="errored", error=EpisodeError("model", "down"), trajectory=None
    )
    (group,) = build_groups([rollout(0, 1.0), errored, rollout(2, None)])
    assert len(group.rewards) == 1


def test_an_episode_without_a_reply_has_nothing_to_train_on() -> None:
    silent = msgspec.structs.replace(rollout(1, 0.0), trajectory=Trajectory((), (), "hermes", "max_seconds"))
    (group,) = build_groups([rollout(0, 1.0), silent])
    assert len(group.rewards) == 1


def test_text_without_token_ids_is_refused() -> None:
    with pytest.raises(ConfigError, match="token_ids"):
        list(build_groups([rollout(0, 1.0, ())]))


def test_tasks_and_policies_are_not_mixed() -> None:
    other = msgspec.structs.replace(rollout(1, 0.0), model=ModelIdentity("vllm", "m"))
    groups = list(build_groups([rollout(0, 1.0), rollout(0, 1.0, task="u"), other]))
    assert len(groups) == 3


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8))
def test_advantages_are_centred_and_of_unit_spread_or_all_zero(rewards: list[float]) -> None:
    advantages = normalized_advantages(rewards)
    assert math.fsum(advantages) == pytest.approx(0, abs=1e-6)
    if any(advantages):
        assert math.fsum(a * a for a in advantages) / (len(rewards) - 1) == pytest.approx(1)


@pytest.mark.parametrize(
    "broken",
    [
        {"rewards": (1.0,)},
        {"masks": ((0, 1), (0, 1, 1))},
        {"masks": ((0, 0, 0), (0, 1, 1))},
        {"logprobs": ((0.0, 0.5, -0.1), (0.0, -0.5, -0.1))},
    ],
)
def test_a_group_whose_axes_disagree_is_refused(broken: dict[str, object]) -> None:
    (group,) = build_groups([rollout(0, 1.0), rollout(1, 0.0)])
    validate_group(group)
    with pytest.raises(ValueError, match="t: "):
        validate_group(msgspec.structs.replace(group, **broken))


@given(st.integers(1, 4))
def test_groups_survive_their_file(size: int) -> None:
    (group,) = build_groups([rollout(i, float(i % 2)) for i in range(size)])
    assert msgspec.json.decode(msgspec.json.encode(group), type=ScoredGroup) == group
