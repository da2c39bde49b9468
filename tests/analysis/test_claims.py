"""The published claims against their own arithmetic. Every number of research that contradicts itself is here."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binomtest

from hermes_lab.analysis.audit import published
from hermes_lab.analysis.audit.claims import (
    Claim,
    Measured,
    audit,
    fit_hyperbola,
    formula_rmse,
    grim,
    moving_average,
    nearest_possible,
    summary,
)
from hermes_lab.analysis.audit.published import CURVES, TABLE_PERCENT
from hermes_lab.analysis.stats.intervals import Interval

BY_KEY = {claim.key: claim for claim in audit()}


@pytest.mark.parametrize(
    ("n", "computed", "printed", "verdict"),
    [
        (1, 48.4, 45.0, "contradicts"),
        (5, 59.5, 63.2, "contradicts"),
        (10, 69.2, 72.4, "contradicts"),
        (20, 80.1, 80.1, "agrees"),
        (50, 88.2, 86.3, "contradicts"),
        (100, 89.0, 88.7, "contradicts"),
    ],
)
def test_printed_column_is_not_its_formula(n: int, computed: float, printed: float, verdict: str) -> None:
    claim = BY_KEY[f"code_debugging/success/{n}"]
    assert claim.computed is not None
    assert claim.claimed == pytest.approx(printed / 100)
    assert round(100 * claim.computed, 1) == computed
    assert claim.verdict == verdict


def test_printed_column_is_a_hyperbola() -> None:
    fit = fit_hyperbola(TABLE_PERCENT)
    assert [fit.start, round(fit.span, 1), round(fit.half, 2), round(fit.rmse, 2)] == [45.0, 46.5, 6.23, 0.05]
    n, percent = np.array([*TABLE_PERCENT]), np.array([*TABLE_PERCENT.values()])
    assert np.sqrt(np.mean((45 + 46.5 * (n - 1) / (n - 1 + 6.23) - percent) ** 2)) == pytest.approx(0.05, abs=0.005)
    assert formula_rmse("code_debugging", TABLE_PERCENT) == pytest.approx(2.54, abs=0.005)
    why = BY_KEY["code_debugging/form"].why
    assert "45 + 46.5 (n - 1) / (n - 1 + 6.23), a hyperbola, within 0.05 points (RMSE; at most 0.08)" in why


def test_no_hyperbola_misses_the_printed_column_by_rounding_alone() -> None:
    """0.05 points would be rounding; the least of the largest misses, over all hyperbolas of this form, is 0.07."""
    from scipy.optimize import minimize

    n, percent = np.array([*TABLE_PERCENT]), np.array([*TABLE_PERCENT.values()])

    def worst(p: np.ndarray) -> float:
        return float(np.abs(p[0] + p[1] * (n - 1) / (n - 1 + p[2]) - percent).max())

    fit = fit_hyperbola(TABLE_PERCENT)
    assert fit.worst == pytest.approx(worst(np.array([fit.start, fit.span, fit.half])))
    assert round(fit.worst, 3) == 0.081
    least = minimize(worst, [fit.start, fit.span, fit.half], method="Nelder-Mead", options={"maxiter": 4000})
    assert 0.07 < least.fun < 0.081


@pytest.mark.parametrize(
    ("domain", "computed", "printed"),
    [
        ("report_generation", 19.5, 12),
        ("code_debugging", 19.8, 18),
        ("data_analysis", 28.9, 22),
        ("web_research", 35.0, 28),
        ("system_admin", 40.5, 31),
    ],
)
def test_iterations_to_80_percent_are_more_than_printed(domain: str, computed: float, printed: int) -> None:
    claim = BY_KEY[f"{domain}/tasks-to-80"]
    assert claim.computed is not None
    assert (claim.claimed, round(claim.computed, 1), claim.verdict) == (printed, computed, "contradicts")
    assert CURVES[domain].success(claim.computed) == pytest.approx(0.8)


def test_case_study_is_over_the_asymptote_of_its_own_model() -> None:
    claim = BY_KEY["case/highest"]
    assert (claim.claimed, claim.computed, claim.verdict) == (0.87, 0.86, "contradicts")
    assert not any(grim(87, size) for size in published.CASE_RANGES)


def test_case_study_fails_the_grim_test() -> None:
    claim = BY_KEY["case/first-range"]
    assert (claim.claimed, claim.computed, claim.verdict) == (0.52, 0.5, "impossible")
    assert not grim(52, 10)
    assert grim(52, 25)
    assert not grim(52, 20)
    assert grim(52, 50)


def test_case_study_saves_less_time_than_its_formula() -> None:
    claim = BY_KEY["data_analysis/time-saved/100"]
    assert claim.claimed == pytest.approx(0.614)
    assert claim.computed == pytest.approx(0.985, abs=5e-4)
    assert claim.verdict == "contradicts"
    assert published.CURVES["data_analysis"].time_saved(1e9) == 1.0


def test_moving_average_from_one_flatters_a_skill_that_fails() -> None:
    assert round(moving_average(0.3, 10), 2) == 0.54
    average = 1.0
    for _ in range(10):
        average += 0.1 * (0.3 - average)
    assert moving_average(0.3, 10) == pytest.approx(average)
    claim = BY_KEY["moving-average"]
    assert claim.claimed == pytest.approx(average)
    assert (claim.computed, claim.verdict) == (0.3, "contradicts")


def test_area_under_the_curve_of_code_debugging() -> None:
    claim = BY_KEY["code_debugging/area/100"]
    assert claim.computed == pytest.approx(83.50, abs=0.005)
    assert claim.computed == pytest.approx(quad(CURVES["code_debugging"].success, 0, 100)[0])


def test_rates_mean_so_many_hidden_rules() -> None:
    rules = {domain: round(curve.rules, 1) for domain, curve in CURVES.items()}
    assert rules == {
        "code_debugging": 13.0,
        "data_analysis": 17.2,
        "system_admin": 14.8,
        "web_research": 20.5,
        "report_generation": 25.5,
    }
    for curve in CURVES.values():
        assert -math.log(1 - 1 / curve.rules) == pytest.approx(curve.rate)


def test_threshold_over_the_asymptote_is_never_reached() -> None:
    assert CURVES["system_admin"].tasks_to(0.9) == math.inf
    assert CURVES["system_admin"].tasks_to(0.1) == 0.0


def test_claims_without_arithmetic_are_open_and_not_measured() -> None:
    claim = BY_KEY["web_research/asymptote"]
    assert (claim.claimed, claim.computed, claim.verdict) == (0.84, None, "open")
    assert claim.cells()[1:] == ("84.0 %", "-", "not measured", "open")
    assert BY_KEY["skills/100"].claimed == 30


def test_fifteen_of_sixteen_checks_fail() -> None:
    assert summary(BY_KEY.values()) == "15 of 16 checkable claims contradict themselves; 21 are open."


def test_keys_are_unique() -> None:
    assert len(BY_KEY) == len(audit())


def test_measurement_fills_its_row_alone() -> None:
    measured = {"code_debugging/tasks-to-80": Measured(12.34, Interval(7.0, math.inf))}
    rows = {claim.key: claim for claim in audit(measured)}
    assert rows["code_debugging/tasks-to-80"].cells()[3] == "12.3 (7 to never)"
    assert [key for key in rows if rows[key] != BY_KEY[key]] == ["code_debugging/tasks-to-80"]


def test_report_is_json_with_null_for_infinity() -> None:
    claim = Claim("k", "w", 1.0, math.inf, "tasks", "contradicts", measured=Measured(2.0, Interval(1.0, math.inf)))
    report = claim.to_dict()
    assert report["computed"] is None
    assert report["measured"] == {"value": 2.0, "low": 1.0, "high": None, "note": ""}


@pytest.mark.parametrize("trials", [1, 3, 7, 10, 50])
def test_grim_passes_every_percentage_that_some_count_gives(trials: int) -> None:
    possible = {round(100 * count / trials, 1) for count in range(trials + 1)}
    for tenth in range(1001):
        near = min(abs(tenth / 10 - 100 * count / trials) for count in range(trials + 1))
        assert grim(tenth / 10, trials, decimals=1) == (near <= 0.05 + 1e-9)
    assert all(grim(percent, trials, decimals=1) for percent in possible)
    assert nearest_possible(52, trials) in {100 * count / trials for count in range(trials + 1)}


def test_reflexion_differs_in_24_environments_at_the_last_common_trial() -> None:
    trial = published.REFLEXION_PAIRED_TRIAL
    ours, theirs = (published.REFLEXION_CUMULATIVE[name] for name in ("reflexion", "base"))
    gained, lost = published.REFLEXION_ONLY["reflexion"], published.REFLEXION_ONLY["base"]
    assert (gained, lost, len(theirs)) == (23, 1, trial + 1)
    assert gained - lost == ours[trial] - theirs[trial]
    assert binomtest(1, 24).pvalue == pytest.approx(2.98e-6, rel=0.01)
    assert ours[-1] == published.REFLEXION_TASKS
