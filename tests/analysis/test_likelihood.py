"""The maximum of the likelihood, against implementations that are not ours."""

import math
from typing import Any

import lmfit
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from hermes_lab.analysis.curves import CURVES, Curve
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.fitting.likelihood import (
    EXACT,
    Counts,
    Prior,
    constant_log_likelihood,
    count_outcomes,
    derivatives,
    maximize,
    natural,
    unbounded,
)
from hermes_lab.analysis.fitting.result import aicc

CURVE = Exponential()
CODE_DEBUGGING = np.array([0.45, 0.89, 0.08])
PROBABILITY = st.floats(0.05, 0.95)
PARAMETERS = st.tuples(PROBABILITY, PROBABILITY, st.floats(0.01, 2.0)).map(np.array)
N = np.arange(0.0, 100.0, 5.0)
TRUTHS = {
    "exponential": (0.45, 0.89, 0.08),
    "power": (0.1, 0.9, 0.9),
    "hyperbolic": (0.2, 0.95, 8.0),
    "apex": (0.1, 0.9, 0.05, 0.3),
    "logistic": (0.15, 0.9, 0.12, 30.0),
    "constant": (0.6,),
}


def counts(seed: int = 0, truth: np.ndarray = CODE_DEBUGGING, curve: Curve = CURVE, most: int = 30) -> Counts:
    draw = np.random.default_rng(seed)
    trials = draw.integers(1, most, size=(1, N.size)).astype(float)
    return Counts(N, trials, draw.binomial(trials.astype(int), curve.value(truth, N)).astype(float))


def fitted(curve: Curve, data: Counts, **changes: Any) -> tuple[np.ndarray, float]:
    starts = curve.starts(N, (data.successes / data.trials)[0])
    found = maximize(curve, data, starts, tolerance=EXACT, **changes)
    return found.parameters_B_P[0], float(found.log_likelihood_B[0])


def negative_log_likelihood(curve: Curve, parameters: np.ndarray, data: Counts) -> float:
    p = curve.value(parameters, N)
    return -float((data.successes * np.log(p) + (data.trials - data.successes) * np.log(1 - p)).sum())


@pytest.mark.parametrize("name", TRUTHS)
def test_every_form_agrees_with_scipy_to_six_digits(name: str) -> None:
    """Nelder and Mead on natural units: no gradient, no transformation, nothing of ours but the formula."""
    curve, truth = CURVES[name], np.array(TRUTHS[name])
    data = counts(3, truth, curve, most=4000)
    bounds = curve.bounds(N)
    start = truth
    for _ in range(6):
        options = {"xatol": 1e-11, "fatol": 1e-13, "maxiter": 20_000, "maxfev": 20_000}
        found = minimize(
            lambda x: negative_log_likelihood(curve, x, data),
            start,
            method="Nelder-Mead",
            bounds=bounds,
            options=options,
        )
        start = found.x
    parameters, likelihood = fitted(curve, data)
    assert likelihood == pytest.approx(-found.fun, rel=1e-9)
    assert parameters == pytest.approx(found.x, rel=1e-6)


def test_exponential_agrees_with_lmfit_to_six_digits() -> None:
    data = counts(1, most=400)
    wanted = lmfit.Parameters()
    for name, value, low, high in (("i", 0.3, 1e-3, 0.999), ("a", 0.8, 1e-3, 0.999), ("r", 0.05, 1e-4, 2.0)):
        wanted.add(name, value=value, min=low, max=high)

    def loss(given: lmfit.Parameters) -> float:
        i, a, r = (given[name].value for name in "iar")
        p = a - (a - i) * np.exp(-r * N)
        return -float((data.successes * np.log(p) + (data.trials - data.successes) * np.log(1 - p)).sum())

    for _ in range(3):
        found = lmfit.minimize(loss, wanted, method="nelder", tol=1e-14, max_nfev=20_000)
        wanted = found.params
    parameters, _ = fitted(CURVE, data)
    assert parameters == pytest.approx([found.params[name].value for name in "iar"], rel=1e-6)


def test_constant_agrees_with_a_binomial_glm() -> None:
    data = counts(2)
    outcomes = np.column_stack([data.successes[0], (data.trials - data.successes)[0]])
    expected = sm.GLM(outcomes, np.ones((N.size, 1)), family=sm.families.Binomial()).fit()
    parameters, _ = fitted(CURVES["constant"], data)
    assert math.log(parameters[0] / (1 - parameters[0])) == pytest.approx(expected.params[0], rel=1e-6)


def test_aicc_is_what_it_is_by_hand() -> None:
    """Three parameters, 24 of 40 solved: 2k - 2 ln L + 2k(k + 1) / (n - k - 1)."""
    likelihood = 24 * math.log(0.6) + 16 * math.log(0.4)
    assert constant_log_likelihood(40, 24) == pytest.approx(likelihood)
    assert aicc(likelihood, 3, 40) == pytest.approx(6 - 2 * likelihood + 24 / 36)


