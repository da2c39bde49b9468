import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad

from hermes_lab.analysis.survival.lognormal import Times, loss, median
from hermes_lab.analysis.survival.times import TimeFit, fit_time_curve, fit_times
from hermes_lab.errors import ConfigError

TRUTH = np.array([30.0, 6.0, 0.08, 0.5])
SimulateRun = Callable[..., pd.DataFrame]


def simulate(
    runs: int, *, truth: np.ndarray = TRUTH, tasks: int = 60, budget: float = 40.0, seed: int = 0, draws: int = 0
) -> TimeFit:
    n = np.tile(np.arange(float(tasks)), runs)
    noise = np.random.default_rng(seed).standard_normal(n.size)
    seconds = median(truth, n) * np.exp(truth[3] * noise)
    cluster = np.repeat(np.arange(runs), tasks)
    return fit_time_curve(n, np.minimum(seconds, budget), seconds > budget, cluster, draws=draws)


@pytest.fixture(scope="module")
def known() -> TimeFit:
    return simulate(20, draws=60)


def test_known_curve_is_found_behind_the_budget(known: TimeFit) -> None:
    fit = known
    assert fit.identified, fit.reason
    assert fit.censored > 20
    for estimate, truth in zip(fit.estimates, TRUTH, strict=True):
        assert estimate.interval is not None
        assert estimate.interval.low < truth < estimate.interval.high
        assert estimate.value == pytest.approx(truth, rel=0.15)
    assert fit.sentence().startswith("initial ")


def test_dropping_what_the_budget_cut_off_would_flatter() -> None:
    n = np.tile(np.arange(60.0), 20)
    seconds = median(TRUTH, n) * np.exp(0.5 * np.random.default_rng(0).standard_normal(n.size))
    cut, cluster = seconds > 25, np.repeat(np.arange(20), 60)
    honest = fit_time_curve(n, np.minimum(seconds, 25), cut, cluster, draws=0)
    dropped = fit_time_curve(n[~cut], seconds[~cut], cut[~cut], cluster[~cut], draws=0)
    assert honest.parameters_P[0] == pytest.approx(30, rel=0.12)
    assert dropped.parameters_P[0] < 22


def test_gradient_is_the_slope_of_the_likelihood() -> None:
    draw = np.random.default_rng(0)
    times = Times(
        np.arange(40.0), draw.lognormal(2, 1, 40), draw.random(40) < 0.3, draw.integers(0, 3, 40).astype(float)
    )
    for theta in np.log([[20, 3, 0.1, 0.7], [3, 20, 0.01, 0.3], [50, 0.1, 1.0, 2.0]]):
        gradient = loss(theta, times)[1]
        assert (
            check_grad(lambda p: loss(p, times)[0], lambda p: loss(p, times)[1], theta) < 1e-5 * np.abs(gradient).max()
        )


def test_without_a_budget_it_is_least_squares_of_logarithms() -> None:
    from scipy.optimize import curve_fit

    n = np.tile(np.arange(60.0), 10)
    seconds = median(TRUTH, n) * np.exp(0.5 * np.random.default_rng(1).standard_normal(n.size))
    fit = fit_time_curve(n, seconds, np.zeros(n.size, bool), np.repeat(np.arange(10), 60), draws=0)
    theirs, _ = curve_fit(
        lambda n, *p: np.log(median(np.array(p), n)), n, np.log(seconds), p0=(20, 5, 0.1), xtol=1e-12, ftol=1e-12
    )
    assert fit.parameters_P[:3] == pytest.approx(theirs, rel=2e-3)


def test_constant_times_have_no_curve() -> None:
    fit = simulate(20, truth=np.array([10.0, 10.0, 0.1, 0.5]))
    assert "constant model is as good" in fit.reason


def test_rising_times_are_no_saving() -> None:
    assert "time does not decrease" in simulate(20, truth=np.array([6.0, 25.0, 0.08, 0.4]), budget=200.0).reason


def test_line_has_no_floor() -> None:
    fit = simulate(20, truth=np.array([30.0, 1.0, 0.01, 0.3]), budget=200.0)
    assert "floor lies beyond the data" in fit.reason


