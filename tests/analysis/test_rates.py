"""Intervals of rates over rows that depend on each other."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from hermes_lab.analysis.stats.intervals import Rate, wilson
from hermes_lab.analysis.stats.paired import rate_of
from hermes_lab.analysis.stats.rates import Place, effective_trials, rate_over


def in_worlds(outcomes: list[list[bool]]) -> Rate:
    """Each list is of one world, with a lane and a task for each outcome."""
    rows = [(Place(w, (w, 0), (w, t)), outcome) for w, world in enumerate(outcomes) for t, outcome in enumerate(world)]
    return rate_over([outcome for _, outcome in rows], [place for place, _ in rows])


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_independent_rows_have_wilsons_interval(outcomes: list[bool]) -> None:
    found = rate_over(outcomes, [Place(0, 0, task) for task in range(len(outcomes))])
    assert found == Rate(sum(outcomes), len(outcomes))
    theirs = proportion_confint(sum(outcomes), len(outcomes), method="wilson")
    assert tuple(found.interval) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("solved", [0, 3, 10])
def test_samples_that_are_copies_say_no_more_than_one(solved: int) -> None:
    """Eight equal samples of ten tasks, as at temperature 0."""
    places = [Place(0, 0, task) for task in range(10) for _ in range(8)]
    found = rate_over([place.task < solved for place in places], places)
    assert (found.successes, found.trials) == (8 * solved, 80)
    assert found.interval == pytest.approx(tuple(wilson(solved, 10)))


def test_samples_that_are_independent_count_each() -> None:
    draw = np.random.default_rng(0)
    places = [Place(0, 0, task) for task in range(200) for _ in range(4)]
    found = rate_over([bool(hit) for hit in draw.random(800) < 0.5], places)
    assert found.effective is None or found.effective > 600


def test_the_effective_trials_by_hand() -> None:
    """Four worlds of two: 2, 1, 1 and 0 solved. p = 1/2; away 1, 0, 0, -1, each over 1 - 2/8."""
    variance = 3 / 4 * 2 * (1 / 0.75) ** 2 / 64
    t = 3.182446305284263  # Student's quantile for three degrees of freedom
    assert effective_trials([(2, 2), (1, 2), (1, 2), (0, 2)]) == pytest.approx(
        min(max(0.25 / variance * (1.959963984540054 / t) ** 2, 4), 8)
    )


@pytest.mark.parametrize("worlds", [6, 12, 24])
@pytest.mark.parametrize("alike", [0.0, 0.3])
def test_it_covers_the_truth_as_often_as_it_says(worlds: int, alike: float) -> None:
    """Worlds of 12 episodes, whose rates are drawn with this intraclass correlation around .5."""
    draw, tries, covered = np.random.default_rng(worlds), 300, 0
    for _ in range(tries):
        rates = draw.beta(*[0.5 * (1 - alike) / alike] * 2, worlds) if alike else np.full(worlds, 0.5)
        low, high = in_worlds([[bool(hit) for hit in draw.random(12) < rate] for rate in rates]).interval
        covered += low <= 0.5 <= high
    # 95 % of 300 is 285; fewer than 272 has probability 0.0006.
    assert covered >= 272


def test_a_frame_is_counted_as_a_summary_is() -> None:
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"world": np.repeat(np.arange(8), 6), "replicate": 0, "suite": "s", "task_id": np.arange(48)})
    frame["success"] = pd.array((draw.random(48) < np.repeat(draw.random(8), 6)).tolist(), dtype="boolean")
    frame.loc[0, "success"] = None
    scored = frame[frame["success"].notna()]
    places = [Place(row.world, (row.world, 0), (row.world, "s", row.task_id)) for row in scored.itertuples()]
    found = rate_of(frame)
    assert found.trials == 47
    assert found.effective is not None
    assert tuple(rate_over(scored["success"].tolist(), places)) == pytest.approx(tuple(found))


def test_a_simulated_frame_without_places_has_independent_rows() -> None:
    assert rate_of(pd.DataFrame({"success": [True, False, True]})) == Rate(2, 3)
