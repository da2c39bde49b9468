import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plot_frames import frame_of

from hermes_lab.analysis.curves import CURVES
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.fit import fit_curve, fit_series
from hermes_lab.analysis.fitting.result import Fit, Method, Threshold, aicc
from hermes_lab.analysis.stats.bootstrap import enough_draws, levels
from hermes_lab.analysis.stats.intervals import Interval, wilson
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
    assert fit.sentence().endswith("over 30 lanes")


@pytest.mark.parametrize("seed", range(10))
def test_one_run_of_a_hundred_identifies_nothing(seed: int) -> None:
    fit = simulate(1, seed=seed)
    assert not fit.identified
    assert fit.sentence().startswith("not identified: ")
    assert all(estimate.interval is None and not estimate.identified for estimate in fit.estimates)


def test_few_runs_are_given_as_the_reason() -> None:
    assert simulate(4).reason == "fewer than 5 lanes (4)"


@pytest.mark.parametrize("seed", range(5))
def test_flat_data_are_as_well_described_by_a_constant(seed: int) -> None:
    fit = simulate(20, (0.5, 0.5, 0.1), seed=seed)
    assert "constant model is as good" in fit.reason


def test_wide_interval_is_given_as_the_reason() -> None:
    fit = simulate(8, (0.45, 0.89, 0.08), seed=1)
    assert "interval spans" in fit.reason
    assert "over 8 lanes" in fit.reason
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


@pytest.mark.parametrize("method", ["bootstrap", "profile", "wald"])
@pytest.mark.parametrize("lanes", [6, 20])
def test_lanes_that_are_all_alike_still_leave_room(method: Method, lanes: int) -> None:
    """Resampling equal lanes always gives the same curve."""
    n, lane = np.tile(np.arange(12.0), lanes), np.repeat(np.arange(lanes), 12)
    with np.errstate(all="raise", under="ignore"):
        fit = fit_curve(n, n >= 5, lane, draws=50, interval=method)
    initial, asymptote, rate = (estimate.interval for estimate in fit.estimates)
    assert initial is not None
    assert asymptote is not None
    assert rate is not None
    assert initial.low == 0
    assert asymptote.high == 1
    # At least as wide as what independent episodes say of a rate that was never, or always, seen.
    assert initial.high > wilson(0, 5 * lanes).high / 2
    assert asymptote.low < 1 - wilson(0, 7 * lanes).high / 2
    assert rate.high > 1.2 * rate.low


def test_an_interval_at_a_bound_covers_the_truth() -> None:
    """0 of 20 lanes solve their first task in two of three experiments; then no refit has a higher initial rate."""
    truth, covered = (0.02, 0.98, 0.4), 0
    fits = [simulate(20, truth, tasks=12, seed=seed, draws=50) for seed in range(40)]
    for fit in fits:
        intervals = [estimate.interval for estimate in fit.estimates]
        covered += all(
            found is not None and found.low <= true <= found.high for found, true in zip(intervals, truth, strict=True)
        )
        assert all(found is not None and found.width > 0.001 for found in intervals)
    assert covered >= 33


def lanes_of(*lanes: tuple[float, int], run: str = "r", name: str = "", seed: int = 0) -> list[dict[str, Any]]:
    """Lanes with this success rate and number of tasks."""
    draw = np.random.default_rng(seed)
    return [
        {"run": run, "lane": f"on-r0-w{name}{lane}", "arm": "on", "world": lane, "weights": 0, "experience": n}
        | {"success": bool(draw.random() < rate)}
        for lane, (rate, tasks) in enumerate(lanes)
        for n in range(tasks)
    ]


@pytest.mark.parametrize("together", ["weak lanes end early", "a short run beside a long one"])
def test_lanes_that_end_early_are_no_learning(together: str) -> None:
    def flat(seed: int) -> pd.DataFrame:
        if together == "weak lanes end early":
            return frame_of(lanes_of(*[(0.9, 40), (0.4, 8)] * 10, seed=seed))
        long, short = lanes_of(*[(0.9, 40)] * 10, seed=seed), lanes_of(*[(0.5, 5)] * 10, run="s", seed=seed + 99)
        return frame_of(long + short)

    fits = [fit_series(flat(seed), draws=50, seed=seed)["skills on"] for seed in range(20)]
    assert sum(fit.identified for fit in fits) <= 1
    last, longest = (7, 39) if together == "weak lanes end early" else (4, 39)
    assert fits[0].over == f"20 lanes at 0 to {last} tasks seen, which all have (some have {longest})"
    assert fits[0].counts.n_N.max() == last
    flat_fit = next(fit for fit in fits if not fit.identified)
    only = f"; fitted to the episodes at 0 to {last} tasks seen, which all have (some have {longest})"
    assert flat_fit.sentence() == f"not identified: {flat_fit.reason}{only}"