def test_step_has_no_rate() -> None:
    fit = simulate(20, truth=np.array([30.0, 5.0, 50.0, 0.3]), budget=200.0)
    assert "decreases in a single step" in fit.reason


def test_mostly_cut_off_times_are_given_as_the_reason() -> None:
    assert "of the times are uncensored" in simulate(20, budget=5.0).reason


def test_few_runs_have_no_interval() -> None:
    fit = simulate(4, draws=60)
    assert fit.reason == "fewer than 5 lanes (4)"
    assert all(estimate.interval is None for estimate in fit.estimates)
    assert fit.sentence() == "not identified: fewer than 5 lanes (4)"


def test_saving_ends_at_the_floor(known: TimeFit) -> None:
    fit = known
    early, late = fit.saved(10), fit.saved(1e6)
    initial, floor = fit.parameters_P[:2]
    assert early.share < late.share == pytest.approx(1 - floor / initial)
    assert late.interval.low < 0.8 < late.interval.high
    assert early.interval.low < 1 - median(TRUTH, np.array([10.0]))[0] / 30 < early.interval.high


def test_bootstrap_resamples_runs_and_not_episodes() -> None:
    n, run = np.tile(np.arange(40.0), 20), np.repeat(np.arange(20), 40)
    pace = np.where(run % 2, 2.0, 0.5)
    seconds = pace * median(TRUTH, n) * np.exp(0.1 * np.random.default_rng(0).standard_normal(n.size))
    whole = np.zeros(n.size, bool)
    wide, narrow = (fit_time_curve(n, seconds, whole, c, draws=30).estimates[0] for c in (run, np.arange(n.size)))
    assert wide.interval is not None
    assert narrow.interval is not None
    assert wide.interval.width > 2 * narrow.interval.width


def test_band_holds_the_curve(known: TimeFit) -> None:
    fit, n_N = known, np.linspace(0, 59, 12)
    low_N, high_N = fit.band(n_N)
    assert np.all((low_N < fit.predict(n_N)) & (fit.predict(n_N) < high_N))
    assert fit.to_dict()["censored"] == fit.censored


def test_episodes_that_were_not_accepted_are_cut_off_and_unjudged_ones_left_out(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": (0.2, 0.9, 0.1)}, replicates=6, tasks=30)
    frame.loc[frame.index[:10], "accepted"] = pd.NA
    fit = fit_times(frame, draws=5)
    assert fit.episodes == 170
    assert fit.censored == int((~frame["accepted"].iloc[10:].astype(bool)).sum()) > 0
    assert fit.runs == 6


@pytest.mark.parametrize(
    ("seconds", "censored", "said"), [([1.0, 0.0], [False, False], "not positive"), ([1, 1], [True, True], "no task")]
)
def test_times_that_cannot_be_fitted_are_refused(seconds: list[float], censored: list[bool], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fit_time_curve([0, 1], seconds, censored, [0, 0])


def test_few_values_of_experience_are_given_as_the_reason() -> None:
    fit = simulate(30, tasks=3)
    assert fit.reason == "fewer than 4 values of experience (3)"
    assert math.isfinite(fit.log_likelihood)


def test_slow_lanes_that_end_early_are_no_saved_time() -> None:
    """Lanes of 2 and 8 seconds that never get faster; the slow half ends after 10 tasks."""
    draw = np.random.default_rng(0)
    rows = [
        {"lane": f"on-r0-w{lane}", "world": lane, "experience": n, "seconds": (2 if lane % 2 else 8) * noise}
        for lane in range(40)
        for n, noise in enumerate(np.exp(0.4 * draw.standard_normal(40 if lane % 2 else 10)))
    ]
    same = {"run": "a", "suite": "s", "weights": 0, "domain": "code", "accepted": True}
    frame = pd.DataFrame(rows).assign(**same).astype({"accepted": "boolean"})
    fit = fit_times(frame, draws=40)
    assert not fit.identified
    assert fit.over == "40 lanes at 0 to 9 tasks seen, which all have (some have 39)"
    assert fit_times(frame, domain="code", draws=5).episodes == fit.episodes == 400
