"""Does one side learn faster? Logistic regression `success ~ side * n` with clustered standard errors."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.wording import p_text
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.logistic import fit_logistic
from hermes_lab.analysis.stats.paired import units_of

TASKS = 10
"""Odds ratios are per this many tasks, or per task if the data have fewer: no ratio is extrapolated."""
MIN_SLOPE_UNITS = 10
"""With fewer clusters the standard errors of the four coefficients are unreliable."""
MIN_VALUES = 4
"""Fewest distinct values of n."""


class Slope(NamedTuple):
    """The odds ratio per `per_tasks` tasks of the side after, divided by that of the side before; 1 is no difference.

    Log odds are taken as linear in n, which no learning curve is: this tests whether two curves diverge, not their
    shape. `interval` and `p_value` are None if the sides differ by the same amount in every cluster. `over` names the
    clusters.
    """

    ratio: float
    interval: Interval | None
    p_value: float | None
    lanes: int
    over: str
    per_tasks: int = TASKS

    @property
    def shown(self) -> bool:
        """Whether the two slopes differ significantly."""
        return self.p_value is not None and self.p_value < 0.05

    def sentence(self, before: str, after: str) -> str:
        """The finding in one line."""
        verdict = "" if self.shown else "no difference in learning speed shown: "
        if self.interval is None or self.p_value is None:
            return f"{verdict}not measured: {after} and {before} differ by the same amount in all {self.over}"
        low, high = self.interval
        many = "task" if self.per_tasks == 1 else f"{self.per_tasks} tasks"
        grow = f"odds ratio per {many}, {after} vs {before}: {self.ratio:.2f}"
        spread = f"(95 % interval {low:.2f} to {high:.2f}), {p_text(self.p_value)}, GEE over {self.over}"
        return f"{verdict}{grow} {spread}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict() | {"shown": self.shown}


def learning_slope(before: pd.DataFrame, after: pd.DataFrame) -> Slope | None:
    """The two sides' slopes over the scored episodes of phase `learn`; clusters are `Units` with both sides in them.
    None with fewer than 10 clusters or 4 values of n, or if no slope is finite."""
    sides = [frame[(frame["phase"] == "learn") & frame["success"].notna()] for frame in (before, after)]
    if any(frame["experience"].nunique() < MIN_VALUES for frame in sides):
        return None
    rows = pd.concat(sides)
    together = units_of(rows)
    if together.over == "tasks" or min(unit_N.max() + 1 for unit_N in together.clusterings) < MIN_SLOPE_UNITS:
        return None
    after_N = np.repeat([0.0, 1.0], [len(frame) for frame in sides])
    experience_N = rows["experience"].to_numpy(dtype=np.float64)
    per = TASKS if np.ptp(experience_N) >= TASKS - 1 else 1
    n_N = experience_N / per
    x_N_4 = np.column_stack([np.ones_like(n_N), after_N, n_N, after_N * n_N])
    success_N = rows["success"].to_numpy(dtype=np.float64)
    tests = []
    for unit_N in together.clusterings:
        fitted = fit_logistic(success_N, x_N_4, unit_N)
        if fitted is None:
            return None
        ratio, found = float(np.exp(fitted.coefficients_K[3])), fitted.test(3)
        if found is None:
            return Slope(ratio, None, None, together.lanes, together.name(), per)
        tests.append(found)
    # Under independence the coefficients are the same for each clustering; only their errors differ.
    low, high = min(each.low for each, _ in tests), max(each.high for each, _ in tests)
    interval = Interval(float(np.exp(low)), float(np.exp(high)))
    return Slope(ratio, interval, max(p_value for _, p_value in tests), together.lanes, together.name(), per)
