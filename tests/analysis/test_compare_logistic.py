from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from fakes.paired_frames import experiment

from hermes_lab.analysis.comparison.slope import learning_slope
from hermes_lab.analysis.stats.logistic import Working, fit_logistic

STRUCTURES = {"independence": sm.cov_struct.Independence, "exchangeable": sm.cov_struct.Exchangeable}


def design(seed: int = 3) -> tuple[Any, Any, Any]:
    """Outcomes of lanes of different sizes, `1 + arm + n + arm * n`, and the lanes."""
    frame = experiment({"off": 0.4, "on": 0.5}, lanes=12, tasks=15, luck=0.8, slope=0.05, seed=seed)
    frame = frame.sample(frac=0.9, random_state=1)
    arm, n = (frame["arm"] == "on").to_numpy(float), frame["experience"].to_numpy(float) / 10
    x = np.column_stack([np.ones_like(n), arm, n, arm * n])
    return frame["success"].to_numpy(float), x, frame["replicate"].to_numpy()


@pytest.mark.parametrize("working", ["independence", "exchangeable"])
def test_gee_is_that_of_statsmodels(working: Working) -> None:
    y, x, lane = design()
    mine = fit_logistic(y, x, lane, working)
    assert mine is not None
    for kind, covariance in (("robust", mine.robust_K_K), ("bias_reduced", mine.corrected_K_K)):
        model = sm.GEE(y, x, groups=lane, family=sm.families.Binomial(), cov_struct=STRUCTURES[working]())
        reference = model.fit(cov_type=kind, ctol=1e-12, maxiter=500)
        assert mine.coefficients_K == pytest.approx(reference.params, abs=1e-6)
        assert covariance == pytest.approx(reference.cov_params(), abs=1e-6)
        if working == "exchangeable":
            assert mine.correlation == pytest.approx(model.cov_struct.dep_params, abs=1e-6)


def test_independent_working_correlation_is_the_glm_with_clustered_errors() -> None:
    y, x, lane = design()
    kinds = {"groups": lane, "use_correction": False}
    reference = sm.GLM(y, x, family=sm.families.Binomial()).fit(cov_type="cluster", cov_kwds=kinds)
    mine = fit_logistic(y, x, lane)
    assert mine is not None
    assert mine.coefficients_K == pytest.approx(reference.params, abs=1e-6)
    assert np.sqrt(np.diag(mine.robust_K_K)) == pytest.approx(reference.bse, abs=1e-6)


def test_lanes_in_which_all_goes_alike_make_errors_larger() -> None:
    draw = np.random.default_rng(0)
    lane = np.repeat(np.arange(20), 10)
    y = np.repeat((draw.random(20) < 0.5).astype(float), 10)
    mine = fit_logistic(y, np.ones((200, 1)), lane)
    alone = fit_logistic(y, np.ones((200, 1)), np.arange(200))
    assert mine is not None
    assert alone is not None
    assert mine.robust_K_K[0, 0] == pytest.approx(10 * alone.robust_K_K[0, 0])


def test_no_finite_fit_is_none() -> None:
    x = np.column_stack([np.ones(40), np.repeat([0.0, 1.0], 20)])
    lane = np.tile(np.arange(10), 4)
    assert fit_logistic(np.repeat([0.0, 1.0], 20), x, lane) is None
    assert fit_logistic(np.ones(40), x, lane) is None
    assert fit_logistic(np.tile([0.0, 1.0], 20), np.column_stack([x, x[:, 1]]), lane) is None


@pytest.mark.parametrize("working", ["independence", "exchangeable"])
def test_arms_that_their_tasks_separate_are_none(working: Working) -> None:
    """The skills always help from the second task on, and nothing else does: on the way, fitted rates round to 1."""
    arm, n = np.repeat([0.0, 1.0], 48), np.tile(np.arange(4.0), 24)
    x = np.column_stack([np.ones(96), arm, n, arm * n])
    lane = np.tile(np.repeat(np.arange(12), 4), 2)
    assert fit_logistic(((arm == 1) & (n >= 1)).astype(float), x, lane, working) is None


def test_rates_that_round_to_one_still_fit() -> None:
    """Lanes go on for long after the last failure."""
    n = np.tile(np.arange(60.0), 8)
    lane = np.repeat(np.arange(8), 60)
    y = (n > 4 + lane % 3).astype(float)
    x = np.column_stack([np.ones(480), n])
    mine = fit_logistic(y, x, lane)
    assert mine is not None
    reference = sm.GLM(y, x, family=sm.families.Binomial()).fit()
    assert mine.coefficients_K == pytest.approx(reference.params, rel=1e-6)
    assert mine.coefficients_K @ [1, 59] > 100


def test_fewer_clusters_than_coefficients_are_none() -> None:
    y, x, lane = design()
    assert fit_logistic(y, x, lane % 4) is None


