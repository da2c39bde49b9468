import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.bootstrap import levels
from analysis.curves.exponential import Exponential
from analysis.fit import Fit, aicc, fit_curve, fit_series
from hermes_lab.errors import ConfigError

SimulateRun = Callable[..., pd.DataFrame]
TRUTH = (0.3, 0.9, 0.08)


def simulate(
    runs: int, truth: tuple[float, float, float] = TRUTH, *, tasks: int = 100, seed: int = 0, draws: int = 200
) -> Fit:
    n = np.tile(np.arange(float(tasks)), runs)
    p = Exponential().value(np.array(truth), n)
    success = np.random.default_rng(seed).random(n.size) < p
    return fit_curve(n, success, np.repeat(np.arange(runs), tasks), draws=draws)


def test_thirty_runs_identify_the_curve() -> None:
    fit = simulate(30, draws=400)
    assert fit.identified, fit.reason
    assert fit.parameters_P == pytest.approx(TRUTH, rel=0.25)
    for estimate, truth in zip(fit.estimates, TRUTH, strict=True):
        assert estimate.identified
        assert estimate.interval is not None
        assert estimate.interval.low < truth < estimate.interval.high
    assert fit.sentence().endswith("over 30 runs")


@pytest.mark.parametrize("seed", range(10))
def test_one_run_of_a_hundred_identifies_nothing(seed: int) -> None:
    fit = simulate(1, seed=seed)
    assert not fit.identified
    assert fit.sentence().startswith("not identified: ")
    assert all(estimate.interval is None and not estimate.identified for estimate in fit.estimates)


def test_few_runs_are_given_as_the_reason() -> None:
    assert simulate(4).reason == "fewer than 5 runs (4)"


@pytest.mark.parametrize("seed", range(5))
def test_flat_data_are_as_well_described_by_a_constant(seed: int) -> None:
    fit = simulate(20, (0.5, 0.5, 0.1), seed=seed)
    assert "constant model is as good" in fit.reason


def test_wide_interval_is_given_as_the_reason() -> None:
    fit = simulate(8, (0.45, 0.89, 0.08), seed=1)
    assert "interval spans" in fit.reason
    assert "over 8 runs" in fit.reason
    assert not all(estimate.identified for estimate in fit.estimates)


def test_falling_success_is_no_learning_curve() -> None:
    assert "does not rise" in simulate(20, (0.9, 0.3, 0.08)).reason


def test_line_has_no_asymptote() -> None:
    n = np.tile(np.arange(100.0), 30)
    success = np.random.default_rng(0).random(n.size) < 0.1 + 0.006 * n
    fit = fit_curve(n, success, np.repeat(np.arange(30), 100), draws=100)
    assert "asymptote lies beyond the data" in fit.reason


def test_step_has_no_rate() -> None:
    n = np.tile(np.arange(100.0), 20)
    success = np.random.default_rng(0).random(n.size) < np.where(n == 0, 0.1, 0.9)
    fit = fit_curve(n, success, np.repeat(np.arange(20), 100), draws=100)
    assert "upper bound" in fit.reason


def test_few_episodes_are_given_as_the_reason() -> None:
    assert simulate(6, tasks=8).reason == "fewer than 50 episodes (48)"
    assert simulate(40, tasks=3).reason == "fewer than 4 values of experience (3)"


def test_no_episode_is_refused() -> None:
    with pytest.raises(ConfigError, match="no scored episode"):
        fit_curve([], [], [])


def test_same_seed_gives_the_same_intervals() -> None:
    assert simulate(12).draws_B_P.tolist() == simulate(12).draws_B_P.tolist()


def test_bootstrap_resamples_runs_and_not_episodes() -> None:
    """Runs that differ wholly from one another: episodes would give a far narrower interval."""
    n = np.tile(np.arange(50.0), 20)
    run = np.repeat(np.arange(20), 50)
    asymptote = np.where(run % 2, 0.99, 0.4)
    success = np.random.default_rng(0).random(n.size) < asymptote - (asymptote - 0.2) * np.exp(-0.2 * n)
    by_run, by_episode = (fit_curve(n, success, cluster, draws=100) for cluster in (run, np.arange(n.size)))
    wide, narrow = by_run.estimates[1].interval, by_episode.estimates[1].interval
    assert wide is not None
    assert narrow is not None
    assert wide.width > 3 * narrow.width


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    fits = [simulate(20, seed=seed, draws=100) for seed in range(40)]
    intervals = [[estimate.interval for estimate in fit.estimates] for fit in fits]
    for p, truth in enumerate(TRUTH):
        covered = sum(row[p] is not None and row[p].low <= truth <= row[p].high for row in intervals)
        # 95 % of 40 is 38; fewer than 33 has probability 0.001.
        assert covered >= 33
    assert np.median([fit.parameters_P[2] for fit in fits]) == pytest.approx(TRUTH[2], rel=0.1)


def test_expanded_levels_widen_with_fewer_runs() -> None:
    assert levels(5)[0] == pytest.approx(0.00096, abs=1e-5)
    assert levels(10_000)[0] == pytest.approx(0.025, abs=1e-4)


def test_threshold_has_an_interval_that_may_be_infinite() -> None:
    fit = simulate(30)
    reached = fit.threshold(0.8)
    assert reached.interval.low < reached.n < reached.interval.high < math.inf
    assert reached.reached == 1.0
    near = fit.threshold(float(fit.parameters_P[1]))
    assert near.interval.high == math.inf
    assert 0 < near.reached < 1


def test_band_holds_the_curve() -> None:
    fit = simulate(30)
    n_N = np.linspace(0, 99, 20)
    low_N, high_N = fit.band(n_N)
    assert np.all((low_N < fit.predict(n_N)) & (fit.predict(n_N) < high_N))


def test_aicc_is_undefined_where_parameters_use_up_the_data() -> None:
    assert aicc(-10.0, 3, 4) == math.inf
    assert aicc(-10.0, 1, 102) == pytest.approx(22 + 4 / 100)


def test_arms_are_fitted_apart_with_lanes_as_runs(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"off": (0.4, 0.4, 0.1), "on": TRUTH}, replicates=6, tasks=30)
    fits = fit_series(frame, draws=20)
    assert set(fits) == {"skills off", "skills on"}
    assert [fits["skills on"].runs, fits["skills on"].episodes] == [6, 180]


def test_weights_are_fitted_apart_where_there_are_several(simulate_run: SimulateRun) -> None:
    base = simulate_run({"on": TRUTH}, replicates=1, tasks=5)
    tuned = base.assign(adapter="sft-v1-0123456789ab", adapter_digest="0123")
    fits = fit_series(pd.concat([base, tuned], ignore_index=True), draws=0)
    assert set(fits) == {f"{base['model'][0]} untuned, skills on", "sft-v1, skills on"}
