"""Scored groups hold what was sampled, and refuse what was not."""

import math
from typing import Any

import msgspec
import pytest
from fakes.episodes import BRANCH
from fakes.episodes import rollout as fake_rollout
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.envs.groups import build_groups, normalized_advantages, one_sequence_each, validate_group
from hermes_lab.errors import ConfigError
from hermes_lab.types import (
    Episode,
    EpisodeError,
    ModelIdentity,
    SkillUse,
    TaskInfo,
    TokenBranch,
    Trajectory,
)


def rollout(
    sample: int, reward: float | None, branches: tuple[TokenBranch, ...] = (BRANCH,), task: str = "t"
) -> Episode:
    return fake_rollout(sample, reward, *branches, task_id=task)


def test_samples_of_a_task_make_one_group_scored_against_each_other() -> None:
    (group,) = build_groups([rollout(0, 1.0), rollout(1, 0.0), rollout(2, 0.0), rollout(3, 1.0)])
    assert group.rewards == (1.0, 0.0, 0.0, 1.0)
    assert group.advantages == pytest.approx((0.866, -0.866, -0.866, 0.866), abs=1e-3)
    assert group.policy == "digest"
    assert group.masks[0] == (0, 1, 1)


def test_a_group_says_which_versions_of_the_package_ran_its_episodes() -> None:
    labs = ("0.2.0", "0.1.0 77c2d0a3f91b", "")
    (group,) = build_groups(msgspec.structs.replace(rollout(sample, 1.0), lab=lab) for sample, lab in enumerate(labs))
    assert group.lab == ("0.1.0 77c2d0a3f91b", "0.2.0")


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


def test_a_rollout_that_was_cut_is_a_member_and_is_marked() -> None:
    cut = rollout(1, 0.0, (BRANCH, BRANCH))
    cut = msgspec.structs.replace(cut, trajectory=msgspec.structs.replace(cut.trajectory, stop_reason="length"))
    (group,) = build_groups([rollout(0, 1.0), cut])
    assert group.rewards == (1.0, 0.0, 0.0)
    assert group.stop_reasons == ("answered", "length", "length")
    assert one_sequence_each(group).stop_reasons == ("answered", "length")
    with pytest.raises(ConfigError, match=r"axis G has several lengths: .*stop_reasons 2"):
        validate_group(msgspec.structs.replace(group, stop_reasons=("answered", "length")))


def test_a_group_of_before_stop_reasons_were_kept_is_written_as_it_was() -> None:
    (group,) = build_groups([rollout(0, 1.0), rollout(1, 0.0)])
    old = msgspec.structs.replace(group, stop_reasons=())
    validate_group(old)
    assert b"stop_reasons" not in msgspec.json.encode(old)  # so its digest on a card still holds
    assert b'"v":2' in msgspec.json.encode(old)


def test_text_without_token_ids_is_refused() -> None:
    with pytest.raises(ConfigError, match="token_ids"):
        list(build_groups([rollout(0, 1.0, ())]))


def test_tasks_and_policies_are_not_mixed() -> None:
    other = msgspec.structs.replace(rollout(1, 0.0), model=ModelIdentity("vllm", "m"))
    groups = list(build_groups([rollout(0, 1.0), rollout(0, 1.0, task="u"), other]))
    assert len(groups) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"lane": "other"},
        {"round": 1},
        {"config_digest": "d"},
        {"task": TaskInfo("d", "train", world=1)},
        {"task": TaskInfo("d", "heldout")},
        {"model": ModelIdentity("vllm", "m", adapter="a", adapter_digest="newer")},
        {"skills": SkillUse("learnt")},
    ],
)
def test_what_was_sampled_under_other_conditions_is_another_group(fields: dict[str, Any]) -> None:
    other = msgspec.structs.replace(rollout(1, 0.0), **fields)
    assert [group.samples for group in build_groups([rollout(0, 1.0), other])] == [(0,), (1,)]


def test_a_server_that_came_back_under_another_address_is_the_same_model() -> None:
    ports = [ModelIdentity("vllm", "m", f"http://127.0.0.1:{port}/v1", "a", "digest") for port in (1, 2)]
    (group,) = build_groups(
        [msgspec.structs.replace(rollout(i, float(i)), model=model) for i, model in enumerate(ports)]
    )
    assert group.model == ModelIdentity("vllm", "m", "", "a", "digest")
    assert (group.policy, group.config_digest, group.split, group.world) == ("digest", "c", "train", 0)


def test_the_same_episode_of_two_runs_is_no_group() -> None:
    with pytest.raises(ConfigError, match=r"s\|t\|main\|0\|0: duplicate sample of this task"):
        list(build_groups([rollout(0, 1.0), rollout(0, 0.0)]))


def test_a_group_of_one_has_nothing_to_be_better_than() -> None:
    (group,) = build_groups([rollout(0, 1.0)])
    assert group.advantages == (0.0,)


def test_only_sampled_tokens_have_a_log_probability() -> None:
    (group,) = build_groups([rollout(0, 1.0)])
    assert group.logprobs == ((None, -0.5, -0.1),)


@pytest.mark.parametrize("logprobs", [(0.0, -0.5, math.nan), (0.0, -0.5), (0.0, -0.5, -0.1, -0.2), (0.0, -0.5, 0.2)])
def test_an_episode_whose_log_probabilities_are_none_is_named(logprobs: tuple[float, ...]) -> None:
    broken = rollout(1, 0.0, (TokenBranch(BRANCH.token_ids, BRANCH.mask, logprobs),))
    with pytest.raises(ConfigError, match=r"group s\|t\|main\|0 of digest: sequence 1: "):
        list(build_groups([rollout(0, 1.0), broken]))


@given(st.floats(-1e6, 1e6), st.integers(1, 9), st.integers(1, 9))
def test_rewards_that_differ_by_rounding_alone_give_no_advantage(reward: float, size: int, parts: int) -> None:
    rounded = math.fsum([reward / parts] * parts)
    assert set(normalized_advantages([*[reward] * size, rounded])) == {0.0}


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8))
def test_advantages_are_centred_and_of_unit_spread_or_all_zero(rewards: list[float]) -> None:
    advantages = normalized_advantages(rewards)
    assert math.fsum(advantages) == pytest.approx(0, abs=1e-6)
    if any(advantages):
        assert math.fsum(a * a for a in advantages) / (len(rewards) - 1) == pytest.approx(1)
