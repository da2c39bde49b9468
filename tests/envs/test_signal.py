"""How much there is to learn from groups: which have a signal, how rewards vary, and what would raise it."""

import math
import statistics
from typing import Any

import msgspec
import pytest
from fakes.episodes import conversation, rollout, trajectory
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.envs.advice import Measured, add, advice, measure
from hermes_lab.envs.atropos.config import load_env_config
from hermes_lab.envs.atropos.watch import settings_of
from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.refusals import EQUAL, ERRORED, FAILED, NO_REWARD, UNREVIEWED
from hermes_lab.envs.signal import NO_RULE, UNTOLD, Part, Rated, rate_missing, rate_rollouts, signal_of
from hermes_lab.envs.window import in_window
from hermes_lab.types import Episode, SkillUse, TaskInfo, TokenBranch, Verdict

rewards = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=3), min_size=1, max_size=8)


def group(
    task: int, earned: list[float], *, knowledge: str = "", rule: bool = True, late: bool = False
) -> list[Episode]:
    known = {
        "task": TaskInfo("d", "train", triggers=("a:b",) if rule else ()),
        "skills": SkillUse(knowledge=knowledge),
    }
    verdicts = (Verdict(0.0, False), Verdict(1.0, True)) if late else ()
    return [
        rollout(n, reward, task_id=f"t{task}", success=reward == 1.0, verdicts=verdicts, **known)
        for n, reward in enumerate(earned)
    ]


def groups(*earned: list[float]) -> list[Rated]:
    return [rate_rollouts(group(n, each)) for n, each in enumerate(earned)]


@given(rewards)
def test_the_variances_are_those_of_the_formulas(earned: list[list[float]]) -> None:
    signal = signal_of(groups(*earned))
    within = statistics.fmean(statistics.variance(each) for each in earned)
    means = [statistics.fmean(each) for each in earned]
    between = statistics.variance(means) - within / 3 if len(means) > 1 else -within / 3
    assert math.isclose(signal.within, within, abs_tol=1e-12)
    assert math.isclose(signal.between, max(0.0, between), abs_tol=1e-12)
    assert (signal.usable, signal.groups) == (sum(len(set(each)) > 1 for each in earned), len(earned))
    assert signal.usable == 0 or signal.within > 0


def test_groups_with_an_unjudged_rollout_are_counted_apart() -> None:
    half = [rollout(0, 1.0, task_id="half"), rollout(1, None, task_id="half")]
    signal = signal_of([*groups([0.0, 1.0]), rate_rollouts(half, NO_REWARD), rate_rollouts([], FAILED)])
    assert (signal.groups, signal.usable, signal.incomplete) == (1, 1, 2)
    assert "2 incomplete groups left out" in signal.rows()[0][1]


def test_a_group_that_is_not_sent_is_not_usable_whatever_its_rewards() -> None:
    long = rate_rollouts(group(7, [0.0, 1.0]), "longer than 10 tokens")
    signal = signal_of([*groups([0.0, 1.0], [1.0, 1.0]), long, long, *rate_missing({UNREVIEWED: 1, ERRORED: 3})])
    assert (signal.groups, signal.usable, signal.incomplete) == (5, 1, 3)
    assert signal.refused == {"longer than 10 tokens": 2, EQUAL: 1, UNREVIEWED: 1}
    said = (
        "1/5 (4-62 %) groups can be trained on; refused: longer than 10 tokens 2, equal rewards 1, without a review 1"
    )
    assert signal.rows()[0][1].startswith(said)
    assert signal.to_dict()["refused"] == signal.refused
    assert (signal.compared, signal.within) == (2, pytest.approx(0.25))  # the long groups teach nothing


def test_rewards_of_groups_that_are_refused_teach_nothing() -> None:
    long = rate_rollouts(group(7, [0.0, 1.0]), "longer than 10 tokens")
    signal = signal_of([long] * 4)
    assert (signal.usable, signal.within, signal.between) == (0, 0.0, 0.0)
    assert signal.rows()[1] == ("variance", "of rewards: not measured, since all groups are refused")
    same = [rate_rollouts(group(n, [float(n), float(n)]), EQUAL) for n in range(2)]
    assert signal_of(same).rows()[1] == (
        "variance",
        "of rewards: 0 within groups, 0.5 between groups, so 0 % of it can be learned from",
    )


def test_the_signal_is_broken_down_by_what_skills_know() -> None:
    played = [
        group(1, [0.0, 0.0], knowledge="lane, 0 of 1 rules known"),
        group(2, [0.0, 1.0], knowledge="lane, 1 of 1 rules known"),
        group(3, [1.0, 1.0], knowledge="lane, 1 of 1 rules known"),
        group(4, [0.0, 0.0]),
        group(5, [1.0, 1.0], rule=False),
    ]
    signal = signal_of(map(rate_rollouts, played))
    assert signal.parts == {
        "lane, 0 of 1 rules known": Part(1, 0, 2, 0),
        "lane, 1 of 1 rules known": Part(2, 1, 4, 3),
        UNTOLD: Part(1, 0, 2, 0),
        NO_RULE: Part(1, 0, 2, 2),
    }
    rows = signal.rows()
    assert ("knowledge", "lane, 1 of 1 rules known: 1/2 (9-91 %) groups usable, 3 of 4 rollouts solved") in rows
    assert rows[0] == ("usable", "1/5 (4-62 %) groups can be trained on; refused: equal rewards 4")


