"""Pairs of episodes: the same task at the same position on two sides, and the parts of a run to compare."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.skill_effects import treatment
from hermes_lab.analysis.stats.paired import PLACES, Units, units_of

METRICS = {
    "first_call_ok": "parsed first calls",
    "success": "solved at the first submission",
    "accepted": "solved at any submission",
}
"""The compared columns and their display names."""
RUN_PLACE = ["suite", "task_id", "lane", "round", "sample"]
"""Columns that identify an episode's counterpart in another run: its key."""
ARM_PLACE = ["suite", "task_id", "replicate", "world", "weights", "round", "sample"]
"""Columns that identify its counterpart in another arm, weights included, so that no pair mixes adapters."""
WEIGHTS_PLACE = ["suite", "task_id", "arm", "replicate", "world", "round", "sample"]
"""Columns that identify its counterpart under other weights, in the same run and arm."""
CHECK_PLACE = ["suite", "task_id", "lane", "sample"]
"""Columns that identify its counterpart in another held-out check of the same lane."""
COLUMNS = list(
    dict.fromkeys(
        (
            *("run", "suite", "task_id", "lane", "arm", "replicate", "world", "weights", "round", "sample", "phase"),
            *("experience", "status", "started_at", "error_kind", "model", "adapter", "adapter_digest", *METRICS),
            *treatment.COLUMNS,
        )
    )
)
"""The `load_episodes` columns that comparisons need."""

LEARNING = "while learning"


class Outcomes(NamedTuple):
    """One metric over the pairs that have it on both sides, and the clusters of these pairs."""

    before_P: np.typing.NDArray[np.bool_]
    after_P: np.typing.NDArray[np.bool_]
    units: Units

    @property
    def correlation(self) -> float | None:
        """Phi correlation of the two outcomes of a pair; None if a side never varies."""
        if self.before_P.std() == 0 or self.after_P.std() == 0:
            return None
        return float(np.corrcoef(self.before_P, self.after_P)[0, 1])

    @property
    def change_P(self) -> np.typing.NDArray[np.int64]:
        """After minus before: -1, 0 or 1."""
        return self.after_P.astype(np.int64) - self.before_P.astype(np.int64)


def pair(before: pd.DataFrame, after: pd.DataFrame, place: list[str]) -> pd.DataFrame:
    """Joins the episodes of both frames on `place`: one row per pair, columns suffixed by side."""
    return before.merge(after, on=place, suffixes=("_before", "_after"))


def side(pairs: pd.DataFrame, column: str, which: str) -> pd.Series:
    """A column of one side, `before` or `after`; the shared column if pairs were joined on it."""
    return pairs[column] if column in pairs else pairs[f"{column}_{which}"]


def outcomes(pairs: pd.DataFrame, metric: str) -> Outcomes | None:
    """The metric over the pairs that have it on both sides; None if no pair has."""
    before, after = side(pairs, metric, "before"), side(pairs, metric, "after")
    whole = (before.notna() & after.notna()).to_numpy()
    if not whole.any():
        return None
    places = pd.DataFrame({name: side(pairs, name, "before")[whole] for name in PLACES})
    return Outcomes(before[whole].to_numpy(dtype=bool), after[whole].to_numpy(dtype=bool), units_of(places))


def moment(frame: pd.DataFrame) -> str:
    """When the last held-out check was: `after learning`, or `after N tasks` if lanes learned more since."""
    checks, lessons = frame[frame["phase"] == "heldout"], frame[frame["phase"] == "learn"]
    last = checks["round"].max()
    if lessons.empty or last > lessons["round"].max():
        return "after learning"
    return f"after {checks.loc[checks['round'] == last, 'experience'].max()} tasks"


def parts(frame: pd.DataFrame, when: str = "") -> Iterator[tuple[str, pd.DataFrame]]:
    """The parts of one or more runs to compare separately, the most interesting first.

    With held-out tasks: the last check, then the training tasks, each with a name. Otherwise everything, unnamed; also
    with a single check and no training tasks. `when` is the `moment` of the last check, if two frames share it.
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
    """The held-out tasks before the first round and at the last check; None unless there are both."""
    checks = frame[frame["phase"] == "heldout"]
    if checks["round"].nunique() < 2:
        return None
    return tuple(checks[checks["round"] == which] for which in (checks["round"].min(), checks["round"].max()))
