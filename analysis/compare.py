"""What changed between two runs or two arms, judged on pairs: the same task in the same place under both."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from analysis.bootstrap import MIN_CLUSTERS, cluster_weights, levels
from analysis.intervals import Interval, Rate, paired_difference
from analysis.rows import EpisodeRow, read_rows
from analysis.series import weights_name
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import config_differences, read_manifest

METRICS = {
    "first_call_ok": "parsed first calls",
    "success": "solved at the first submission",
    "accepted": "solved at any submission",
}
"""The columns that are compared, and what a sentence calls them."""


@dataclass(frozen=True)
class Comparison:
    """One metric before and after, over pairs.

    `interval` is of the difference of the two rates. `lanes` is the number of (replicate, world) that the
    pairs come from; `unpaired` counts episodes whose counterpart is missing, errored or without this metric,
    and which are left out.
    """

    metric: str
    before: Rate
    after: Rate
    gained: int
    lost: int
    interval: Interval
    p_value: float
    lanes: int
    unpaired: int

    @property
    def difference(self) -> float:
        """After less before, in [-1, 1]."""
        return self.after.value - self.before.value

    @property
    def shown(self) -> bool:
        """Whether a difference is shown: the interval leaves out zero, and McNemar's p is below 0.05."""
        return self.p_value < 0.05 and not self.interval.low <= 0 <= self.interval.high

    def sentence(self) -> str:
        """The verdict in one line."""
        low, high = (f"{100 * end:.0f}" for end in self.interval)
        change = f"{round(100 * self.difference):+d} points (95 % interval {low} to {high})"
        digits = 1 if self.p_value < 0.001 else 2
        verdict = f"{'' if self.shown else 'no difference shown: '}{change}, p = {self.p_value:.{digits}g}"
        left_out = f"; {self.unpaired} episodes without a pair left out" if self.unpaired else ""
        return f"{METRICS[self.metric]}: {self.before} -> {self.after}, {verdict}{left_out}"


@dataclass(frozen=True)
class Cell:
    """One corner of weights x skills. `weights` is the adapter, or the model where there is none."""

    weights: str
    skills: Literal["off", "on"]
    success: Rate

    def sentence(self) -> str:
        """The corner in one line."""
        return f"{self.weights}, skills {self.skills}: {self.success} solved at the first submission"


