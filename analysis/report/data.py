"""The episodes of a report as a table: what each is called, how it ended, and what its counterpart did."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.pairs import ARM_PLACE, LEARNING, RUN_PLACE, pair
from hermes_lab.analysis.comparison.result import Report
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.series import series_of

COLUMNS = (
    *("run", "key", "suite", "task_id", "domain", "world", "lane", "arm", "replicate", "weights", "round", "sample"),
    *("experience", "place", "phase", "block", "status", "error_kind", "error_message", "stop_reason"),
    *("success", "accepted", "censored", "recovered"),
    *("prompt_tokens", "completion_tokens", "review_tokens", "review_completion_tokens", "seconds", "review_seconds"),
    *("api_calls", "review_calls", "tool_errors", "skills_listed", "skills_loaded", "reused", "skills_written"),
    *("model", "adapter", "adapter_digest"),
)
"""Of `EpisodeRow`: what the page needs of every episode."""

OUTCOMES = ("solved", "solved after feedback", "not solved", "not judged", "errored")
CHANGES = ("", "gained", "lost", "both solved", "neither")
"""Of the side after against the side before, at the first submission; "" where there is no judged pair."""


class Sides(NamedTuple):
    """What is compared: the values `before` and `after` of the column `by`, and what a person calls them."""

    by: Literal["run", "arm", "weights"]
    before: str | int
    after: str | int
    before_name: str
    after_name: str


class Regression(NamedTuple):
    """A task that the side before solved and the side after did not, in `lost` of `pairs` places."""

    task: str
    lost: int
    gained: int
    pairs: int
    loaded: bool
    """Whether the side after had loaded a skill, in the first such place."""
    before: int
    after: int
    """That place's two episodes, as row numbers of the table."""


class Losses(NamedTuple):
    """Of `pairs` judged pairs of a part of the run, the side before solved `solved`, of which the side after did not
    solve `lost`; `worst` are their tasks, worst first."""

    part: str
    pairs: int
    solved: int
    lost: int
    worst: list[Regression]


def load_table(runs: Sequence[Path]) -> pd.DataFrame:
    """One row an episode, in the order of the runs and of their logs.

    Adds `series` (what a person calls the arm, weights and run), `outcome` (of `OUTCOMES`), `tokens` and `time` (with
    the review's), and `group`: episodes of one group did the same task in the same place, under another arm, run or
    weights.
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
    """Each run's rows, with what its series' names begin with: nothing where there is one run."""
    names = run_names(list(dict.fromkeys(frame["run"])))
    for run, rows in frame.groupby("run", sort=False):
        yield f"{names[str(run)]}, " if len(names) > 1 else "", rows


def run_names(runs: Sequence[str]) -> dict[str, str]:
    """The folder's name of each run, or its whole path where two folders have one name."""
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


def choose_sides(frame: pd.DataFrame, report: Report | None) -> Sides | None:
    """The sides of the verdict's comparison; None where nothing was compared."""
    if report is None:
        return None
    runs = list(dict.fromkeys(frame["run"]))
    if len(runs) > 1:
        names = run_names(runs)
        return Sides("run", runs[0], runs[-1], names[runs[0]], names[runs[-1]])
    before, after = report.before, report.after
    if {before, after} <= set(frame["arm"]):
        called = {"off": "skills off", "on": "skills on"}
        return Sides("arm", before, after, called.get(before, before), called.get(after, after))
    weights = sorted(set(frame["weights"]))
    return Sides("weights", weights[0], weights[-1], before, after)


def sides_of(frame: pd.DataFrame, sides: Sides) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The episodes before and after, and the columns that are the same in a pair."""
    arm_place = [name for name in ARM_PLACE if name != "weights"] + ["arm"]
    place = {"run": RUN_PLACE, "arm": ARM_PLACE, "weights": arm_place}[sides.by]
    return frame[frame[sides.by] == sides.before], frame[frame[sides.by] == sides.after], place


def usual_order(name: str) -> tuple[str, int, str]:
    """Sorts arms, and series, which end in the arm's name: off, on, placebo, frozen, oracle, then any other."""
    before, _, arm = name.rpartition(", ")
    arm = arm.removeprefix("skills ")
    return before, _ARMS.index(arm) if arm in _ARMS else len(_ARMS), arm


_ARMS = ("off", "on", "placebo", "frozen", "oracle")


def pair_up(frame: pd.DataFrame, sides: Sides | None) -> pd.DataFrame:
    """A row for each pair with both sides judged: row numbers `before` and `after`, `change`, and of the side after
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


def compared_series(frame: pd.DataFrame, sides: Sides, report: Report) -> list[str]:
    """The series that the verdict speaks of, the side before first: of two runs those of the arms that both have, of
    weights x skills the four corners."""
    before, after, _ = sides_of(frame, sides)
    if sides.by == "run":
        both = report.decomposition
        arms = set(both.skills_names) if both else set(before["arm"]) & set(after["arm"])
        before, after = (side[side["arm"].isin(arms)] for side in (before, after))
    return [name for side in (before, after) for name in sorted(set(side["series"]), key=usual_order)]


def losses(pairs: pd.DataFrame, part: str) -> Losses:
    """What got worse in a part of a comparison: while learning, or at the last check that both sides came to."""
    learning, checks = pairs[pairs["phase"] == "learn"], pairs[pairs["phase"] == "heldout"]
    is_check = part not in ("", LEARNING) or (part == "" and learning.empty)
    inside = checks[checks["round"] == checks["round"].max()] if is_check else learning
    lost, kept = int((inside["change"] == "lost").sum()), int((inside["change"] == "both solved").sum())
    return Losses(part, len(inside), lost + kept, lost, regressions(inside))


def changes(frame: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """The change of the pair that each episode is in, of `CHANGES`; an episode of a third arm is in none."""
    found = np.full(len(frame), "", dtype=object)
    for side in ("before", "after"):
        found[pairs[side].to_numpy(dtype=int)] = pairs["change"].to_numpy()
    return [str(change) for change in found]


def regressions(pairs: pd.DataFrame, most: int = 5) -> list[Regression]:
    """The tasks that lost most, net of what they gained in other lanes.

    Then those in which a skill had been loaded, and those that came late: there the agent had most to go by.
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
    """Row numbers in the order in which they are packed: all of a group beside each other, groups with a loss first,
    then those with a gain, then the rest spread over the runs, so that a cut leaves a sample of all of it."""
    groups = frame["group"].to_numpy(dtype=int)
    rank: dict[int, int] = {}
    for group, change in zip(groups[pairs["after"].to_numpy(dtype=int)].tolist(), pairs["change"], strict=True):
        rank[group] = min(rank.get(group, 2), {"lost": 0, "gained": 1}.get(change, 2))
    ranks = np.array([rank.get(group, 2) for group in groups.tolist()])
    # The golden ratio's multiples fill the unit interval evenly wherever one stops (Weyl 1916), and need no chance.
    spread = np.where(ranks == 2, (groups * 0.6180339887498949) % 1, groups)
    return [int(number) for number in np.lexsort((np.arange(len(groups)), groups, spread, ranks))]
