"""The findings of a study: success rates and verdicts, by part and for groups of parts."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.compare import compare_frames
from hermes_lab.analysis.comparison.pairs import ARM_PLACE, COLUMNS, RUN_PLACE, parts
from hermes_lab.analysis.comparison.trainings import Trainings, over_trainings
from hermes_lab.analysis.comparison.verdict import ComparisonResult, result_of, verdict, with_causes
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.series import ARM_LABELS
from hermes_lab.analysis.fitting.fit import fit_series
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.analysis.stats.paired import rate_of
from hermes_lab.errors import ConfigError

_TOKENS = ["prompt_tokens", "completion_tokens", "review_tokens", "review_completion_tokens"]
_UNCOUNTED = ["uncounted_calls", "uncounted_review_calls"]
_COST = ["started_at", "seconds", "review_seconds", *_TOKENS, *_UNCOUNTED]


@dataclass(frozen=True)
class Finding:
    """The findings of one part, or of several together.

    `rates` are success rates at the first submission by variant and arm, measured at `when` ("" without held-out
    tasks). `verdicts` are by variant, and by `before -> after` if two are compared. `curves` are of arm `on`, by
    variant (and weights, if it has several), for groups of parts with enough lanes. `trainings` are the effects over
    variants that are trainings of one lock, for groups.
    """

    name: str
    when: str
    rates: Mapping[str, Mapping[str, Rate]]
    verdicts: Mapping[str, ComparisonResult]
    curves: Mapping[str, Fit] = field(default_factory=dict)
    trainings: Mapping[str, Trainings] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rates = {variant: {arm: rate.to_dict() for arm, rate in of.items()} for variant, of in self.rates.items()}
        verdicts = {name: verdict.to_dict() for name, verdict in self.verdicts.items()}
        curves = {variant: {"sentence": fit.sentence()} | fit.to_dict() for variant, fit in self.curves.items()}
        trainings = {name: each.to_dict() for name, each in self.trainings.items()}
        found = {"name": self.name, "when": self.when, "rates": rates, "verdicts": verdicts, "curves": curves}
        return found | ({"trainings": trainings} if trainings else {})


@dataclass(frozen=True)
class Cost:
    """The cost of runs. Tokens are of episodes and their reviews; prompt tokens count again for every reply, prefix
    caching aside; they leave out the `uncounted_calls`, for which the server reported none. `hours` are those in which
    an episode ran, server starts excluded."""

    episodes: int
    prompt_tokens: int
    completion_tokens: int
    uncounted_calls: int
    hours: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def cost_of(runs: Iterable[Path]) -> Cost:
    """The total cost of these runs."""
    frames = [load_episodes(run, columns=_COST) for run in runs]
    sums = pd.concat([frame[_TOKENS + _UNCOUNTED] for frame in frames]).sum()
    reviews = int(sums["review_completion_tokens"])
    return Cost(
        episodes=sum(map(len, frames)),
        prompt_tokens=int(sums["prompt_tokens"] + sums["review_tokens"]) - reviews,
        completion_tokens=int(sums["completion_tokens"]) + reviews,
        uncounted_calls=int(sums[_UNCOUNTED].sum()),
        hours=sum(map(_busy_seconds, frames)) / 3600,
    )


def _busy_seconds(frame: pd.DataFrame) -> float:
    """The time in which at least one episode or review ran."""
    times = pd.to_datetime(frame["started_at"], utc=True, format="ISO8601")  # some have no fraction of a second
    starts = times.dt.as_unit("ns").astype("int64").to_numpy() / 1e9
    order = starts.argsort()
    starts, ends = starts[order], (starts + (frame["seconds"] + frame["review_seconds"]).to_numpy())[order]
    reached = np.maximum.accumulate(ends)
    since = np.maximum(starts[1:], reached[:-1])
    return float(ends[:1].sum() - starts[:1].sum() + np.maximum(ends[1:] - since, 0).sum())


def part_finding(name: str, runs: Mapping[str, Path], compare: tuple[str, str] | None = None) -> Finding:
    """The finding of one part, given its runs by variant."""
    verdicts = {variant: verdict(run) for variant, run in runs.items()}
    if compare:
        verdicts[" -> ".join(compare)] = verdict(*(runs[variant] for variant in compare))
    when, rates = _rates({variant: load_episodes(run, columns=COLUMNS) for variant, run in runs.items()})
    return Finding(name, when, rates, verdicts)


def group_finding(
    name: str,
    runs: Mapping[str, Iterable[tuple[str, Path]]],
    compare: tuple[str, str] | None = None,
    trainings: Mapping[str, Iterable[str]] = MappingProxyType({}),
) -> Finding:
    """The finding of several parts together, given by variant the name and the run of each part.

    Each world of a part is a unit, so the result generalises to further worlds of these parts. An arm that a part
    lacks is compared without that part. `trainings` are variants by adapters from the same lock with other seeds.
    """
    frames = {variant: pool(variant, of_parts) for variant, of_parts in runs.items()}
    verdicts = {variant: _of_skills(frame, variant) for variant, frame in frames.items()}
    if compare:
        verdicts[" -> ".join(compare)] = _of_weights(frames, compare)
    when, rates = _rates(frames)
    unmeasured = {
        variant: verdicts[variant].sentence.removeprefix("not measured: ")
        for variant in frames
        if verdicts[variant].difference is None
    }
    over = {
        each: over_trainings({variant: frames[variant] for variant in variants}, unmeasured)
        for each, variants in trainings.items()
    }
    return Finding(name, when, rates, verdicts, _curves(frames), over)


def pool(name: str, runs: Iterable[tuple[str, Path]], columns: Iterable[str] = COLUMNS) -> pd.DataFrame:
    """The episodes of several parts as one run: worlds and lanes stay distinct, the last checks share a round. With
    these columns, and those that this needs."""
    frames = []
    for part, run in runs:
        frame = load_episodes(run, columns=("world", "lane", "round", "phase", *columns))
        apart = {column: part + " " + frame[column].astype(str) for column in ("world", "lane")}
        frames.append(frame.assign(run=name, **apart))
    last = max(int(frame["round"].max()) for frame in frames)
    for frame in frames:
        checks = frame["phase"] == "heldout"
        frame.loc[checks & (frame["round"] == frame.loc[checks, "round"].max()), "round"] = last
    return pd.concat(frames, ignore_index=True)


def _of_skills(frame: pd.DataFrame, where: str) -> ComparisonResult:
    off, on = (frame[frame["arm"] == arm] for arm in ("off", "on"))
    try:
        return with_causes(result_of(compare_frames(off, on, ARM_PLACE, ("off", "on"), where), "skills"), frame)
    except ConfigError as error:
        return ComparisonResult("", f"not measured: {error}")


def _of_weights(frames: Mapping[str, pd.DataFrame], compare: tuple[str, str]) -> ComparisonResult:
    before, after = (frames[variant] for variant in compare)
    try:
        return result_of(compare_frames(before, after, RUN_PLACE, compare), "weights")
    except ConfigError as error:
        return ComparisonResult("", f"not measured: {error}")


def _curves(frames: Mapping[str, pd.DataFrame]) -> dict[str, Fit]:
    """Learning curves of arm `on` over the episodes of all parts, by variant, and weights if it has several."""
    curves = {}
    for variant, frame in frames.items():
        fits = fit_series(frame[frame["arm"] == "on"])
        for series, fitted in fits.items():
            weights = series.removesuffix(f", {ARM_LABELS['on']}")
            curves[variant if len(fits) == 1 else f"{variant}, {weights}"] = fitted
    return curves


def _rates(frames: Mapping[str, pd.DataFrame]) -> tuple[str, dict[str, dict[str, Rate]]]:
    """Success rates in the most interesting part of each frame, and when it was measured."""
    when, rates = "", {}
    for variant, frame in frames.items():
        when, rows = next(parts(frame), ("", frame))
        solved = rows[rows["success"].notna()].groupby("arm")
        rates[variant] = {str(arm): rate_of(of_arm) for arm, of_arm in solved}
    return when, rates
