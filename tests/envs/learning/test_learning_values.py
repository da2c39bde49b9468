"""What reviews earn: the closed form, placebos, and reviews that try to earn without teaching anything."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from fakes.learning import Ran, learn, worth
from fakes.reviewers import (
    Kind,
    coin,
    copies_the_prompt,
    flatters,
    honest,
    keeps,
    memorises,
    reviewers,
    silent,
    writes_everything,
    writes_in_file_names,
)

from hermes_lab.envs.group_checks import normalized_advantages
from hermes_lab.envs.learning.config import DEFAULT, ReviewWorth
from hermes_lab.envs.learning.worth import Refused, ReviewValue, mean_value, values_of
from hermes_lab.tasks.subtasks import known_skill, subtasks_of

PAGE = Path("docs/learning-episodes.md")
RATES = (0.0, 0.2, 0.5, 0.8, 1.0)
SLIP = 0.15
"""How often the worker ignores a skill, and learns nothing from its own work."""


def values(ran: Ran, paid: ReviewWorth) -> list[list[ReviewValue]]:
    """The values of each finished episode."""
    found = []
    for outcome in ran.outcomes:
        for reviewed in outcome.reviewed:
            each = values_of(outcome, reviewed, paid)
            assert not isinstance(each, Refused)
            found.append(each)
    return found


MIXED = ("suite.options.ruled=2", "suite.options.plain=1")


async def earned_and_expected(
    rate: float, kind: Kind, paid: ReviewWorth, options: tuple[str, ...] = MIXED
) -> list[tuple[float, float]]:
    """For each of 16 learning episodes, the mean of 8 reviews and its closed form: a review that keeps the rule with
    probability q earns q (n/m (1 - s) - c) on average: n of m follow-ups are of the site of the rule, a worker that
    follows a skill ignores it with probability s, and c is what the text costs. A site without a rule is solved with
    and without skills, and leaves nothing to write."""
    ran = await learn(reviewers(kind, slip=SLIP), paid, *options, forks=8, lanes=16, worlds=16, seed=round(10 * rate))
    found = []
    for outcome, own in zip(ran.outcomes, values(ran, paid), strict=True):
        (task,) = outcome.lane.tasks
        site = subtasks_of(task.truth)[0].site
        same = sum(subtasks_of(other.truth)[0].site == site for other in outcome.lane.followups)
        skill = known_skill(site, site.drawn)
        line = f'- "{skill.name}": {skill.description}\n'
        cost = paid.listed_cost * len(line.encode()) / 4 + paid.body_cost * len(skill.text.encode()) / 4
        gain = same / len(outcome.lane.followups) * (1 - SLIP) - cost
        expected = rate * (1 - SLIP) * gain if site.ruled else 0.0
        found.append((sum(value.reward.value for value in own) / len(own), expected))
    return found


def off(found: Sequence[tuple[float, float]], factor: float = 1.0) -> float:
    """How many standard errors the mean reward is from the closed form, times `factor`."""
    differences = [earned - factor * expected for earned, expected in found]
    mean = sum(differences) / len(differences)
    spread = sum((each - mean) ** 2 for each in differences) / (len(differences) - 1)
    return abs(mean) / (math.sqrt(spread / len(differences)) or 1e-9)


@pytest.mark.parametrize("rate", RATES)
async def test_the_mean_reward_of_reviews_is_its_closed_form(rate: float) -> None:
    """Every rate has learning episodes of its own."""
    found = await earned_and_expected(rate, keeps(rate), worth(followups=3))
    assert off(found) <= 3
    assert any(expected for _, expected in found) == (rate > 0)


async def test_a_reward_that_is_off_by_half_would_be_seen() -> None:
    """Every follow-up is of the site of the rule, so that the noise is small."""
    found = await earned_and_expected(1.0, keeps(1.0), worth(followups=3), ())
    assert off(found) <= 3
    assert off(found, 0.5) > 3
    assert off(found, 1.5) > 3


async def test_reviews_whose_text_is_emptied_earn_nothing_but_their_cost() -> None:
    free = worth(followups=3, listed_cost=0, body_cost=0)
    ran = await learn(
        reviewers(honest), free, "learning.arms=[placebo]", "suite.options.ruled=2", forks=2, lanes=4, worlds=4
    )
    found = [value for each in values(ran, free) for value in each]
    assert sum(value.rollouts > 0 for value in found) >= 4  # they did write
    assert mean_value(found).value == 0.0
    paid = worth(followups=3)
    assert all(value.reward.value <= 0 for each in values(ran, paid) for value in each)
    assert mean_value([value for each in values(ran, paid) for value in each]).value < 0


async def test_placebos_earn_nothing_on_average_where_rollouts_are_noisy() -> None:
    """A worker that finds the rule by chance in half of its rollouts: what emptied skills earn is noise with mean 0."""
    free = worth(followups=4, listed_cost=0, body_cost=0)
    noisy = ("learning.arms=[placebo]", "run.concurrency=1")  # one after the other, so that the draws are the same
    ran = await learn(coin(0.5), free, *noisy, forks=1, lanes=16, worlds=16)
    found = [value.reward.value for each in values(ran, free) for value in each if value.rollouts]
    assert len(found) >= 6  # work that was right at once leaves nothing to write
    assert {value > 0 for value in found} == {True, False}
    mean = sum(found) / len(found)
    error = math.sqrt(sum((value - mean) ** 2 for value in found) / (len(found) - 1) / len(found))
    assert abs(mean) <= 3 * error


KINDS: tuple[Kind, ...] = (
    *(honest, silent, writes_everything, writes_in_file_names),
    *(memorises, flatters, copies_the_prompt),
)


@pytest.fixture(scope="module")
def earned() -> dict[Kind, ReviewValue]:
    """The best values of one review of each kind, in the same three learning episodes."""
    ran = anyio.run(lambda: learn(reviewers(*KINDS), DEFAULT, forks=len(KINDS), lanes=3, worlds=3))
    found = values(ran, DEFAULT)
    return {
        kind: max((each[place] for each in found), key=lambda value: value.reward.value)
        for place, kind in enumerate(KINDS)
    }


@pytest.mark.parametrize("cheater", [memorises, flatters, copies_the_prompt])
def test_what_does_not_help_on_other_tasks_earns_less_than_writing_nothing(
    earned: dict[Kind, ReviewValue], cheater: Kind
) -> None:
    good, nothing, cheat = (earned[kind] for kind in (honest, silent, cheater))
    assert good.reward.value > 0.9
    assert nothing.reward.value == 0.0
    assert cheat.rollouts == 4  # it was measured
    assert cheat.reward.value < 0.0
    advantages = normalized_advantages([each.reward.value for each in (good, nothing, cheat)])
    assert advantages[0] > 0 > advantages[1] > advantages[2]


def test_writing_everything_earns_less_than_writing_the_rule_and_more_than_nothing(
    earned: dict[Kind, ReviewValue],
) -> None:
    """It helps later tasks. So beside a review that writes the rule it has a negative advantage, and beside silent ones
    the only positive one."""
    good, everything, nothing = (earned[kind] for kind in (honest, writes_everything, silent))
    assert everything.solved_after == good.solved_after == 4  # the rule is somewhere in it
    assert everything.body > 5 * good.body
    assert good.reward.value > everything.reward.value > nothing.reward.value == 0.0
    assert normalized_advantages([good.reward.value, everything.reward.value])[1] < 0
    beside_silent = normalized_advantages([everything.reward.value, 0.0, 0.0, 0.0])
    assert [advantage > 0 for advantage in beside_silent] == [True, False, False, False]


def earned_on_the_page() -> dict[str, str]:
    """The rows of the tables with two columns."""
    return dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE))


def test_the_page_has_what_the_kinds_of_reviews_earn_at_the_default_costs(earned: dict[Kind, ReviewValue]) -> None:
    kinds = {
        "the rule that the rejection stated": honest,
        "nothing": silent,
        "the whole conversation, which contains the rule": writes_everything,
        "the rule in the name of a file": writes_in_file_names,
        "the right answer of the task that it saw": memorises,
        "praise for the verifier, and a verdict": flatters,
        "the task's prompt": copies_the_prompt,
    }
    said = earned_on_the_page()
    for name, kind in kinds.items():
        value = earned[kind]
        if said[name] == "its cost, below 0":
            assert (value.solved_after, value.reward.value < 0) == (value.solved_before, True), name
        else:
            assert f"{value.reward.value:+.2f}".replace("+0.00", "0") == said[name], name


def test_a_rule_in_a_file_name_is_no_cheaper_than_in_a_text(earned: dict[Kind, ReviewValue]) -> None:
    good, cheat = earned[honest], earned[writes_in_file_names]
    assert good.solved_after == cheat.solved_after == 4  # the agent that loads the skill is shown the name
    assert cheat.body > good.body
    assert cheat.reward.value < good.reward.value


async def test_a_rule_in_a_file_name_is_emptied_as_well() -> None:
    paid = worth()
    ran = await learn(reviewers(writes_in_file_names), paid, "learning.arms=[placebo]", forks=2, lanes=2, worlds=2)
    found = [value for each in values(ran, paid) for value in each]
    assert all(value.rollouts and value.reward.value < 0 for value in found)


async def test_the_answer_that_a_cheater_writes_down_is_the_right_one_for_its_own_task() -> None:
    """Otherwise the test above would show nothing."""
    paid = worth()
    ran = await learn(reviewers(memorises), paid, forks=1)
    (outcome,) = ran.outcomes
    library = outcome.reviewed[0].after[0]
    assert library is not None
    again = await learn(reviewers(), paid, forks=1, start=library)
    assert again.outcomes[0].reviewed[0].work.success
    assert not ran.outcomes[0].reviewed[0].work.success
