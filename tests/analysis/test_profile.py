from collections.abc import Callable

import numpy as np
import pytest

from hermes_lab.analysis.curves import CURVES
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.fit import fit_curve
from hermes_lab.analysis.fitting.profile import contour, profile_interval
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.fitting.wald import covariance, student, wald_interval
from hermes_lab.errors import ConfigError

TRUTH = np.array([0.3, 0.8, 0.12])
NAMES = ("initial", "asymptote", "rate")


def fit_lanes(lanes: int = 20, seed: int = 0, spread: float = 0.0, name: str = "exponential") -> Fit:
    """Lanes of 50 tasks; with a `spread` their asymptotes and beginnings differ, around the same mean curve."""
    draw = np.random.default_rng(seed)
    n = np.arange(50.0)
    shift = draw.uniform(-spread, spread, size=(lanes, 1))
    success = draw.random((lanes, n.size)) < np.clip(Exponential().value(TRUTH, n) + shift, 0, 1)
    return fit_curve(np.tile(n, lanes), success.ravel(), np.repeat(np.arange(lanes), n.size), CURVES[name], draws=0)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_lanes()


@pytest.mark.parametrize("name", NAMES)
def test_profile_ends_where_the_likelihood_has_dropped_by_what_is_allowed(fit: Fit, name: str) -> None:
    """Each end, held there, with the others found by a general optimiser."""
    from scipy.optimize import minimize

    place = NAMES.index(name)
    others = [p for p in range(3) if p != place]
    pooled = fit.counts.pooled()

    def loss(free: np.ndarray, held: float) -> float:
        parameters = np.insert(free, place, held)
        p = np.clip(fit.curve.value(parameters, pooled.n_N), 1e-9, 1 - 1e-9)
        return -float((pooled.successes * np.log(p) + (pooled.trials - pooled.successes) * np.log(1 - p)).sum())

    for end in profile_interval(fit, name, independent=True):
        found = minimize(loss, fit.parameters_P[others], args=(end,), method="Nelder-Mead", options={"fatol": 1e-10})
        assert 2 * (fit.log_likelihood + found.fun) == pytest.approx(3.841459, abs=0.03)


@pytest.mark.parametrize("interval", [profile_interval, wald_interval])
def test_interval_holds_the_estimate(fit: Fit, interval: Callable[[Fit, str], tuple[float, float]]) -> None:
    for name, value in zip(NAMES, fit.parameters_P, strict=True):
        low, high = interval(fit, name)
        assert low < value < high


def test_lanes_that_disagree_widen_the_interval() -> None:
    apart = fit_lanes(spread=0.2)
    for interval in (profile_interval, wald_interval):
        assert interval(apart, "asymptote").width > 1.8 * profile_interval(apart, "asymptote", independent=True).width
    assert covariance(apart, "asymptote").dispersion > 3


def test_lanes_that_agree_have_a_dispersion_of_about_one() -> None:
    found = [covariance(fit_lanes(seed=seed), *NAMES).dispersion for seed in range(10)]
    assert np.mean(found) == pytest.approx(1, abs=0.2)


def test_model_covariance_is_the_inverse_curvature(fit: Fit) -> None:
    """Of the profile likelihood near its top: drop = distance squared over variance."""
    low, high = profile_interval(fit_lanes(400), "rate", independent=True)
    error = np.sqrt(covariance(fit_lanes(400), "rate").model[0, 0])
    assert np.log(high / low) == pytest.approx(2 * 1.96 * error, rel=0.02)


def test_robust_covariance_repeats_with_every_lane_twice() -> None:
    """Twice the lanes, half the variance; but each lane counted twice as *one* lane changes nothing."""
    once = fit_lanes()
    twice = fit_curve(
        *(np.tile(part, 2) for part in _episodes(once)[:2]), np.tile(_episodes(once)[2], 2).tolist(), draws=0
    )
    assert covariance(twice, *NAMES).robust == pytest.approx(covariance(once, *NAMES).robust, rel=1e-4)
    assert covariance(twice, *NAMES).model == pytest.approx(covariance(once, *NAMES).model / 2, rel=1e-4)


def _episodes(fit: Fit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    counts = fit.counts
    run, column = np.nonzero(counts.trials)
    return counts.n_N[column], counts.successes[run, column] > 0, run


def test_an_end_out_of_sight_is_the_bound() -> None:
    n = np.tile(np.arange(20.0), 8)
    success = np.random.default_rng(0).random(n.size) < 0.2 + 0.02 * n
    fit = fit_curve(n, success, np.repeat(np.arange(8), 20), draws=0)
    assert profile_interval(fit, "asymptote").high == pytest.approx(0.999)


def test_contour_is_lowest_at_the_fit_and_one_at_the_edge_of_its_region(fit: Fit) -> None:
    found = contour(fit, "asymptote", "rate", points=21)
    assert found.drop_Y_X.shape == (21, 21)
    row, column = np.unravel_index(found.drop_Y_X.argmin(), found.drop_Y_X.shape)
    assert (found.x_X[column], found.y_Y[row]) == pytest.approx(fit.parameters_P[1:], rel=0.02)
    assert found.drop_Y_X.min() == pytest.approx(0, abs=0.03)
    assert found.drop_Y_X[0].min() > 1
    assert found.drop_Y_X[:, 0].min() > 1
    # The region of two is wider than the interval of one, and close to it.
    inside = found.x_X[(found.drop_Y_X <= 1).any(axis=0)]
    alone = profile_interval(fit, "asymptote")
    assert inside[0] < alone.low + 0.01
    assert inside[-1] > alone.high - 0.01


def test_few_runs_are_refused_unless_episodes_are_taken_as_independent() -> None:
    few = fit_lanes(4)
    with pytest.raises(ConfigError, match="4 lanes are too few"):
        profile_interval(few, "rate")
    with pytest.raises(ConfigError, match="4 lanes are too few"):
        contour(few, "asymptote", "rate")
    assert profile_interval(few, "rate", independent=True).width > 0


def test_what_has_no_profile_is_refused_by_name(fit: Fit) -> None:
    with pytest.raises(ConfigError, match="no parameter 'speed'; it has initial, asymptote, rate"):
        profile_interval(fit, "speed")
    with pytest.raises(ConfigError, match="use the bootstrap"):
        profile_interval(fit_lanes(name="changepoint"), "change")


def test_student_needs_more_for_fewer_runs() -> None:
    assert student(5) == pytest.approx(2.776, abs=1e-3)
    assert student(100_000) == pytest.approx(1.96, abs=1e-3)