def test_changepoint_is_the_best_of_all_places() -> None:
    curve = CURVES["changepoint"]
    data = counts(4, np.array([0.3, 0.8, 40.0]), curve, most=400)
    best = -math.inf
    for place in range(1, N.size):
        parts = [
            (data.trials[0, part].sum(), data.successes[0, part].sum()) for part in (slice(place), slice(place, None))
        ]
        best = max(best, sum(constant_log_likelihood(*part) for part in parts))
    parameters, likelihood = fitted(curve, data)
    assert likelihood == pytest.approx(best)
    assert parameters[2] == 40.0


@given(PARAMETERS)
def test_score_is_the_finite_difference_of_the_log_likelihood(parameters: np.ndarray) -> None:
    theta, step = unbounded(CURVE, parameters), 1e-5
    prior = Prior(np.array([0.1, 0.2, -3.0]), np.array([1.0, 2.0, 3.0]))
    for p, numeric in enumerate(np.eye(3) * step):
        up = derivatives(CURVE, theta + numeric, counts(), prior).value
        down = derivatives(CURVE, theta - numeric, counts(), prior).value
        assert derivatives(CURVE, theta, counts(), prior).score[0, p] == pytest.approx(
            (up - down)[0] / (2 * step), rel=1e-4, abs=1e-4
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("truth", [CODE_DEBUGGING, np.array([0.002, 0.999, 0.05])], ids=["inside", "at the bounds"])
def test_maximum_is_the_one_that_lbfgsb_finds(seed: int, truth: np.ndarray) -> None:
    data = counts(seed, truth)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = derivatives(CURVE, theta, data)
        return -at.value[0], -at.score[0]

    bounds = unbounded(CURVE, CURVE.bounds(N).T).T
    starts = [unbounded(CURVE, np.array([i, a, r])) for i in (0.2, 0.6) for a in (0.5, 0.9) for r in (0.02, 0.2)]
    best = min((minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds) for x in starts), key=lambda r: r.fun)
    parameters, likelihood = fitted(CURVE, data)
    assert likelihood == pytest.approx(-best.fun, abs=1e-4)
    assert parameters == pytest.approx(natural(CURVE, best.x), rel=0.02)


def test_several_sets_of_counts_are_fitted_as_they_would_be_alone() -> None:
    each = [counts(seed) for seed in range(300)]
    together = Counts(N, np.vstack([c.trials for c in each]), np.vstack([c.successes for c in each]))
    starts = CODE_DEBUGGING[None]
    alone = [maximize(CURVE, c, starts).log_likelihood_B[0] for c in each]
    assert maximize(CURVE, together, starts).log_likelihood_B == pytest.approx(alone, abs=1e-6)


def test_held_parameters_stay_and_the_others_follow() -> None:
    data = counts(1)
    starts = np.array([[0.45, 0.95, 0.08]])
    found = maximize(CURVE, data, starts, held=["asymptote"], tolerance=EXACT).parameters_B_P[0]
    free = [0, 2]
    assert found[1] == pytest.approx(0.95)
    best = minimize(
        lambda x: negative_log_likelihood(CURVE, np.array([x[0], 0.95, x[1]]), data),
        starts[0, free],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12},
    )
    assert found[free] == pytest.approx(best.x, rel=1e-5)


def test_prior_without_data_is_its_own_mode() -> None:
    prior = Prior(unbounded(CURVE, CODE_DEBUGGING), np.array([4.0, 4.0, 4.0]))
    nothing = Counts(N, np.zeros((1, N.size)), np.zeros((1, N.size)))
    assert maximize(CURVE, nothing, np.array([[0.3, 0.6, 0.2]]), prior=prior).parameters_B_P[0] == pytest.approx(
        CODE_DEBUGGING, rel=1e-3
    )


def test_all_successes_end_at_the_bound_without_a_warning() -> None:
    trials = np.full((1, N.size), 10.0)
    for curve in CURVES.values():
        found = maximize(curve, Counts(N, trials, trials), curve.starts(N, np.ones(N.size)))
        assert curve.value(found.parameters_B_P[0], N) == pytest.approx(0.999, abs=1e-3)


def test_outcomes_are_counted_by_cluster_and_experience() -> None:
    found = count_outcomes([0, 5, 0, 5, 5], [True, False, False, True, True], ["a", "a", "b", "b", "b"])
    assert found.n_N.tolist() == [0, 5]
    assert found.trials.tolist() == [[1, 1], [1, 2]]
    assert found.successes.tolist() == [[1, 0], [0, 2]]
    doubled = found.weighted(np.array([[2.0, 0.0]]))
    assert doubled.trials.tolist() == [[2, 2]]
