"""The episode table of a report: series, outcome and counterpart of each episode."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.pairs import ARM_PLACE, LEARNING, RUN_PLACE, pair
from hermes_lab.analysis.comparison.result import Comparison
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.series import ARM_LABELS, series_of

COLUMNS = (
    *("run", "key", "suite", "task_id", "domain", "world", "lane", "arm", "replicate", "weights", "round", "sample"),
    *("experience", "place", "phase", "block", "status", "error_kind", "error_message", "stop_reason"),
    *("success", "accepted", "censored", "recovered"),
    *("prompt_tokens", "completion_tokens", "review_tokens", "review_completion_tokens", "seconds", "review_seconds"),
    *(
        "uncounted_calls",
        "uncounted_review_calls",
        "api_calls",
        "review_calls",
        "tool_errors",
        "skills_listed",
        "skills_loaded",
        "reused",
        "skills_written",
    ),
    *("model", "adapter", "adapter_digest"),
)
"""The `EpisodeRow` columns that the page needs."""

OUTCOMES = ("solved", "solved after feedback", "not solved", "not judged", "errored")
CHANGES = ("", "gained", "lost", "both solved", "neither")
"""Change from the side before to the side after, at the first submission; "" without a judged pair."""


class Sides(NamedTuple):
    """The compared sides: values `before` and `after` of column `by`, with display names."""

    by: Literal["run", "arm", "weights"]
    before: str | int
    after: str | int
    before_name: str
    after_name: str


class Regression(NamedTuple):
    """A task solved by the side before but not by the side after, in `lost` of `pairs` pairs."""

    task: str
    lost: int
    gained: int
    pairs: int
    loaded: bool
    """Whether the side after had loaded a skill, in the first such pair."""
    before: int
    after: int
    """The two episodes of that pair, as row numbers of the table."""


class Losses(NamedTuple):
    """Of `pairs` judged pairs in a part of the run, the side before solved `solved`; the side after lost `lost` of
    these. `worst` has their tasks, worst first."""

    part: str
    pairs: int
    solved: int
    lost: int
    worst: list[Regression]


def load_table(runs: Sequence[Path]) -> pd.DataFrame:
    """One row per episode, in the order of the runs and their logs.

    Adds `series` (display name of arm, weights and run), `outcome` (of `OUTCOMES`), `tokens` and `time` (reviews
    included), and `group`: counterparts under different arms, runs or weights share a group.
    """
    frame = load_episodes(*runs, columns=COLUMNS)
    frame["series"] = _series(frame)
    frame["outcome"] = _outcomes(frame)
    frame["tokens"] = frame[["prompt_tokens", "completion_tokens", "review_tokens"]].sum(axis=1)
    frame["time"] = frame["seconds"] + frame["review_seconds"]
    place = ["suite", "task_id", "world", "replicate", "round", "sample", "phase"]
    frame["group"] = frame.groupby(place, sort=False).ngroup() if len(frame) else 0
    return frame


def _series(frame: pd.DataFrame) -> pd.Series:
    named = {
        number: name for run, rows in per_run(frame) for number, name in (run + series_of(rows)).items()
    }  # fmt: skip
    return pd.Series(named, dtype="str").reindex(frame.index)


def per_run(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each run's rows with the prefix of its series' names: "" for a single run."""
    names = run_names(list(dict.fromkeys(frame["run"])))
    for run, rows in frame.groupby("run", sort=False):
        yield f"{names[str(run)]}, " if len(names) > 1 else "", rows


def run_names(runs: Sequence[str]) -> dict[str, str]:
    """The folder name of each run, or the whole path if names are not unique."""
    names = [Path(run).resolve().name for run in runs]
    return {run: name if names.count(name) == 1 else run for run, name in zip(runs, names, strict=True)}


def _outcomes(frame: pd.DataFrame) -> np.ndarray:
    success, accepted = frame["success"], frame["accepted"]
    conditions = [
        frame["status"].eq("errored"),
        success.isna(),
        success.fillna(False).astype(bool),
        accepted.fillna(False).astype(bool),
    ]
    return np.select(conditions, ["errored", "not judged", "solved", "solved after feedback"], "not solved")


def choose_sides(frame: pd.DataFrame, comparison: Comparison | None) -> Sides | None:
    """The sides of the verdict's comparison; None if nothing was compared."""
    if comparison is None:
        return None
    runs = list(dict.fromkeys(frame["run"]))
    if len(runs) > 1:
        names = run_names(runs)
        return Sides("run", runs[0], runs[-1], names[runs[0]], names[runs[-1]])
    before, after = comparison.before, comparison.after
    if {before, after} <= set(frame["arm"]):
        return Sides("arm", before, after, ARM_LABELS.get(before, before), ARM_LABELS.get(after, after))
    weights = sorted(set(frame["weights"]))
    return Sides("weights", weights[0], weights[-1], before, after)