def test_arm_that_learns_faster_is_shown_to() -> None:
    slow = experiment({"off": 0.3}, lanes=20, tasks=20, seed=0)
    fast = experiment({"on": 0.3}, lanes=20, tasks=20, slope=0.12, seed=1)
    slope = learning_slope(slow, fast)
    assert slope is not None
    assert slope.shown
    assert slope.interval.low < slope.ratio < slope.interval.high
    assert 1.5 < slope.ratio < 5  # e^1.2 = 3.3 for one task, less for their average (Zeger et al. 1988)
    assert "odds ratio per 10 tasks, on vs off: " in slope.sentence("off", "on")


def test_arms_that_learn_alike_are_not_shown_to_differ() -> None:
    frame = experiment({"off": 0.3, "on": 0.3}, lanes=20, tasks=20, slope=0.1, seed=0)
    slope = learning_slope(frame[frame["arm"] == "off"], frame[frame["arm"] == "on"])
    assert slope is not None
    assert not slope.shown
    assert slope.sentence("off", "on").startswith("no difference in learning speed shown: odds ratio per 10 tasks")


@pytest.mark.parametrize(("lanes", "tasks"), [(9, 10), (12, 3)])
def test_few_lanes_or_values_of_n_have_no_slope(lanes: int, tasks: int) -> None:
    frame = experiment({"off": 0.3, "on": 0.3}, lanes=lanes, tasks=tasks, seed=0)
    assert learning_slope(frame[frame["arm"] == "off"], frame[frame["arm"] == "on"]) is None


@pytest.mark.parametrize("seed", range(12))
def test_arm_that_is_a_copy_has_no_slope_to_test(seed: int) -> None:
    """Coefficient and error are both the rounding of zero; their ratio is anything."""
    frame = experiment({"off": 0.5}, lanes=20, tasks=14, luck=0.7, slope=0.05, seed=seed)
    slope = learning_slope(frame, frame.assign(arm="placebo"))
    assert slope is not None
    assert (slope.interval, slope.p_value, slope.shown) == (None, None, False)
    assert slope.sentence("off", "placebo") == (
        "no difference in learning speed shown: not measured: placebo and off differ by the same amount in all 20 lanes"
    )


def test_ratio_is_of_what_ten_tasks_do_to_the_odds() -> None:
    """Each arm's ten tasks multiply its odds by a factor of its own; what is told is one factor over the other."""
    arms = [experiment({arm: 0.3}, lanes=20, tasks=20, slope=s, seed=1) for arm, s in (("off", 0.05), ("on", 0.12))]
    factors = []
    for frame in arms:
        n = frame["experience"].to_numpy(float) / 10
        alone = fit_logistic(
            frame["success"].to_numpy(float), np.column_stack([np.ones_like(n), n]), frame["replicate"].to_numpy()
        )
        assert alone is not None
        factors.append(np.exp(alone.coefficients_K[1]))
    slope = learning_slope(*arms)
    assert slope is not None
    assert slope.ratio == pytest.approx(factors[1] / factors[0], rel=1e-6)
    assert f"odds ratio per 10 tasks, on vs off: {slope.ratio:.2f}" in (slope.sentence("off", "on"))


def test_few_tasks_are_not_extrapolated_to_ten() -> None:
    arms = [experiment({arm: 0.3}, lanes=20, tasks=6, slope=s, seed=1) for arm, s in (("off", 0.0), ("on", 0.5))]
    slope = learning_slope(*arms)
    assert slope is not None
    assert f"odds ratio per task, on vs off: {slope.ratio:.2f}" in slope.sentence("off", "on")
    assert slope.ratio < 2.5
    assert slope.to_dict()["per_tasks"] == 1


def test_clusters_of_a_slope_are_worlds_where_there_are_enough() -> None:
    frame = experiment({"off": 0.3, "on": 0.3}, lanes=24, tasks=10, worlds=12, common=1.0, seed=0)
    arms = [frame[frame["arm"] == arm] for arm in ("off", "on")]
    once = [arm[arm["replicate"] % 2 == 0] for arm in arms]
    copies, single = learning_slope(*arms), learning_slope(*once)
    assert copies is not None
    assert single is not None
    assert copies.over == "12 worlds"
    assert copies.p_value == pytest.approx(single.p_value)


def test_slope_over_lanes_that_share_tasks_takes_the_larger_error() -> None:
    frame = experiment({"off": 0.3, "on": 0.3}, lanes=20, tasks=12, common=0.9, seed=0)
    arms = [frame[frame["arm"] == arm] for arm in ("off", "on")]
    slope = learning_slope(*arms)
    lanes_alone = learning_slope(*(arm.assign(task_id=arm["lane"].str[3:] + arm["task_id"]) for arm in arms))
    assert slope is not None
    assert lanes_alone is not None
    assert slope.over == "20 lanes and 12 shared tasks"
    assert slope.ratio == pytest.approx(lanes_alone.ratio)
    assert (slope.p_value or 0) > (lanes_alone.p_value or 0)