def test_a_lane_that_failed_late_is_still_there() -> None:
    """Its episodes without a score are missing, and its others count."""
    rows = lanes_of(*[(0.5, 10)] * 6)
    rows[9] |= {"success": None, "status": "errored"}
    assert fit_series(frame_of(rows))["skills on"].over == "6 lanes"


def test_lanes_without_common_experience_are_refused() -> None:
    rows = lanes_of(*[(0.5, 10)] * 6)
    late = [row | {"run": "s", "experience": row["experience"] + 20} for row in rows]
    with pytest.raises(ConfigError, match="one lane begins at 20 tasks seen, another one ends at 9"):
        fit_series(frame_of(rows + late))


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


def test_threshold_says_when_and_in_how_many_draws() -> None:
    fit = simulate(30)
    when = fit.threshold(0.8)
    low, high = (f"{end:.0f}" for end in when.interval)
    assert when.sentence() == f"80 % after {when.n:.0f} tasks ({low}-{high}), reached in 100 % of bootstrap draws"
    never = fit.threshold(0.99)
    assert never.sentence() == "99 % is never reached (never-never), reached in 0 % of bootstrap draws"
    assert "is never reached" in Threshold(0.8, math.inf, Interval(45.0, math.inf), 0.2).sentence()
    soon = simulate(60, (0.2, 0.84, 0.06), tasks=40).threshold(0.8)
    assert soon.n > 40
    assert soon.sentence().startswith(f"80 % after {soon.n:.0f} tasks, beyond the 40 of the data (")
    assert "(45-never), reached in 20 %" in Threshold(0.8, math.inf, Interval(45.0, math.inf), 0.2).sentence()


def test_held_out_episodes_are_fitted_only_when_asked_for(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=2, tasks=30)
    frame.loc[frame["round"] >= 20, "phase"] = "heldout"
    assert fit_series(frame, draws=0)["skills on"].episodes == 40
    assert fit_series(frame, draws=0, phase="heldout")["skills on"].episodes == 20


def test_domains_are_fitted_apart_when_asked_for(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=2, tasks=30)
    frame.loc[frame["replicate"] == 1, "domain"] = "web"
    fits = fit_series(frame, draws=0, by="domain")
    assert {name: fit.episodes for name, fit in fits.items()} == {"skills on, code": 30, "skills on, web": 30}


@pytest.mark.parametrize("name", sorted(CURVES))
def test_every_form_is_fitted_with_intervals(name: str) -> None:
    truth = {"constant": (0.6,), "changepoint": (0.3, 0.8, 20.0), "logistic": (0.1, 0.9, 0.2, 25.0)}
    truth["hyperbolic"] = (0.1, 0.95, 5.0)
    curve, n = CURVES[name], np.tile(np.arange(60.0), 20)
    p = curve.value(np.array(truth.get(name, (0.1, 0.85, 0.5, 0.5)[: len(curve.parameters)])), n)
    success = np.random.default_rng(1).random(n.size) < p
    fit = fit_curve(n, success, np.repeat(np.arange(20), 60), curve, draws=60)
    assert fit.to_dict()["curve"] == name
    assert fit.draws_B_P.shape == (enough_draws(20), len(curve.parameters))
    for estimate in fit.estimates:
        assert estimate.interval is not None
        assert estimate.interval.low <= estimate.value <= estimate.interval.high
    if name not in ("apex", "power"):  # which few runs do not tell
        assert fit.identified, fit.reason


def test_few_runs_get_the_draws_that_their_intervals_need() -> None:
    fit = simulate(5, draws=200)
    assert 2000 < len(fit.draws_B_P) == enough_draws(5)
    assert levels(5)[0] * len(fit.draws_B_P) >= 2
    assert len(simulate(20, draws=200).draws_B_P) == 200
    assert not len(simulate(5, draws=0).draws_B_P)


