"""Tasks of kinds that are too hard or too easy now are left out, and tried again."""

from itertools import islice
from pathlib import Path

import msgspec
import pytest
from fakes.episodes import rollout
from fakes.ledger_sampler import LedgerSampler
from feeding import feeding

from hermes_lab.config.schema import RewardConfig
from hermes_lab.envs.atropos.config import ENOUGH, EnvSection, check_sampling, load_env_config
from hermes_lab.envs.atropos.kinds import Kinds
from hermes_lab.envs.atropos.source import GroupSource
from hermes_lab.errors import ConfigError
from hermes_lab.types import Episode, Reward


def played(*scores: float) -> list[Episode]:
    return [rollout(n, score) for n, score in enumerate(scores)]


def kinds(**fields: float) -> Kinds:
    return Kinds(EnvSection(**{"min_success": 0.2, "max_success": 0.8, **fields}), RewardConfig())  # type: ignore[arg-type]


def test_a_kind_is_known_after_enough_rollouts_and_left_out_where_it_is_hopeless() -> None:
    chosen = kinds()
    for _ in range(ENOUGH // 4):
        assert chosen.wanted("hard")
        assert chosen.rate("hard") is None
        chosen.saw("hard", played(0.0, 0.0, 0.0, 0.0))
        chosen.saw("fair", played(0.0, 1.0, 0.0, 1.0))
    assert (chosen.rate("hard"), chosen.rate("fair")) == (0.0, 0.5)
    assert (chosen.wanted("hard"), chosen.wanted("fair"), chosen.wanted("new")) == (False, True, True)


def test_a_kind_that_is_mastered_is_left_out_until_it_is_forgotten() -> None:
    chosen = kinds(memory_groups=8)
    for _ in range(4):
        chosen.saw("easy", played(1.0, 1.0, 1.0, 1.0))
    for _ in range(4):
        chosen.saw("fair", played(0.0, 1.0, 0.0, 1.0))
    assert not chosen.wanted("easy")
    chosen.saw("fair", played(0.0, 1.0, 0.0, 1.0))
    assert chosen.rate("easy") is None
    assert chosen.wanted("easy")


def test_if_all_kinds_are_outside_the_nearest_is_played() -> None:
    chosen = kinds()
    for best in (1.0, 1.0, 0.0, 0.0):
        chosen.saw("hard", played(0.0, 0.0, 0.0, 0.0))
        chosen.saw("less", played(best, 0.0, 0.0, 0.0))
    assert (chosen.wanted("less"), chosen.wanted("hard")) == (True, False)


def test_what_is_earned_after_feedback_counts_with_its_discount() -> None:
    chosen = Kinds(
        EnvSection(min_success=0.2, max_success=0.8), RewardConfig(score=0.0, recovered=1.0, tool_calls=-1.0)
    )
    late = Reward(-2.5, {"recovered": 0.5, "tool_calls": -3.0})
    for _ in range(4):
        chosen.saw("late", [msgspec.structs.replace(each, reward=late) for each in played(0.0, 0.0, 0.0, 0.0)])
    assert chosen.rate("late") == 0.5


async def test_a_source_leaves_kinds_out_and_counts_them(tmp_path: Path) -> None:
    half = msgspec.structs.replace(rollout(0, 0.5), reward=Reward(0.5, {"recovered": 0.5}))
    window = ("env.min_success=0.2", "env.max_success=0.8", "env.knowledge=mixed", "suite.count=16")
    async with feeding("http://127.0.0.1:9", LedgerSampler(1), tmp_path, *window) as fed:
        every = list(islice(fed.source.items(), 16))
        hard = every[0].kind
        for _ in range(4):
            fed.source._kinds.saw(hard, played(0.0, 0.0, 0.0, 0.0))
            fed.source._kinds.saw("elsewhere", [half] * 4)
        chosen = list(islice(fed.source.items(), 40))
    names = {item.kind for item in every}
    assert "ledger: oracle, 1 of 1 rules known" in names
    assert len(names) > 4
    assert hard not in {item.kind for item in chosen}
    assert [item for item in chosen if item.epoch == 0] == [item for item in every if item.kind != hard]
    assert fed.tally.left_out[hard] >= sum(item.kind == hard for item in every)
    assert "tasks left out as too hard or too easy now: ledger: " in str(fed.tally)


async def test_a_pass_of_which_all_is_outside_is_played(tmp_path: Path) -> None:
    half = msgspec.structs.replace(rollout(0, 0.5), reward=Reward(0.5, {"recovered": 0.5}))
    window = ("env.min_success=0.2", "env.max_success=0.8", "env.knowledge=none", "suite.options.plain=0")
    async with feeding("http://127.0.0.1:9", LedgerSampler(1), tmp_path, *window) as fed:
        source: GroupSource = fed.source
        for _ in range(4):
            source._kinds.saw("elsewhere", [half] * 4)
            source._kinds.saw("ledger: a hidden rule", played(0.0, 0.0, 0.0, 0.0))
        items = list(islice(source.items(), 12))
    assert not fed.tally.left_out
    assert [item.epoch for item in items] == [0] * 6 + [1] * 6


def test_a_window_needs_a_reward_for_solving() -> None:
    given = ["configs/env/atropos.yaml", "reward={score: 0, recovered: 0, answered: 1}", "env.min_success=0.1"]
    with pytest.raises(ConfigError, match="no term of reward is earned by solving"):
        check_sampling(load_env_config(given))
    with pytest.raises(ConfigError, match=r"env.max_success: must be above min_success, which is 0.5"):
        load_env_config(["env.min_success=0.5", "env.max_success=0.4"])


def test_a_window_that_would_never_know_a_rate_is_refused() -> None:
    given = ["configs/env/atropos.yaml", "env.group_size=2"]
    with pytest.raises(ConfigError, match=r"env\.memory_groups: the last 7 groups of 2 are 14 .* give at least 8"):
        check_sampling(load_env_config([*given, "env.memory_groups=7"]))
    check_sampling(load_env_config([*given, "env.memory_groups=8"]))
    check_sampling(load_env_config([*given, "env.memory_groups=7", "env.min_success=0", "env.max_success=1"]))
