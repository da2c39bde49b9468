"""Logistic regression with cluster-robust standard errors.

Generalised estimating equations (Liang and Zeger 1986, Biometrika 73:13), solved by Fisher scoring. Array names end in
their axes: N outcomes, K coefficients, C clusters.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.paired import Codes

_ITERATIONS = 100
_TOLERANCE = 1e-10
_SEPARATED = 20.0
"""A coefficient beyond this diverges: a column separates successes from failures."""

_CERTAIN = 200.0
"""Log odds beyond this are cut off: a squared residual stays a finite number."""

_NO_ERROR = 1e-8
"""A standard error in log odds below this is rounding error: with 10^8 outcomes it is still about 10^-4."""

Working = Literal["independence", "exchangeable"]


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted model, coefficients in log odds.

    `robust_K_K` is the sandwich covariance of the coefficients; `corrected_K_K` is the one of Mancl and DeRouen (2001,
    Biometrics 57:126), corrected for few clusters. `correlation` is the working correlation, 0 under independence.
    """

    coefficients_K: Array
    robust_K_K: Array
    corrected_K_K: Array
    correlation: float
    clusters: int

    def test(self, coefficient: int) -> tuple[Interval, float] | None:
        """The 95 % interval of a coefficient and its two-sided p, by Student's t with C - 1 degrees of freedom.

        None if all clusters agree on it: the standard error is then zero up to rounding.
        """
        from scipy.stats import t

        value, error = self.coefficients_K[coefficient], np.sqrt(self.corrected_K_K[coefficient, coefficient])
        if error < _NO_ERROR:
            return None
        freedom = self.clusters - 1
        reach = t.ppf(0.975, freedom) * error
        return Interval(float(value - reach), float(value + reach)), float(2 * t.sf(abs(value) / error, freedom))


def fit_logistic(y_N: Array, x_N_K: Array, cluster_N: Codes, working: Working = "independence") -> Logistic | None:
    """Fits y (0 or 1) ~ x with clusters numbered from 0; `x_N_K` includes the column of ones.

    None if no finite coefficients fit, or if there are no more clusters than coefficients. The estimate is consistent
    for any working correlation and more efficient if that is close to the truth.
    """
    size_C = np.bincount(cluster_N).astype(np.float64)
    if len(size_C) <= x_N_K.shape[1]:
        return None
    beta_K, correlation = np.zeros(x_N_K.shape[1]), 0.0
    for _ in range(_ITERATIONS):
        at = _equations(y_N, x_N_K, cluster_N, beta_K, correlation, size_C)
        if not np.isfinite(at.bread_C_K_K).all() or np.linalg.cond(at.bread_C_K_K.sum(axis=0)) > 1e12:
            return None
        step_K = np.linalg.solve(at.bread_C_K_K.sum(axis=0), at.score_C_K.sum(axis=0))
        beta_K = beta_K + step_K
        if np.abs(beta_K).max() > _SEPARATED:
            return None
        before = correlation
        if working == "exchangeable":
            correlation = _exchangeable(y_N, x_N_K, cluster_N, beta_K, size_C)
        if max(np.abs(step_K).max(), abs(correlation - before)) < _TOLERANCE:
            break
    else:
        return None
    at = _equations(y_N, x_N_K, cluster_N, beta_K, correlation, size_C)
    bread_K_K = at.bread_C_K_K.sum(axis=0)
    influence_C_K = np.linalg.solve(bread_K_K, at.score_C_K.T).T
    # Mancl and DeRouen correct each cluster's residuals for its leverage; by Woodbury's identity that equals leaving
    # the cluster out of the bread.
    without_C_K = np.linalg.solve(bread_K_K - at.bread_C_K_K, at.score_C_K[..., None])[..., 0]
    return Logistic(
        coefficients_K=beta_K,
        robust_K_K=influence_C_K.T @ influence_C_K,
        corrected_K_K=without_C_K.T @ without_C_K,
        correlation=correlation,
        clusters=len(size_C),
    )


class _Equations(NamedTuple):
    """Each cluster's contribution to the estimating equations and to their expected derivative."""

    score_C_K: Array
    bread_C_K_K: Array


def _equations(
    y_N: Array, x_N_K: Array, cluster_N: Codes, beta_K: Array, correlation: float, size_C: Array
) -> _Equations:
    deviation_N, pearson_N = _residuals(y_N, x_N_K, beta_K)
    z_N_K = x_N_K * deviation_N[:, None]
    # The inverse of an exchangeable correlation matrix is a multiple of (identity - constant).
    shared_C = correlation / (1 - correlation) / (1 + correlation * (size_C - 1))
    z_C_K, pearson_C = _sums(z_N_K, cluster_N), _sums(pearson_N, cluster_N)
    score_C_K = _sums(z_N_K * pearson_N[:, None], cluster_N) / (1 - correlation)
    products_C_K_K = _sums(z_N_K[:, :, None] * z_N_K[:, None, :], cluster_N) / (1 - correlation)
    return _Equations(
        score_C_K - shared_C[:, None] * z_C_K * pearson_C[:, None],
        products_C_K_K - shared_C[:, None, None] * z_C_K[:, :, None] * z_C_K[:, None, :],
    )


def _exchangeable(y_N: Array, x_N_K: Array, cluster_N: Codes, beta_K: Array, size_C: Array) -> float:
    """Moment estimator of the within-cluster correlation, from Pearson residuals."""
    _, pearson_N = _residuals(y_N, x_N_K, beta_K)
    coefficients = x_N_K.shape[1]
    squares = float(pearson_N @ pearson_N)
    products = (float((_sums(pearson_N, cluster_N) ** 2).sum()) - squares) / 2
    pairs = float((size_C * (size_C - 1)).sum()) / 2
    return products / (squares / (len(y_N) - coefficients)) / (pairs - coefficients) if pairs > coefficients else 0.0


def _residuals(y_N: Array, x_N_K: Array, beta_K: Array) -> tuple[Array, Array]:
    """The standard deviation of each outcome, and its Pearson residual.

    Written in the log odds: `p` and `1 - p` round to 0 or 1 where coefficients diverge, and the residual to 0 / 0.
    """
    odds_N = np.clip(x_N_K @ beta_K, -_CERTAIN, _CERTAIN)
    deviation_N = np.exp(-np.abs(odds_N) / 2) / (1 + np.exp(-np.abs(odds_N)))
    side_N = 2 * y_N - 1
    return deviation_N, side_N * np.exp(-side_N * odds_N / 2)


def _sums(values_N: Array, cluster_N: Codes) -> Array:
    sums = np.zeros((cluster_N.max() + 1, *values_N.shape[1:]))
    np.add.at(sums, cluster_N, values_N)
    return sums