def test_draws_of_a_changepoint_move_its_place() -> None:
    n = np.tile(np.arange(40.0), 10)
    success = np.random.default_rng(0).random(n.size) < np.where(n < 20, 0.45, 0.6)
    fit = fit_curve(n, success, np.repeat(np.arange(10), 40), CURVES["changepoint"], draws=60)
    assert np.unique(fit.draws_B_P[:, 2]).size > 3


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


def test_replicates_of_few_worlds_speak_of_these_worlds_only(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=20, tasks=40)
    fit = fit_series(frame, draws=50)["skills on"]
    assert (fit.runs, fit.over, fit.to_dict()["over"]) == (20, "20 lanes of 1 world", "20 lanes of 1 world")
    told = fit_series(frame.assign(world=frame["replicate"] % 5), draws=50)["skills on"]
    assert (told.runs, told.over) == (20, "20 lanes of 5 worlds")


def test_six_worlds_are_the_clusters_instead_of_their_lanes(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=24, tasks=40)
    six = fit_series(frame.assign(world=frame["replicate"] % 6), draws=50)["skills on"]
    assert (six.runs, six.over) == (6, "6 worlds")
    two_runs = pd.concat([frame, frame.assign(run="other")]).assign(world=frame["replicate"] % 3)
    assert fit_series(two_runs, draws=0)["skills on"].over == "48 lanes of 3 worlds"


def test_lanes_of_their_own_worlds_are_runs(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=20, tasks=40)
    fit = fit_series(frame.assign(world=frame["replicate"]), draws=50)["skills on"]
    assert (fit.runs, fit.over) == (20, "20 lanes")


def test_lane_that_goes_through_several_worlds_is_one_cluster(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=12, tasks=40)
    assert fit_series(frame.assign(world=frame["round"] // 5), draws=0)["skills on"].over == "12 lanes"


def test_unlike_worlds_widen_the_interval_over_their_replicates(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=32, tasks=40)
    frame["world"] = frame["replicate"] % 8
    draw = np.random.default_rng(0)
    level = draw.uniform(0.3, 0.9, 8)[frame["world"]]
    frame["success"] = pd.array(draw.random(len(frame)) < level * (1 - 0.7 * np.exp(-0.2 * frame["experience"])))
    curves = [fit_series(frame.assign(world=world), draws=200)["skills on"] for world in (frame["world"], 0)]
    assert [fit.runs for fit in curves] == [8, 32]
    by_world, by_lane = (fit.estimates[1].interval for fit in curves)
    assert by_world is not None
    assert by_lane is not None
    assert by_world.width > 1.3 * by_lane.width


def test_unknown_interval_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose one of bootstrap, profile, wald"):
        fit_curve([0, 1], [True, False], [0, 1], interval="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["profile", "wald"])
def test_other_intervals_of_a_few_runs_are_none(kind: Any) -> None:
    n = np.tile(np.arange(100.0), 4)
    fit = fit_curve(n, n % 3 > 0, np.repeat(np.arange(4), 100), interval=kind)
    assert all(estimate.interval is None for estimate in fit.estimates)


def test_weights_are_fitted_apart_where_there_are_several(simulate_run: SimulateRun) -> None:
    base = simulate_run({"on": TRUTH}, replicates=1, tasks=5)
    tuned = base.assign(adapter="sft-v1-0123456789ab", adapter_digest="0123456789abcdef")
    fits = fit_series(pd.concat([base, tuned], ignore_index=True), draws=0)
    assert set(fits) == {f"{base['model'][0]} untuned, skills on", "sft-v1, skills on"}


def test_the_same_outcomes_give_the_same_fit_however_lanes_happened_to_finish(simulate_run: SimulateRun) -> None:
    frame = simulate_run({"on": TRUTH}, replicates=8, tasks=40)
    finished = frame.iloc[frame["lane"].map(lambda lane: -int(lane[4])).argsort(kind="stable")].reset_index(drop=True)
    assert list(finished["lane"]) != list(frame["lane"])
    one, other = (fit_series(each, draws=50)["skills on"] for each in (frame, finished))
    assert [estimate.interval for estimate in one.estimates] == [estimate.interval for estimate in other.estimates]