@dataclass(frozen=True)
class Report:
    """The metrics that both sides have, and weights x skills where both are runs of both arms."""

    before: str
    after: str
    comparisons: tuple[Comparison, ...]
    cells: tuple[Cell, ...] = ()
    differences: tuple[str, ...] = ()
    """The configuration's fields in which two runs differ."""

    def report(self) -> dict[str, Any]:
        """The comparison for JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "differences": self.differences,
            "comparisons": [
                {
                    "metric": c.metric,
                    "before": c.before.report(),
                    "after": c.after.report(),
                    "difference": c.difference,
                    "interval": c.interval,
                    "p_value": c.p_value,
                    "shown": c.shown,
                    "lanes": c.lanes,
                    "unpaired": c.unpaired,
                }
                for c in self.comparisons
            ],
            "cells": [{"weights": c.weights, "skills": c.skills, "success": c.success.report()} for c in self.cells],
        }

    def lines(self) -> list[str]:
        """The verdicts, then the corners of weights x skills."""
        verdicts = [f"{self.before} -> {self.after}", *(f"  {c.sentence()}" for c in self.comparisons)]
        verdicts += [f"  {cell.sentence()}" for cell in self.cells]
        return verdicts + ([f"  the runs differ in: {', '.join(self.differences)}"] if self.differences else [])


class _Pair(NamedTuple):
    before: EpisodeRow
    after: EpisodeRow


def compare_runs(before: Path, after: Path) -> Report:
    """Pairs two runs by episode key. Raises `ConfigError` where their tasks are not the same."""
    _refuse_other_tasks(before, after)
    olds, news = list(read_rows(before)), list(read_rows(after))
    pairs = _pair(olds, news, lambda row: row.key, f"{before} and {after}")
    fields = config_differences(read_manifest(before), read_manifest(after))
    return Report(
        before=str(before),
        after=str(after),
        comparisons=_compare(pairs, len(olds) + len(news)),
        cells=_cells(pairs),
        differences=tuple(name for name, _, _ in fields),
    )


def compare_arms(run: Path, before: str, after: str) -> Report:
    """Pairs two arms of a run by task, replicate, world, round and sample.

    Raises `ConfigError` where an arm is missing.
    """
    rows = list(read_rows(run))
    for arm in (before, after):
        if not any(row.arm == arm for row in rows):
            arms = ", ".join(sorted({row.arm for row in rows})) or "no episodes"
            raise ConfigError(f"{run} has no arm {arm!r}; it has {arms}; give a second run to compare with")
    olds = [row for row in rows if row.arm == before]
    news = [row for row in rows if row.arm == after]

    def place(row: EpisodeRow) -> Hashable:
        return row.suite, row.task_id, row.replicate, row.world, row.round, row.sample

    pairs = _pair(olds, news, place, f"arms {before} and {after} of {run}")
    return Report(before, after, _compare(pairs, len(olds) + len(news)))


def mcnemar(lost: int, gained: int) -> float:
    """The exact two-sided p of McNemar's test (1947).

    Without a difference, a changed pair is as likely a loss as a gain.
    """
    from scipy.stats import binomtest

    return float(binomtest(gained, lost + gained).pvalue) if lost + gained else 1.0


def _refuse_other_tasks(before: Path, after: Path) -> None:
    a, b = read_manifest(before), read_manifest(after)
    if a.tasks_digest and a.tasks_digest == b.tasks_digest:
        return
    was, now = a.config.get("suite", {}), b.config.get("suite", {})
    # More tasks of the same draw are the same tasks and some more.
    for field in sorted((was.keys() | now.keys()) - {"count"}):
        if was.get(field) != now.get(field):
            raise ConfigError(
                f"{before} and {after} cannot be paired: suite.{field} is {was.get(field)!r} in one and "
                f"{now.get(field)!r} in the other; compare runs of the same tasks"
            )


def _pair(
    olds: Iterable[EpisodeRow],
    news: Iterable[EpisodeRow],
    place: Callable[[EpisodeRow], Hashable],
    sides: str,
) -> list[_Pair]:
    counterparts = {place(row): row for row in news}
    pairs = [_Pair(row, counterparts[place(row)]) for row in olds if place(row) in counterparts]
    if not pairs:
        raise ConfigError(f"{sides} have no task in the same place; compare runs of one suite, plan and seed")
    return pairs


def _compare(pairs: list[_Pair], episodes: int) -> tuple[Comparison, ...]:
    """A comparison for each metric that any pair has on both sides."""
    found = []
    for metric in METRICS:
        whole = [p for p in pairs if getattr(p.before, metric) is not None and getattr(p.after, metric) is not None]
        if whole:
            found.append(_compare_metric(metric, whole, episodes - 2 * len(whole)))
    return tuple(found)


def _compare_metric(metric: str, pairs: list[_Pair], unpaired: int) -> Comparison:
    outcomes = [(getattr(pair.before, metric), getattr(pair.after, metric)) for pair in pairs]
    both, lost, gained, neither = (
        outcomes.count(which) for which in ((True, True), (True, False), (False, True), (False, False))
    )
    lanes = [(pair.before.replicate, pair.before.world) for pair in pairs]
    interval = paired_difference(both, lost, gained, neither)
    if len(set(lanes)) >= MIN_CLUSTERS:
        over_lanes = _bootstrap([after - before for before, after in outcomes], lanes)
        # Where all lanes agree a bootstrap has no width, and the score interval knows of no lanes: take the
        # wider end of both.
        interval = Interval(min(interval.low, over_lanes.low), max(interval.high, over_lanes.high))
    return Comparison(
        metric=metric,
        before=Rate(both + lost, len(pairs)),
        after=Rate(both + gained, len(pairs)),
        gained=gained,
        lost=lost,
        interval=interval,
        p_value=mcnemar(lost, gained),
        lanes=len(set(lanes)),
        unpaired=unpaired,
    )


def _bootstrap(changes: Sequence[int], lanes: Sequence[Hashable], draws: int = 2000, seed: int = 0) -> Interval:
    """The interval of the mean change over pairs, resampling whole lanes."""
    places = {lane: c for c, lane in enumerate(dict.fromkeys(lanes))}
    lane_of_pair = [places[lane] for lane in lanes]
    sums_C = np.bincount(lane_of_pair, weights=changes)
    pairs_C = np.bincount(lane_of_pair)
    weights_B_C = cluster_weights(len(places), draws, seed)
    means_B = (weights_B_C @ sums_C) / (weights_B_C @ pairs_C)
    low, high = np.quantile(means_B, levels(len(places)))
    return Interval(float(low), float(high))


def _cells(pairs: list[_Pair]) -> tuple[Cell, ...]:
    """Weights x skills over the paired episodes; empty unless both runs hold exactly the arms off and on."""
    arms = {pair.before.arm for pair in pairs}
    if arms != {"off", "on"}:
        return ()
    scored = [pair for pair in pairs if pair.before.success is not None and pair.after.success is not None]
    cells = []
    skills_arms: tuple[Literal["off", "on"], ...] = ("off", "on")
    for side in (0, 1):
        weights = weights_name(pairs[0][side].model, pairs[0][side].adapter)
        for skills in skills_arms:
            outcomes = [pair[side].success for pair in scored if pair[side].arm == skills]
            cells.append(Cell(weights, skills, Rate(outcomes.count(True), len(outcomes))))
    return tuple(cells)
