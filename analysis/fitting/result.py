"""A fitted learning curve and its estimates, shared by `fit`, `profile` and `wald`.

Array names end in their axes: B bootstrap draws, C clusters, N values of experience, P parameters.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from hermes_lab.analysis.curves import Array, Curve
from hermes_lab.analysis.fitting.likelihood import Counts
from hermes_lab.analysis.stats.bootstrap import levels
from hermes_lab.analysis.stats.intervals import Interval

Method = Literal["bootstrap", "profile", "wald"]
"""The method for parameter intervals."""


class Estimate(NamedTuple):
    """One fitted parameter in natural units. `interval` is None with too few runs."""

    name: str
    value: float
    interval: Interval | None
    identified: bool
    reason: str

    def __str__(self) -> str:
        spread = f" ({self.interval.low:.2g}-{self.interval.high:.2g})" if self.interval else ""
        return f"{self.name} {self.value:.2g}{spread}"


class Threshold(NamedTuple):
    """Tasks until success reaches a probability; infinite if it never does.

    `reached` is the share of bootstrap draws that reach it, and `data` the largest experience that was fitted: `n`
    beyond it is an extrapolation.
    """

    probability: float
    n: float
    interval: Interval
    reached: float
    data: float = math.inf

    def sentence(self) -> str:
        """The answer in one line."""
        level, share = f"{100 * self.probability:.0f} %", f"reached in {100 * self.reached:.0f} % of bootstrap draws"
        low, high = (f"{end:.0f}" if math.isfinite(end) else "never" for end in self.interval)
        when = f"after {self.n:.0f} tasks" if math.isfinite(self.n) else "is never reached"
        if self.data < self.n < math.inf:
            when += f", beyond the {self.data + 1:.0f} of the data"
        return f"{level} {when} ({low}-{high}), {share}"


@dataclass(frozen=True, eq=False)
class Fit:
    """A curve fitted by maximum likelihood, in natural units.

    `counts` are the outcomes of each cluster, shape (C, N): `runs` clusters, described by `over`. `draws_B_P` are
    refits on resampled clusters, with B = 0 if there are too few to resample. `evidence` is the AICc of a constant
    success rate minus that of the curve. `method` is that of the parameter intervals; bands and thresholds are always
    bootstrapped. `reason` says why the fit is not identified, or "". `limits` is the range of experience that all lanes
    reached, which `over` ends with; "" if that is all of it.
    """

    curve: Curve
    counts: Counts
    parameters_P: Array
    draws_B_P: Array
    estimates: tuple[Estimate, ...]
    log_likelihood: float
    constant_log_likelihood: float
    evidence: float
    episodes: int
    runs: int
    over: str
    method: Method
    reason: str
    limits: str = ""

    def __repr__(self) -> str:
        """As `sentence`: a notebook shows no number that is not identified."""
        return f"{self.curve.name}: {self.sentence()}"

    __str__ = __repr__

    @property
    def identified(self) -> bool:
        """Whether the data identify the curve."""
        return not self.reason

    @property
    def reach(self) -> float:
        """The largest experience that it was fitted to. Beyond it the curve is an extrapolation."""
        return float(self.counts.n_N.max())

    def predict(self, n_N: Array) -> Array:
        """Success probabilities at `n_N`."""
        return self.curve.value(self.parameters_P, n_N)

    def band(self, n_N: Array) -> Array:
        """The 95 % bootstrap band of `predict`, shape (2, N); only for an identified fit."""
        band: Array = np.quantile(self.curve.value(self.draws_B_P, n_N), levels(self.runs), axis=0)
        return band

    def threshold(self, probability: float) -> Threshold:
        """When success reaches `probability`; only for an identified fit."""
        draws_B = np.array([self.curve.threshold(draw_P, probability) for draw_P in self.draws_B_P])
        # No interpolation between draws: infinity minus infinity is NaN.
        lowest, highest = levels(self.runs)
        low = np.quantile(draws_B, lowest, method="lower")
        high = np.quantile(draws_B, highest, method="higher")
        n = self.curve.threshold(self.parameters_P, probability)
        return Threshold(
            probability, n, Interval(float(low), float(high)), float(np.isfinite(draws_B).mean()), self.reach
        )

    def to_dict(self) -> dict[str, Any]:
        """The fit for JSON. Numbers are included even if `identified` is false."""
        return {
            "curve": self.curve.name,
            "identified": self.identified,
            "reason": self.reason,
            "parameters": {
                e.name: {"value": e.value, "interval": e.interval, "identified": e.identified} for e in self.estimates
            },
            "episodes": self.episodes,
            "runs": self.runs,
            "over": self.over,
            "intervals": self.method,
            "evidence": self.evidence,
        }

    def sentence(self) -> str:
        """The fit in one line."""
        if not self.identified:
            only = f"; fitted to the episodes{self.limits}" if self.limits else ""
            return f"not identified: {self.reason}{only}"
        text = f"{', '.join(map(str, self.estimates))}, over {self.over}"
        return text if self.method == "bootstrap" else f"{text}, {self.method} intervals"


def aicc(log_likelihood: float, parameters: int, episodes: int) -> float:
    """AIC corrected for small samples (Hurvich and Tsai 1989); infinite if undefined."""
    spare = episodes - parameters - 1
    if spare <= 0:
        return math.inf
    return 2 * parameters - 2 * log_likelihood + 2 * parameters * (parameters + 1) / spare


def degrees(curve: Curve) -> int:
    """The parameter count for AICc. A changepoint counts as three, since its search overfits more than a smooth
    parameter does (Ninomiya 2005, Stat. Probab. Lett. 72:237).
    """
    return sum(3 if parameter.kind == "changepoint" else 1 for parameter in curve.parameters)
