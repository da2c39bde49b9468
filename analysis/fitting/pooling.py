"""Partial pooling of learning curves across domains with few runs each.

On the unbounded scale every domain's parameters are drawn from one normal distribution whose mean and variance are
estimated along with them (empirical Bayes). Estimates of domains with few runs shrink towards the mean, those with many
runs hardly do; the more alike the domains, the stronger the shrinkage.

Array names end in their axes: C runs, D groups, N values of experience, P parameters.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hermes_lab.analysis.curves import Array, Curve
from hermes_lab.analysis.curves.exponential import Exponential
from hermes_lab.analysis.data.series import clusters_of, series_of
from hermes_lab.analysis.fitting.fit import in_common
from hermes_lab.analysis.fitting.identification import curve_blocker, data_blocker, parameter_blocker
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
from hermes_lab.analysis.fitting.result import Estimate, aicc, degrees
from hermes_lab.analysis.fitting.wald import student
from hermes_lab.analysis.stats.bootstrap import MIN_CLUSTERS
from hermes_lab.analysis.stats.intervals import Z95, Interval
from hermes_lab.errors import ConfigError
from hermes_lab.text.counted import counted

MIN_GROUPS = 3
"""Fewest groups: with fewer their variance cannot be estimated."""
MAX_CHANCE = 0.05
"""p-value below which the groups disagree."""
_ROUNDS = 500


class PooledGroup(NamedTuple):
    """One domain's partially pooled curve; `alone_P` is the fit to its own runs only.

    `unit` is what `runs` counts: `run` or `world`.
    """

    name: str
    runs: int
    unit: str
    episodes: int
    estimates: tuple[Estimate, ...]
    alone_P: Array

    def sentence(self) -> str:
        """The curve in one line."""
        reason = "; ".join(dict.fromkeys(estimate.reason for estimate in self.estimates if estimate.reason))
        if reason:
            return f"not identified: {reason}"
        return f"{', '.join(map(str, self.estimates))}, partially pooled, {counted(self.runs, self.unit)} of its own"


@dataclass(frozen=True, eq=False)
class Pooled:
    """Curves of several groups and of their population.

    `population` is the median group's curve. `spread_P` is the standard deviation between groups on the unbounded
    scale. `p_value` tests whether all groups share one curve. `dispersion` is the overdispersion of runs relative to
    independent episodes; at least 1.
    """

    curve: Curve
    population: tuple[Estimate, ...]
    groups: tuple[PooledGroup, ...]
    spread_P: Array
    dispersion: float
    p_value: float
    over: str
    """The clusters of all groups, and the range of experience: `20 worlds`."""

    @property
    def disagree(self) -> bool:
        """Whether a common curve is rejected."""
        return self.p_value < MAX_CHANCE

    def sentence(self) -> str:
        """The population's curve and whether the groups share it, in one line."""
        reason = "; ".join(dict.fromkeys(estimate.reason for estimate in self.population if estimate.reason))
        curve = f"not identified: {reason}" if reason else f"{', '.join(map(str, self.population))}, over {self.over}"
        alike = "disagree" if self.disagree else "show no difference"
        return f"{curve}; the {len(self.groups)} groups {alike} (p = {self.p_value:.2g})"

    def to_dict(self) -> dict[str, Any]:
        """The curves for JSON."""
        return {
            "population": _by_name(self.population),
            "groups": {
                group.name: {"runs": group.runs, "episodes": group.episodes, "parameters": _by_name(group.estimates)}
                for group in self.groups
            },
            "spread": dict(zip([e.name for e in self.population], self.spread_P.tolist(), strict=True)),
            "dispersion": self.dispersion,
            "p_value": self.p_value,
            "disagree": self.disagree,
            "over": self.over,
        }


