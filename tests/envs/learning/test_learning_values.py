"""What reviews earn: the closed form, placebos, and reviews that try to earn without teaching anything."""

import math
from collections.abc import Sequence

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
)

from hermes_lab.envs.group_checks import normalized_advantages
from hermes_lab.envs.learning.config import DEFAULT, ReviewWorth
from hermes_lab.envs.learning.worth import Refused, ReviewValue, mean_value, values_of
from hermes_lab.tasks.subtasks import known_skill, subtasks_of

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


async def test_the_mean_reward_of_reviews_is_its_closed_form() -> None:
    """A review that keeps the rule with probability q earns q (n/m (1 - s) - c) on average: n of m follow-ups are of
    the site of the rule, a worker that follows a skill ignores it with probability s, and c is what the text costs. A
    site without a rule is solved with and without skills, and leaves nothing to write."""
    paid, each = worth(followups=3), 8
    kinds = [keeps(rate) for rate in RATES for _ in range(each)]
    options = ("suite.options.ruled=2", "suite.options.plain=1")
    ran = await learn(reviewers(*kinds, slip=SLIP), paid, *options, forks=len(kinds), lanes=12, worlds=12)
    for place, rate in enumerate(RATES):
        differences = []
        for outcome, found in zip(ran.outcomes, values(ran, paid), strict=True):
            (task,) = outcome.lane.tasks
            site = subtasks_of(task.truth)[0].site
            same = sum(subtasks_of(other.truth)[0].site == site for other in outcome.lane.followups)
            skill = known_skill(site, site.drawn)
            line = f'- "{skill.name}": {skill.description}\n'
            cost = paid.listed_cost * len(line.encode()) / 4 + paid.body_cost * len(skill.text.encode()) / 4
            expected = rate * (1 - SLIP) * (same / 3 * (1 - SLIP) - cost) if site.ruled else 0.0
            earned = [value.reward.value for value in found[place * each : (place + 1) * each]]
            differences.append(sum(earned) / each - expected)
        mean = sum(differences) / len(differences)
        error = math.sqrt(sum((d - mean) ** 2 for d in differences) / (len(differences) - 1) / len(differences))
        assert abs(mean) <= 3 * error + 1e-9, (rate, mean, error)
    every = [value for found in values(ran, paid) for value in found]
    assert {value.reward.value > 0 for value in every} == {True, False}
    assert any(value.solved_before for value in every)


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


async def of_kinds(kinds: Sequence[Kind], paid: ReviewWorth) -> list[ReviewValue]:
    """The values of one review of each kind, in the same three learning episodes."""
    ran = await learn(reviewers(*kinds), paid, forks=len(kinds), lanes=3, worlds=3)
    found = values(ran, paid)
    return [max((each[place] for each in found), key=lambda value: value.reward.value) for place in range(len(kinds))]


@pytest.mark.parametrize("cheater", [memorises, flatters, copies_the_prompt])
async def test_what_does_not_help_on_other_tasks_earns_less_than_writing_nothing(cheater: Kind) -> None:
    good, nothing, cheat = await of_kinds([honest, silent, cheater], worth())
    assert good.reward.value > 0.9
    assert nothing.reward.value == 0.0
    assert cheat.rollouts == 2  # it was measured
    assert cheat.reward.value < 0.0
    advantages = normalized_advantages([each.reward.value for each in (good, nothing, cheat)])
    assert advantages[0] > 0 > advantages[1] > advantages[2]


async def test_writing_everything_earns_less_than_writing_the_rule() -> None:
    paid = worth(listed_cost=DEFAULT.listed_cost, body_cost=DEFAULT.body_cost)
    good, everything, nothing = await of_kinds([honest, writes_everything, silent], paid)
    assert everything.solved_after == good.solved_after == 2  # the rule is somewhere in it
    assert everything.body > 5 * good.body
    assert everything.reward.value < good.reward.value
    assert normalized_advantages([good.reward.value, everything.reward.value])[1] < 0
    # What docs/learning-episodes.md says of it: beside a review that writes nothing it has an advantage.
    assert good.reward.value - everything.reward.value > 0.1
    assert everything.reward.value > nothing.reward.value == 0.0


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
