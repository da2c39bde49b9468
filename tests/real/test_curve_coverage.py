"""How often 95 % intervals hold the truth, over simulated experiments of 20 lanes of 100 tasks. Prints the tables of
docs/statistics.md:

    SIMULATIONS=1000 pytest tests/real/test_curve_coverage.py -s
"""

import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from hermes_lab.analysis.curves import CURVES
from hermes_lab.analysis.fitting.fit import fit_curve
from hermes_lab.analysis.fitting.forms import choose_form
from hermes_lab.analysis.fitting.likelihood import natural, unbounded
from hermes_lab.analysis.fitting.pooling import pool_curves
from hermes_lab.analysis.fitting.profile import profile_interval
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.fitting.wald import wald_interval
from hermes_lab.analysis.stats.intervals import Interval

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

LANES, TASKS, DRAWS = 20, 100, 400
SIMULATIONS = int(os.environ.get("SIMULATIONS", "60"))
TRUTH = {"initial": 0.45, "asymptote": 0.89, "rate": 0.08}
"""The published curve of code_debugging."""
N = np.arange(float(TASKS))
Lanes = Callable[[np.random.Generator], np.ndarray]


def independent(draw: np.random.Generator) -> np.ndarray:
    """Episodes of one success probability: lanes have nothing of their own."""
    return draw.random((LANES, TASKS)) < CURVES["exponential"].value(np.array(list(TRUTH.values())), N)


def unlike(draw: np.random.Generator) -> np.ndarray:
    """Each lane begins and ends elsewhere (a beta distribution of 10 pseudo-counts); the mean curve is the truth."""
    initial, asymptote = (draw.beta(10 * p, 10 * (1 - p), (LANES, 1)) for p in (TRUTH["initial"], TRUTH["asymptote"]))
    return draw.random((LANES, TASKS)) < asymptote - (asymptote - initial) * np.exp(-TRUTH["rate"] * N)


def hidden_rules(draw: np.random.Generator) -> np.ndarray:
    """What the suites do: 8 rules, each learnt for good when met with a chance that makes the rate the truth's."""
    known = np.zeros((LANES, 8), dtype=bool)
    success = np.empty((LANES, TASKS), dtype=bool)
    lane = np.arange(LANES)
    for task in range(TASKS):
        rule = draw.integers(8, size=LANES)
        p = np.where(known[lane, rule], TRUTH["asymptote"], TRUTH["initial"])
        success[:, task] = draw.random(LANES) < p
        known[lane, rule] |= draw.random(LANES) < -8 * np.expm1(-TRUTH["rate"])
    return success


def bootstrap_interval(fit: Fit, name: str) -> Interval:
    interval = next(estimate.interval for estimate in fit.estimates if estimate.name == name)
    assert interval is not None
    return interval


def plain_profile(fit: Fit, name: str) -> Interval:
    return profile_interval(fit, name, independent=True)


