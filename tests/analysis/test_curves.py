import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize

from analysis.curves.exponential import Exponential
from analysis.likelihood import Counts, count_outcomes, derivatives, maximize, natural, unbounded

CURVE = Exponential()
CODE_DEBUGGING = np.array([0.45, 0.89, 0.08])
PROBABILITY = st.floats(0.05, 0.95)
PARAMETERS = st.tuples(PROBABILITY, PROBABILITY, st.floats(0.01, 2.0)).map(np.array)
N = np.arange(0.0, 100.0, 5.0)


def counts(seed: int = 0, truth: np.ndarray = CODE_DEBUGGING) -> Counts:
    draw = np.random.default_rng(seed)
    trials = draw.integers(1, 30, size=(1, N.size)).astype(float)
    return Counts(N, trials, draw.binomial(trials.astype(int), CURVE.value(truth, N)).astype(float))


def test_area_is_the_published_number() -> None:
    assert CURVE.area(CODE_DEBUGGING, 100) == pytest.approx(83.50, abs=0.005)


@given(PARAMETERS)
def test_area_is_the_integral_of_the_curve(parameters: np.ndarray) -> None:
    area, _ = quad(lambda n: CURVE.value(parameters, np.array([n]))[0], 0, 50)
    assert CURVE.area(parameters, 50) == pytest.approx(area, rel=1e-6)


def test_threshold_is_where_the_curve_crosses() -> None:
    n = CURVE.threshold(CODE_DEBUGGING, 0.8)
    assert n == pytest.approx(19.8, abs=0.05)
    assert CURVE.value(CODE_DEBUGGING, np.array([n]))[0] == pytest.approx(0.8)


def test_threshold_above_the_asymptote_is_never_reached_and_below_the_start_at_once() -> None:
    assert CURVE.threshold(CODE_DEBUGGING, 0.9) == math.inf
    assert CURVE.threshold(CODE_DEBUGGING, 0.4) == 0.0
    assert CURVE.threshold(np.array([0.6, 0.5, 0.1]), 0.7) == math.inf


@given(PARAMETERS)
def test_score_is_the_finite_difference_of_the_log_likelihood(parameters: np.ndarray) -> None:
    theta, step = unbounded(CURVE, parameters), 1e-5
    for p, numeric in enumerate(np.eye(3) * step):
        up = derivatives(CURVE, theta + numeric, counts()).value
        down = derivatives(CURVE, theta - numeric, counts()).value
        assert derivatives(CURVE, theta, counts()).score[0, p] == pytest.approx(
            (up - down)[0] / (2 * step), rel=1e-4, abs=1e-4
        )


@given(PARAMETERS)
def test_unbounded_scale_goes_there_and_back(parameters: np.ndarray) -> None:
    assert natural(CURVE, unbounded(CURVE, parameters)) == pytest.approx(parameters)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("truth", [CODE_DEBUGGING, np.array([0.002, 0.999, 0.05])], ids=["inside", "at the bounds"])
def test_maximum_is_the_one_that_lbfgsb_finds(seed: int, truth: np.ndarray) -> None:
    data = counts(seed, truth)
    found = maximize(CURVE, data, CURVE.starts(N, (data.successes / data.trials)[0]))

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = derivatives(CURVE, theta, data)
        return -at.value[0], -at.score[0]

    bounds = unbounded(CURVE, CURVE.bounds(N).T).T
    starts = [unbounded(CURVE, np.array([i, a, r])) for i in (0.2, 0.6) for a in (0.5, 0.9) for r in (0.02, 0.2)]
    best = min((minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds) for x in starts), key=lambda r: r.fun)
    assert found.log_likelihood_B[0] == pytest.approx(-best.fun, abs=1e-4)
    assert found.parameters_B_P[0] == pytest.approx(natural(CURVE, best.x), rel=0.02)


def test_several_sets_of_counts_are_fitted_as_they_would_be_alone() -> None:
    both = [counts(1), counts(2)]
    together = Counts(N, np.vstack([c.trials for c in both]), np.vstack([c.successes for c in both]))
    starts = CODE_DEBUGGING[None]
    alone = [maximize(CURVE, c, starts).log_likelihood_B[0] for c in both]
    assert maximize(CURVE, together, starts).log_likelihood_B == pytest.approx(alone, abs=1e-6)


def test_all_successes_end_at_the_bound_without_a_warning() -> None:
    trials = np.full((1, N.size), 10.0)
    found = maximize(CURVE, Counts(N, trials, trials), CURVE.starts(N, np.ones(N.size)))
    assert found.parameters_B_P[0, 1] == pytest.approx(0.999)


def test_outcomes_are_counted_by_cluster_and_experience() -> None:
    found = count_outcomes([0, 5, 0, 5, 5], [True, False, False, True, True], ["a", "a", "b", "b", "b"])
    assert found.n_N.tolist() == [0, 5]
    assert found.trials.tolist() == [[1, 1], [1, 2]]
    assert found.successes.tolist() == [[1, 0], [0, 2]]
    doubled = found.weighted(np.array([[2.0, 0.0]]))
    assert doubled.trials.tolist() == [[2, 2]]