def pool_series(
    frame: pd.DataFrame, curve: Curve | None = None, *, by: str = "domain", phase: str = "learn"
) -> dict[str, Pooled]:
    """The partially pooled curves of each series of `load_episodes`, grouped by column `by`.

    Clusters come from `hermes_lab.analysis.data.series.clusters_of` within each group; groups are taken as independent
    even if they share lanes. As in `scored_episodes`, only experience that all lanes of the series reached counts.

    Raises `ConfigError` if a series has fewer than three groups there, or its lanes share no experience.
    """
    lessons = frame[frame["phase"] == phase]
    found = {}
    for series, whole in lessons.groupby(series_of(lessons), sort=False):
        shared, limits = in_common(whole)
        rows = shared[shared["success"].notna()]
        clusters, groups = clusters_of(rows), rows[by].astype(str).tolist()
        n, success = rows["experience"].to_numpy(), rows["success"].to_numpy(dtype=bool)
        found[str(series)] = pool_curves(n, success, clusters.labels, groups, curve, unit=clusters.unit, limits=limits)
    return found


def pool_curves(
    n: npt.ArrayLike,
    success: npt.ArrayLike,
    cluster: Sequence[Hashable],
    group: Sequence[str],
    curve: Curve | None = None,
    *,
    unit: str = "run",
    limits: str = "",
) -> Pooled:
    """Episodes as in `fit_curve`, each of a `group`; `unit` names the clusters, and `limits` the range of experience.

    Raises `ConfigError` for fewer than three groups.
    """
    curve = curve or Exponential()
    owners = list(dict.fromkeys(zip(group, cluster, strict=True)))
    names = list(dict.fromkeys(group))
    if len(names) < MIN_GROUPS:
        raise ConfigError(f"partial pooling needs at least {MIN_GROUPS} groups, not {len(names)}: {', '.join(names)}")
    runs = count_outcomes(n, success, zip(group, cluster, strict=True))
    own_D_C = np.array([[owner[0] == name for owner in owners] for name in names], dtype=np.float64)
    counts = runs.weighted(own_D_C)
    total = counts.pooled()
    starts_S_P = curve.starts(total.n_N, (total.successes / total.trials)[0])
    common = maximize(curve, total, starts_S_P, tolerance=EXACT)
    alone = maximize(curve, counts, np.vstack([starts_S_P, common.parameters_B_P]), tolerance=EXACT)
    dispersion = _dispersion(curve, runs, own_D_C, alone.parameters_B_P)
    model = _fit(
        curve,
        Counts(counts.n_N, counts.trials / dispersion, counts.successes / dispersion),
        unbounded(curve, common.parameters_B_P[0]),
    )

    episodes, flat = int(total.trials.sum()), sum(map(constant_log_likelihood, *_sums(counts)))
    apart = float(alone.log_likelihood_B.sum())
    evidence = aicc(flat / dispersion, len(names), episodes) - aicc(
        apart / dispersion, len(names) * degrees(curve), episodes
    )
    spare = len(owners) - len(names) + 1
    middle_P = natural(curve, model.mean_P)
    blocker = data_blocker(episodes, total.n_N.size, len(middle_P)) or curve_blocker(
        spare, evidence, curve.degenerate(middle_P, total.n_N)
    )
    over = counted(len(set(cluster)), unit) + limits
    gain = 2 * (apart - float(common.log_likelihood_B[0])) / dispersion
    return Pooled(
        curve=curve,
        population=_estimates(curve, model.mean_P, student(len(names)) * model.mean_error_P, over, blocker),
        groups=tuple(
            PooledGroup(
                name,
                int(own_D_C[d].sum()),
                unit,
                int(counts.trials[d].sum()),
                _estimates(curve, model.theta_D_P[d], Z95 * model.error_D_P[d], over, blocker),
                alone.parameters_B_P[d],
            )
            for d, name in enumerate(names)
        ),
        spread_P=np.sqrt(model.variance_P),
        dispersion=dispersion,
        p_value=_chance(gain, (len(names) - 1) * len(middle_P)),
        over=over,
    )


class _Model(NamedTuple):
    """The population and its groups on the unbounded scale, with standard errors."""

    mean_P: Array
    mean_error_P: Array
    variance_P: Array
    theta_D_P: Array
    error_D_P: Array