METHODS = {
    "bootstrap": (bootstrap_interval, SIMULATIONS),
    "Wald": (wald_interval, SIMULATIONS),
    "profile": (profile_interval, SIMULATIONS // 2),
    "profile, episodes independent": (plain_profile, SIMULATIONS // 10),
}
"""Each with the simulations that it is tried on: profiles are slow."""
COVERAGE = {"bootstrap": (0.95, 0.95), "profile": (0.95, 0.95), "Wald": (0.93, 0.965)}
"""Between which shares the truth may lie. What is counted may be three standard errors from it."""


def fit_of(success: np.ndarray, seed: int) -> Fit:
    lanes = np.repeat(np.arange(len(success)), TASKS)
    return fit_curve(np.tile(N, len(success)), success.ravel(), lanes, draws=DRAWS, seed=seed)


@pytest.mark.parametrize("lanes", [independent, unlike, hidden_rules])
def test_intervals_cover_as_often_as_they_say_and_estimates_are_not_biased(lanes: Lanes) -> None:
    held: Counter[tuple[str, str]] = Counter()
    estimates = []
    for seed in range(max(simulations for _, simulations in METHODS.values())):
        fit = fit_of(lanes(np.random.default_rng([seed, LANES])), seed)
        estimates.append(fit.parameters_P)
        for method, (interval, simulations) in METHODS.items():
            for name, truth in TRUTH.items() if seed < simulations else ():
                low, high = interval(fit, name)
                held[method, name] += low <= truth <= high
    bias = np.median(estimates, axis=0) - list(TRUTH.values())
    print(f"\n{lanes.__name__}: median bias {', '.join(f'{n} {b:+.4f}' for n, b in zip(TRUTH, bias, strict=True))}")
    shares = {
        method: [held[method, name] / simulations for name in TRUTH] for method, (_, simulations) in METHODS.items()
    }
    for method, share in shares.items():
        print(f"| {method} | {' | '.join(f'{100 * part:.1f} %' for part in share)} |")
    for method, (low, high) in COVERAGE.items():
        error = 3 * np.sqrt(0.95 * 0.05 / METHODS[method][1])
        assert all(low - error <= part <= high + error for part in shares[method]), (method, shares[method])
    # A median's standard error, of a normal distribution whose quartiles are these.
    low, high = np.quantile(estimates, (0.25, 0.75), axis=0)
    error_P = 3 * 1.25 * (high - low) / 1.35 / np.sqrt(len(estimates))
    assert abs(bias[1]) <= 0.004 + error_P[1]
    assert abs(bias[2]) <= 0.05 * TRUTH["rate"] + error_P[2]


FORMS = {
    "constant": (0.5,),
    "exponential": (0.1, 0.95, 0.07),
    "power": (0.1, 0.95, 0.7),
    "hyperbolic": (0.1, 0.95, 10.0),
    "logistic": (0.1, 0.95, 0.12, 25.0),
    "changepoint": (0.1, 0.95, 25.0),
    "apex": (0.1, 0.95, 0.02, 0.5),
}
AT_ONE, SEEDS = 13, 60
"""Of 60 single runs, a form of three parameters should be chosen at least so often where it is right. APEX, which holds
two of the others and pays for a parameter more, never is on a single run, and is left out of this bound."""


@pytest.mark.parametrize("name", FORMS)
def test_the_right_form_is_chosen_as_often_as_was_published_and_a_wrong_one_is_seldom_told(name: str) -> None:
    p = CURVES[name].value(np.array(FORMS[name]), N)
    cells = []
    for lanes in (1, 5, 20):
        right = told = wrong = 0
        runs = SEEDS if lanes == 1 else SIMULATIONS // 8
        for seed in range(runs):
            success = np.random.default_rng([seed, lanes, 7]).random((lanes, TASKS)) < p
            forms = choose_form(np.tile(N, lanes), success.ravel(), np.repeat(np.arange(lanes), TASKS))
            right += forms.best.name == name
            told += forms.identified
            wrong += forms.identified and forms.best.name != name
        cells.append(f"{right}/{runs} ({told})")
        assert wrong <= 0.1 * runs
        assert not (lanes == 1 and told)
        if lanes == 1 and name != "apex":
            assert right >= AT_ONE
    print(f"\n| {name} {FORMS[name]} | {' | '.join(cells)} |")


@pytest.mark.parametrize("lanes", [2, 5, 20])
def test_pooled_domains_are_nearer_the_truth_and_their_intervals_hold_it(lanes: int) -> None:
    """5 domains whose parameters spread by .3 on the search scale, 40 experiments."""
    curve, domains = CURVES["exponential"], 5
    middle = unbounded(curve, np.array([0.45, 0.87, 0.06]))
    held, pooled_errors, own_errors = [], [], []
    for seed in range(40):
        draw = np.random.default_rng([seed, domains, lanes])
        theta_D_P = middle + 0.3 * draw.normal(size=(domains, 3))
        truth_D_P = natural(curve, theta_D_P)
        success = draw.random((domains, lanes, TASKS)) < curve.value(truth_D_P, N)[:, None]
        domain, lane, _ = np.indices(success.shape)
        found = pool_curves(
            np.broadcast_to(N, success.shape).ravel(),
            success.ravel(),
            lane.ravel().tolist(),
            domain.ravel().astype(str).tolist(),
        )
        values = np.array([[estimate.value for estimate in group.estimates] for group in found.groups])
        ends = np.array([[estimate.interval or (0, 0) for estimate in group.estimates] for group in found.groups])
        held.append((ends[..., 0] <= truth_D_P) & (truth_D_P <= ends[..., 1]))
        pooled_errors.append(unbounded(curve, values) - theta_D_P)
        own_errors.append(unbounded(curve, np.array([group.alone_P for group in found.groups])) - theta_D_P)
    cover = np.mean(held, axis=(0, 1))
    own, pooled = (np.sqrt(np.mean(np.square(errors), axis=(0, 1))) for errors in (own_errors, pooled_errors))
    print(f"\n| {lanes} | {own[2]:.2f} | {pooled[2]:.2f} | {', '.join(f'{100 * c:.0f} %' for c in cover)} |")
    assert np.all(pooled < own)
    assert np.all(cover > 0.88)
