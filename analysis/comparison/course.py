"""Metrics by range of a lane's tasks, and success against library size."""

from collections.abc import Iterator

import pandas as pd

from hermes_lab.analysis.data.series import series_of
from hermes_lab.analysis.stats.paired import rate_of

RANGES = ((1, 10), (11, 20), (21, 30), (31, 50), (51, 100))
"""First and last iteration, counted from 1. Longer lanes get one more range for the rest."""


def iterations(frame: pd.DataFrame) -> pd.Series:
    """The 1-based position of each episode's task in its lane."""
    return frame["experience"] + frame["place"] + 1


def course(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per series and range of iterations with a finished episode of phase `learn`.

    first, last: the range, as far as lanes reached it. lanes: their number. episodes: finished ones; scored: judged.
    success, low, high: success at the first submission with its interval (`hermes_lab.analysis.stats.rates`).
    seconds: median wall clock of an episode without its review; censored: the share of episodes stopped by a budget.
    With half or more censored, the median is a lower bound.
    tokens: mean per episode, review included. reuse: share of episodes that loaded a skill.
    recovery: share of episodes with an error (a failed call or a rejected first submission) that were accepted in the
    end. skills: skills listed in the prompt, mean over lanes at the last episode of the range.
    NA is not measured, e.g. recovery without errors, or tokens if the model reported none.
    """
    whole = frame[(frame["phase"] == "learn") & (frame["status"] == "ok")]
    whole = whole.assign(series=series_of(whole), iteration=iterations(whole))
    rows = [
        {"series": series, **_stretch(part, first, last)}
        for series, group in whole.groupby("series", sort=False)
        for first, last, part in _parts(group)
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(MAY_BE_MISSING, "Float64"))


COLUMNS = (
    *("series", "first", "last", "lanes", "episodes", "scored", "success", "low", "high", "seconds", "censored"),
    *("tokens", "reuse", "recovery", "skills"),
)

MAY_BE_MISSING = ("success", "low", "high", "tokens", "recovery")


def growth(frame: pd.DataFrame) -> pd.DataFrame:
    """Library growth against utility: skills listed and success at each held-out check, by series and experience n.
    Lanes have equal weight."""
    checks = frame[(frame["phase"] == "heldout") & (frame["status"] == "ok")]
    if checks.empty:
        return pd.DataFrame(columns=["series", "experience", "lanes", "skills", "success"])
    checks = checks.assign(series=series_of(checks), success=checks["success"].astype("Float64"))
    lanes = checks.groupby(["series", "experience", "run", "lane"], sort=False)[["skills_listed", "success"]].mean()
    found = lanes.groupby(["series", "experience"]).agg(
        lanes=("success", "size"), skills=("skills_listed", "mean"), success=("success", "mean")
    )
    return found.reset_index()


def met_error(frame: pd.DataFrame) -> pd.Series:
    """Whether each episode had an error: a failed call or a rejected first submission."""
    rejected = frame["success"].eq(False).fillna(False).astype(bool)
    recovered = frame["recovered"].fillna(False).astype(bool)
    return (frame["tool_errors"] > 0) | rejected | recovered


def _parts(group: pd.DataFrame) -> Iterator[tuple[int, int, pd.DataFrame]]:
    longest = int(group["iteration"].max())
    rest = ((RANGES[-1][1] + 1, longest),)
    for first, last in (*RANGES, *rest):
        part = group[group["iteration"].between(first, last)]
        if len(part):
            yield first, min(last, longest), part


def _stretch(part: pd.DataFrame, first: int, last: int) -> dict[str, object]:
    solved = rate_of(part)
    scored, (low, high) = solved.trials, solved.interval
    erred = part[met_error(part)]
    judged = erred["accepted"].dropna()
    ends = part.sort_values("iteration").groupby(["run", "lane"]).tail(1)
    unknown = part[["uncounted_calls", "uncounted_review_calls"]].to_numpy().any()
    tokens = part["prompt_tokens"] + part["completion_tokens"] + part["review_tokens"]
    return {
        "first": first,
        "last": last,
        "lanes": len(ends),
        "episodes": len(part),
        "scored": scored,
        "success": solved.value if scored else pd.NA,
        "low": low if scored else pd.NA,
        "high": high if scored else pd.NA,
        "seconds": float(part["seconds"].median()),
        "censored": float(part["censored"].mean()),
        "tokens": float(tokens.mean()) if tokens.any() and not unknown else pd.NA,
        "reuse": float(part["reused"].mean()),
        "recovery": float(judged.mean()) if len(judged) else pd.NA,
        "skills": float(ends["skills_listed"].mean()),
    }
