"""Episodes in pairs: the same task in the same place on two sides, and the parts of a run that are compared."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.stats.paired import Units, units_of

METRICS = {
    "first_call_ok": "parsed first calls",
    "success": "solved at the first submission",
    "accepted": "solved at any submission",
}
"""The columns that are compared, and what a sentence calls them."""
RUN_PLACE = ["suite", "task_id", "lane", "round", "sample"]
"""What makes an episode's counterpart in another run: its key."""
ARM_PLACE = ["suite", "task_id", "replicate", "world", "weights", "round", "sample"]
"""What makes its counterpart in another arm. Weights stand in it, so that no pair mixes adapters."""
WEIGHTS_PLACE = ["suite", "task_id", "arm", "replicate", "world", "round", "sample"]
"""What makes its counterpart under other weights, in the same run and arm."""
CHECK_PLACE = ["suite", "task_id", "lane", "sample"]
"""What makes its counterpart in another check of the same lane."""
COLUMNS = [
    *("run", "suite", "task_id", "lane", "arm", "replicate", "world", "weights", "round", "sample", "phase"),
    *("experience", "status", "error_kind", "model", "adapter", "adapter_digest", *METRICS),
]
"""What comparisons need of `load_episodes`."""

_UNIT_COLUMNS = ["world", "replicate", "suite", "task_id"]

LEARNING = "while learning"


class Outcomes(NamedTuple):
    """One metric over the pairs that have it on both sides, and what of them moves together."""

    before_P: np.typing.NDArray[np.bool_]
    after_P: np.typing.NDArray[np.bool_]
    units: Units

    @property
    def correlation(self) -> float | None:
        """The (phi) correlation of the two outcomes of a pair; None where a side never varies."""
        if self.before_P.std() == 0 or self.after_P.std() == 0:
            return None
        return float(np.corrcoef(self.before_P, self.after_P)[0, 1])

    @property
    def change_P(self) -> np.typing.NDArray[np.int64]:
        """After less before: -1, 0 or 1."""
        return self.after_P.astype(np.int64) - self.before_P.astype(np.int64)


def pair(before: pd.DataFrame, after: pd.DataFrame, place: list[str]) -> pd.DataFrame:
    """The episodes of both frames that stand in the same place: a row a pair, columns with the suffix of their side."""
    return before.merge(after, on=place, suffixes=("_before", "_after"))


def side(pairs: pd.DataFrame, column: str, which: str) -> pd.Series:
    """A column of one side, `before` or `after`; of both where they were paired by it."""
    return pairs[column] if column in pairs else pairs[f"{column}_{which}"]


def outcomes(pairs: pd.DataFrame, metric: str) -> Outcomes | None:
    """The metric of the pairs that have it on both sides; None where no pair has."""
    before, after = side(pairs, metric, "before"), side(pairs, metric, "after")
    whole = (before.notna() & after.notna()).to_numpy()
    if not whole.any():
        return None
    places = pd.DataFrame({name: side(pairs, name, "before")[whole] for name in _UNIT_COLUMNS})
    return Outcomes(before[whole].to_numpy(dtype=bool), after[whole].to_numpy(dtype=bool), units_of(places))


def moment(frame: pd.DataFrame) -> str:
    """When the last check of held-out tasks was: `after learning`, or after so many tasks where lanes went on since."""
    checks, lessons = frame[frame["phase"] == "heldout"], frame[frame["phase"] == "learn"]
    last = checks["round"].max()
    if lessons.empty or last > lessons["round"].max():
        return "after learning"
    return f"after {checks.loc[checks['round'] == last, 'experience'].max()} tasks"


def parts(frame: pd.DataFrame, when: str = "") -> Iterator[tuple[str, pd.DataFrame]]:
    """The parts of one or more runs that are compared one by one, the one of most interest first.

    With held-out tasks: the last check, then what was learnt from; a name each. Else all of it, without a name, also
    where there is one check and nothing learnt. `when` is the `moment` of the last check, where two frames share it.
    """
    checks = frame[frame["phase"] == "heldout"]
    learning = frame[frame["phase"] == "learn"]
    if checks["round"].nunique() > 1:
        yield f"{when or moment(frame)}, on held-out tasks", checks[checks["round"] == checks["round"].max()]
    if len(learning):
        yield LEARNING if len(checks) else "", learning
    elif checks["round"].nunique() == 1:
        yield "", checks


def first_and_last_check(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """The held-out tasks before the first round and at the last check; None where there are not both."""
    checks = frame[frame["phase"] == "heldout"]
    if checks["round"].nunique() < 2:
        return None
    return tuple(checks[checks["round"] == which] for which in (checks["round"].min(), checks["round"].max()))