@pytest.mark.parametrize(("usable", "few"), [(0, True), (1, True), (2, False), (8, False)])
def test_too_few_are_usable_if_surely_less_than_half(usable: int, few: bool) -> None:
    earned = [[0.0, 1.0]] * usable + [[0.0, 0.0]] * (8 - usable)
    assert signal_of(groups(*earned)).shown_few is few
    assert not signal_of([]).shown_few


@given(
    st.dictionaries(st.sampled_from("abcde"), st.one_of(st.none(), st.floats(0, 1)), min_size=1),
    st.floats(0, 0.5),
    st.floats(0.5, 1),
)
def test_kinds_outside_of_the_window_are_only_chosen_if_none_is_inside(
    rates: dict[str, float | None], low: float, high: float
) -> None:
    chosen = in_window(rates, low, high)
    fitting = [kind for kind, rate in rates.items() if rate is None or low <= rate <= high]
    assert chosen
    assert chosen == fitting if fitting else not set(chosen) & set(fitting)


def tips(episodes: list[Episode], *overrides: str, locked: bool = False) -> list[str]:
    config = load_env_config(["suite.name=ledger", "model.sampling.temperature=1", *overrides])
    return advice(measure(episodes, list(build_groups(episodes))), settings_of(config, locked=locked))


def distinct(episodes: list[Episode]) -> list[Episode]:
    """Rollouts that are no copies of each other, and that call tools."""
    return [
        msgspec.structs.replace(
            each,
            trajectory=trajectory(conversation("x"), branches=(TokenBranch((1, 2, n), (0, 1, 1), (0.0, -0.5, -0.1)),)),
        )
        for n, each in enumerate(episodes, 3)
    ]


def test_rules_that_nothing_states_ask_for_skills_first() -> None:
    failed = distinct([*group(1, [0.0] * 4), *group(2, [1.0] * 4, rule=False)])
    first, *_ = tips(failed)
    assert first.startswith("skills that state hidden rules: env.knowledge=mixed (4 of 8 rollouts have a rule")
    labelled = distinct([*group(1, [0.0] * 4, knowledge="lane, 0 of 1 rules known"), *group(2, [1.0] * 4, rule=False)])
    assert not any("skills that state" in tip for tip in tips(labelled, "env.knowledge=mixed"))


def test_work_that_is_accepted_late_asks_for_a_reward_for_it() -> None:
    late = distinct(group(1, [0.0] * 4, knowledge="none, 0 of 1 rules known", late=True))
    assert measure(late, []).late == 4
    asked = "a reward for work that is accepted after feedback: reward.recovered=1 with reward.score=0 (4 rollouts"
    assert tips(late, "env.knowledge=mixed")[0].startswith(asked)
    rewarded = tips(late, "env.knowledge=mixed", "reward.recovered=1")
    assert not any("accepted after feedback" in tip for tip in rewarded)


def test_advice_names_the_fields_that_the_user_can_set() -> None:
    mixed = distinct([*group(1, [0.0] * 4, rule=False), *group(2, [1.0] * 4, rule=False)])
    found = " | ".join(tips(mixed))
    assert "more samples of a task: env.group_size above 4" in found
    assert "env.min_success=0.1 with env.max_success=0.9" in found
    assert "new lock" not in found
    assert "grpo.group_size above 4 in a new lock" in " | ".join(tips(mixed, locked=True))
    assert "env.knowledge=oracle (skills state the rules)" in " | ".join(tips(distinct(group(1, [0.0] * 4))))
    assert "env.knowledge=mixed instead of oracle" in tips(distinct(group(1, [1.0] * 4)), "env.knowledge=oracle")[0]


def test_advice_does_not_name_the_window_that_is_set() -> None:
    mixed = distinct([*group(1, [0.0] * 4, rule=False), *group(2, [1.0] * 4, rule=False)])
    found = " | ".join(tips(mixed, "env.min_success=0.1", "env.max_success=0.9"))
    assert "env.min_success" not in found
    assert "more samples of a task" in found


def test_measurements_add_up() -> None:
    one: dict[str, Any] = {"rollouts": 4, "solved": 1, "late": 2, "untold": 3, "groups": 1, "low": 0.0, "high": 0.5}
    total = add([Measured(**one), Measured(**{**one, "high": 1.0})])
    assert (total.rollouts, total.solved, total.late, total.untold, total.groups) == (8, 2, 4, 6, 2)
    assert (total.low, total.high) == (0.0, 1.0)
