"""Share of the oracle gap closed: a learner's gain relative to the gain with oracle skills."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.pairs import ARM_PLACE, parts
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.paired import LEVEL, Codes, integer_variance, invert, units_of

_SHARES = Interval(-10.0, 10.0)
"""Beyond these no end of an interval is searched."""


@dataclass(frozen=True)
class Gap:
    """(after - before) / (best - before) over the `places` tasks judged in all three arms.

    `share` and `interval` are None if `best` is not significantly better than `before`; `reason` says so. The interval
    may extend beyond 0 and 1.
    """

    arms: tuple[str, str, str]
    share: float | None
    interval: Interval | None
    places: int
    reason: str = ""

    def sentence(self) -> str:
        """The finding in one line."""
        before, after, best = self.arms
        what = f"of the gap from {before} to {best}"
        if self.share is None or self.interval is None:
            return f"share {what} closed by {after}: not identified: {self.reason}"
        low, high = (round(100 * end) for end in self.interval)
        return (
            f"{after} closes {round(100 * self.share)} % {what} (95 % interval {low} to {high} %, {self.places} tasks)"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in ("arms", "share", "interval", "places", "reason")}


def gap_closed(frame: pd.DataFrame, before: str = "off", after: str = "on", best: str = "oracle") -> Gap | None:
    """The gap closed in one run, after learning if there are held-out tasks; None without tasks judged in all arms."""
    arms = (before, after, best)
    part = next(parts(frame), None)
    if part is None:
        return None
    rows = part[1]
    scored = rows[rows["success"].notna() & rows["arm"].isin(arms)]
    table = scored.set_index([*ARM_PLACE, "arm"])["success"].astype(int).unstack("arm")
    if not set(arms) <= set(table.columns) or (whole := table[list(arms)].dropna()).empty:
        return None
    together = units_of(whole.index.to_frame(index=False))
    old_P, new_P, best_P = whole.to_numpy(dtype=np.int64).T
    reached_P, possible_P = new_P - old_P, best_P - old_P
    if possible_P.sum() <= 0 or together.p_value(possible_P) >= LEVEL:
        return Gap(arms, None, None, len(whole), f"{best} is not shown to be better than {before}")
    chances = float(possible_P.sum())
    zero = together.p_value(reached_P) >= LEVEL

    def shares(unit_P: Codes) -> Interval:
        """Fieller's argument with the sign-flip test: all shares v for which `reached` - v `possible` may be symmetric
        about zero."""
        reached_C, possible_C = (
            np.bincount(unit_P, weights=each_P).astype(np.float64) for each_P in (reached_P, possible_P)
        )
        return invert(reached_C, possible_C, _SHARES, lambda share: chances * integer_variance(share), zero)

    return Gap(arms, float(reached_P.sum()) / chances, together.widest(shares), len(whole))