def sides_of(frame: pd.DataFrame, sides: Sides) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The episodes before and after, and the columns that identify a pair."""
    arm_place = [name for name in ARM_PLACE if name != "weights"] + ["arm"]
    place = {"run": RUN_PLACE, "arm": ARM_PLACE, "weights": arm_place}[sides.by]
    return frame[frame[sides.by] == sides.before], frame[frame[sides.by] == sides.after], place


def usual_order(name: str) -> tuple[str, int, str]:
    """Sort key of arms, and of series, which end in the arm: off, on, placebo, frozen, oracle, then others."""
    before, _, arm = name.rpartition(", ")
    arm = arm.removeprefix("skills ")
    return before, _ARMS.index(arm) if arm in _ARMS else len(_ARMS), arm


_ARMS = ("off", "on", "placebo", "frozen", "oracle")


def pair_up(frame: pd.DataFrame, sides: Sides | None) -> pd.DataFrame:
    """One row per pair with both sides judged: row numbers `before` and `after`, `change`, and the side after's
    `task_id`, `phase`, `round`, `loaded` and `experience`."""
    if sides is None:
        return pd.DataFrame(columns=["before", "after", "change", "task_id", "phase", "round", "loaded", "experience"])
    olds, news, place = sides_of(frame[frame["success"].notna()].reset_index(names="number"), sides)
    pairs = pair(olds, news, place)
    was, now = pairs["success_before"].astype(bool), pairs["success_after"].astype(bool)
    return pd.DataFrame(
        {
            "before": pairs["number_before"],
            "after": pairs["number_after"],
            "change": np.select([~was & now, was & ~now, was & now], ["gained", "lost", "both solved"], "neither"),
            "task_id": pairs["task_id"],
            "phase": pairs["phase_after"],
            "round": pairs["round"],
            "loaded": pairs["skills_loaded_after"] > 0,
            "experience": pairs["experience_after"],
        }
    )


def compared_series(frame: pd.DataFrame, sides: Sides, comparison: Comparison) -> list[str]:
    """The series in the verdict, the side before first: for two runs those of common arms, for weights x skills the
    four cells."""
    before, after, _ = sides_of(frame, sides)
    if sides.by == "run":
        both = comparison.decomposition
        arms = set(both.skills_names) if both else set(before["arm"]) & set(after["arm"])
        before, after = (side[side["arm"].isin(arms)] for side in (before, after))
    return [name for side in (before, after) for name in sorted(set(side["series"]), key=usual_order)]


def losses(pairs: pd.DataFrame, part: str) -> Losses:
    """Regressions in a part of a comparison: while learning, or at the last check that both sides reached."""
    learning, checks = pairs[pairs["phase"] == "learn"], pairs[pairs["phase"] == "heldout"]
    is_check = part not in ("", LEARNING) or (part == "" and learning.empty)
    inside = checks[checks["round"] == checks["round"].max()] if is_check else learning
    lost, kept = int((inside["change"] == "lost").sum()), int((inside["change"] == "both solved").sum())
    return Losses(part, len(inside), lost + kept, lost, regressions(inside))


def changes(frame: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """The change of each episode's pair, of `CHANGES`; "" for episodes of other arms."""
    found = np.full(len(frame), "", dtype=object)
    for side in ("before", "after"):
        found[pairs[side].to_numpy(dtype=int)] = pairs["change"].to_numpy()
    return [str(change) for change in found]


def regressions(pairs: pd.DataFrame, most: int = 5) -> list[Regression]:
    """The tasks with the largest net losses over lanes.

    Ties are broken in favour of tasks with a loaded skill and later ones, where the agent knew most.
    """
    if pairs.empty:
        return []
    counted = pairs.assign(is_lost=pairs["change"] == "lost", is_gained=pairs["change"] == "gained")
    tasks = counted.groupby("task_id").agg(
        lost=("is_lost", "sum"), gained=("is_gained", "sum"), pairs=("is_lost", "size")
    )
    first = pairs[pairs["change"] == "lost"].sort_values(
        ["loaded", "experience", "before"], ascending=[False, False, True]
    )
    first = first.drop_duplicates("task_id").set_index("task_id").join(tasks)
    first["net"] = first["lost"] - first["gained"]
    worst = first.sort_values(["net", "loaded", "experience", "before"], ascending=[False, False, False, True])
    figures = worst[["lost", "gained", "pairs", "loaded", "before", "after"]].to_numpy(dtype=int).tolist()
    return [
        Regression(str(task), lost, gained, places, bool(loaded), before, after)
        for task, (lost, gained, places, loaded, before, after) in zip(worst.index[:most], figures, strict=False)
    ]


def viewing_order(frame: pd.DataFrame, pairs: pd.DataFrame) -> list[int]:
    """Row numbers in packing order: counterparts adjacent, groups with a loss first, then those with a gain, then the
    rest spread evenly over the runs, so that a truncated report has a sample of everything."""
    groups = frame["group"].to_numpy(dtype=int)
    rank: dict[int, int] = {}
    for group, change in zip(groups[pairs["after"].to_numpy(dtype=int)].tolist(), pairs["change"], strict=True):
        rank[group] = min(rank.get(group, 2), {"lost": 0, "gained": 1}.get(change, 2))
    ranks = np.array([rank.get(group, 2) for group in groups.tolist()])
    # Multiples of the golden ratio fill the unit interval evenly at any length (Weyl 1916), deterministically.
    spread = np.where(ranks == 2, (groups * 0.6180339887498949) % 1, groups)
    return [int(number) for number in np.lexsort((np.arange(len(groups)), groups, spread, ranks))]
