import numpy as np
import pytest
from fakes.paired_frames import experiment
from scipy.stats import trim_mean

from hermes_lab.analysis.stats.aggregate import aggregate_arm, interquartile_mean, stratified_draws


@pytest.mark.parametrize("lanes", [1, 3, 4, 5, 20, 23])
def test_interquartile_mean_is_scipys_trimmed_mean(lanes: int) -> None:
    scores = np.random.default_rng(lanes).random((3, lanes))
    assert interquartile_mean(scores) == pytest.approx(trim_mean(scores, 0.25, axis=-1))


def test_odd_lanes_do_not_carry_it_away() -> None:
    assert interquartile_mean(np.array([0.5] * 9 + [0.0, 1.0, 1.0])) == pytest.approx(0.5)


def test_draws_stay_within_their_stratum() -> None:
    draws = stratified_draws([np.array([0.0, 0.1]), np.array([5.0, 5.1, 5.2])], draws=50)
    assert draws.shape == (50, 5)
    assert (draws[:, :2] < 1).all()
    assert (draws[:, 2:] >= 5).all()


def test_interval_covers_the_truth() -> None:
    """The rate of 0.5 on tasks that are symmetric about it."""
    found = [aggregate_arm("on", experiment({"on": 0.5}, lanes=20, tasks=15, luck=0.5, seed=s)) for s in range(120)]
    covered = [a.interval.low <= 0.5 <= a.interval.high for a in found if a and a.interval]
    assert len(covered) == 120
    assert 0.88 <= np.mean(covered) <= 0.99


def test_few_lanes_have_no_interval() -> None:
    found = aggregate_arm("on", experiment({"on": 0.5}, lanes=4, tasks=15, seed=0))
    assert found is not None
    assert found.interval is None
    assert str(found).startswith("on ")


def test_arm_that_nothing_judged_has_none() -> None:
    frame = experiment({"on": 0.5}, lanes=4, tasks=5, seed=0)
    assert aggregate_arm("on", frame.assign(success=None)) is None


def test_scores_are_of_worlds_where_there_are_enough() -> None:
    """Three copies of each lane say no more than one."""
    frame = experiment({"on": 0.5}, lanes=30, tasks=8, worlds=10, common=1.0, seed=1)
    copies, once = aggregate_arm("on", frame), aggregate_arm("on", frame[frame["replicate"] % 3 == 0])
    assert copies is not None
    assert once is not None
    assert (copies.over, copies.lanes, once.lanes) == ("worlds", 30, 10)
    assert (copies.value, copies.interval) == (once.value, once.interval)


def test_lanes_that_share_their_tasks_have_no_interval() -> None:
    found = aggregate_arm("on", experiment({"on": 0.5}, lanes=20, tasks=8, common=0.5, seed=1))
    assert found is not None
    assert (found.over, found.interval) == ("lanes", None)