def _fit(curve: Curve, counts: Counts, mean_P: Array) -> _Model:
    """Expectation-maximisation with a Laplace approximation for each group (Lindstrom and Bates 1990).

    The variance between groups is the restricted estimate, which accounts for the estimated mean. The prior of Chung
    et al. (2013, Psychometrika 78:685) on its root, here a factor D / (D - 1), keeps it off zero, where every group
    would be pooled completely.
    """
    variance_P = np.full(mean_P.shape, 0.25)
    theta_D_P = np.repeat(mean_P[None], len(counts.trials), axis=0)
    for _ in range(_ROUNDS):
        prior = Prior(mean_P, 1 / variance_P)
        best = maximize(curve, counts, natural(curve, theta_D_P)[:, None], prior=prior, tolerance=1e-10)
        theta_D_P = unbounded(curve, best.parameters_B_P)
        precision_D_P_P = derivatives(curve, theta_D_P, counts, prior).information
        posterior_D_P_P = np.linalg.inv(precision_D_P_P)
        # A group's information about the mean, once the variance between groups is added to its error.
        seen_D_P_P = np.diag(1 / variance_P) - posterior_D_P_P / np.outer(variance_P, variance_P)
        mean_covariance_P_P = np.linalg.inv(seen_D_P_P.sum(axis=0))
        lent_D_P_P = posterior_D_P_P / variance_P
        kept_D_P_P = np.eye(len(mean_P)) - lent_D_P_P
        own_D_P = _diagonals(posterior_D_P_P + kept_D_P_P @ mean_covariance_P_P @ np.swapaxes(kept_D_P_P, 1, 2))
        new_mean_P = theta_D_P.mean(axis=0)
        new_variance_P = ((theta_D_P - new_mean_P) ** 2 + own_D_P).sum(axis=0) / (len(theta_D_P) - 1)
        moved = np.abs(new_mean_P - mean_P).max() + np.abs(np.log(new_variance_P / variance_P)).max()
        mean_P, variance_P = new_mean_P, new_variance_P
        if moved < 1e-3:
            break
    error_D_P = np.sqrt(_diagonals(posterior_D_P_P + lent_D_P_P @ mean_covariance_P_P @ np.swapaxes(lent_D_P_P, 1, 2)))
    return _Model(mean_P, np.sqrt(np.diag(mean_covariance_P_P)), variance_P, theta_D_P, error_D_P)


def _diagonals(matrices_D_P_P: Array) -> Array:
    return np.diagonal(matrices_D_P_P, axis1=1, axis2=2)


def _dispersion(curve: Curve, runs: Counts, own_D_C: Array, alone_D_P: Array) -> float:
    """As `Covariance.dispersion`, but one number for all groups, which have few runs each; at least 1."""
    theta_D_P = unbounded(curve, alone_D_P)
    between, spare = 0.0, 0.0
    for theta_P, own_C in zip(theta_D_P, own_D_C.astype(bool), strict=True):
        if own_C.sum() < 2:
            continue
        each = runs.rows(own_C.nonzero()[0])
        scores_C_P = derivatives(curve, np.broadcast_to(theta_P, (own_C.sum(), len(theta_P))), each).score
        scores_C_P = scores_C_P - scores_C_P.mean(axis=0)
        inverse = np.linalg.pinv(derivatives(curve, theta_P, each.pooled()).information[0], hermitian=True)
        between += own_C.sum() * float(np.trace(inverse @ scores_C_P.T @ scores_C_P)) / len(theta_P)
        spare += own_C.sum() - 1
    return max(float(between / spare), 1.0) if spare >= MIN_CLUSTERS - 1 else 1.0


def _estimates(curve: Curve, theta_P: Array, reach_P: Array, over: str, blocker: str) -> tuple[Estimate, ...]:
    with np.errstate(over="ignore"):  # what flat data leave open reaches to 0 and to infinity
        ends = natural(curve, np.stack([theta_P - reach_P, theta_P, theta_P + reach_P]))
    made = []
    for parameter, (low, value, high) in zip(curve.parameters, ends.T.tolist(), strict=True):
        interval = Interval(low, high)
        reason = blocker or parameter_blocker(parameter, interval, over)
        made.append(Estimate(parameter.name, value, interval, not reason, reason))
    return tuple(made)


def _chance(gain: float, spare: int) -> float:
    from scipy.stats import chi2

    return float(chi2.sf(gain, spare))


def _sums(counts: Counts) -> tuple[list[float], list[float]]:
    return counts.trials.sum(axis=-1).tolist(), counts.successes.sum(axis=-1).tolist()


def _by_name(estimates: tuple[Estimate, ...]) -> dict[str, Any]:
    return {e.name: {"value": e.value, "interval": e.interval, "identified": e.identified} for e in estimates}
