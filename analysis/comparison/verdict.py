"""The verdict: which question the data can answer, and the answer in one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from hermes_lab.analysis.comparison.compare import (
    compare_arms,
    compare_frames,
    compare_runs,
    compare_to_first,
    looked_at,
)
from hermes_lab.analysis.comparison.oracle_gap import gap_closed
from hermes_lab.analysis.comparison.pairs import ARM_PLACE, COLUMNS, METRICS, WEIGHTS_PLACE
from hermes_lab.analysis.comparison.registered import progress_in, registered
from hermes_lab.analysis.comparison.result import Comparison, MetricComparison
from hermes_lab.analysis.comparison.wording import p_text, points, shown, tested
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.series import weights_names
from hermes_lab.analysis.skill_effects.treatment import sentences
from hermes_lab.analysis.stats.intervals import Interval
from hermes_lab.analysis.stats.power import ALPHA, CORRELATION, detectable
from hermes_lab.analysis.stats.rates import MIN_UNITS
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.registration import read_plan

POWER = 0.8
"""The power at which an effect counts as detectable."""


@dataclass(frozen=True)
class ComparisonResult:
    """The answer in a sentence, with its numbers; None if nothing could be compared.

    `question` is `skills`, `weights`, `skills and weights`, `arms`, `runs` or "". `causes` attributes the difference;
    `detail` has supporting results and notes on missing data, a line each. `others` are the results of further arms
    against the same first one. `warnings` are those of the compared runs that the text does not state already, where
    `lab.compare` made the result.
    """

    question: str
    sentence: str
    difference: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    shown: bool = False
    causes: tuple[str, ...] = ()
    detail: tuple[str, ...] = ()
    comparison: Comparison | None = None
    others: "tuple[ComparisonResult, ...]" = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The sentence, the comparison's lines and the causes, as `hermes-lab compare` prints them; then the others and
        the warnings."""
        lines = self.comparison.lines() if self.comparison else []
        warnings = (f"warning: {warning}" for warning in self.warnings)
        causes = (f"  {cause}" for cause in self.causes)
        return "\n".join([self.sentence, *lines, *causes, *map(str, self.others), *warnings])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """For JSON, without `comparison`, `others` and `warnings`."""
        names = ("question", "sentence", "difference", "interval", "p_value", "shown", "causes", "detail")
        return {name: getattr(self, name) for name in names}


def compare(before: Path, after: Path | None = None, *, arms: Sequence[str] = ()) -> ComparisonResult:
    """Compares two runs, or the arms of one run, each with the first.

    In two runs `arms` names the arm to compare; without it all are compared together. Without `arms`, one run is
    compared as in `verdict`. Raises `ConfigError` for other `arms`, and if there is nothing to compare.
    """
    if arms:
        if wanted := wanted_arms(arms, of_two_runs=after is not None):
            example = ["on"] if after else ["placebo", "on"]
            raise ConfigError(f"arms: give a list with {wanted}, such as {example}, not {arms!r}")
        if after:
            return result_of(compare_runs(before, after, arms[0]), "runs")
        first, *others = (result_of(each, "arms") for each in compare_to_first(before, arms))
        return replace(first, others=tuple(others))
    found = verdict(before, after) if after else verdict(before)
    if found.comparison is None:
        raise ConfigError(found.sentence)
    return found


def wanted_arms(arms: Sequence[str], *, of_two_runs: bool) -> str:
    """What to give instead of these arms, such as "one arm of two runs"; "" if they can be compared."""
    several = not isinstance(arms, str) and all(arms) and len(set(arms)) == len(arms)
    if several and (len(arms) == 1 if of_two_runs else len(arms) >= 2):
        return ""
    return "one arm of two runs" if of_two_runs else "at least two different arms of one run"


def verdict(*runs: Path) -> ComparisonResult:
    """Did it get better, and why: one run's arms or weights, or the first of several runs against the last.

    If the data cannot answer, the sentence says `not measured` and why. Raises `ConfigError` if a folder is no run, or
    its plan was changed.
    """
    for run in runs:
        read_plan(run)  # an error in a plan is not a finding
    frames = [load_episodes(run, columns=COLUMNS) for run in runs]
    for run, frame in zip(runs, frames, strict=True):
        if frame.empty:
            return _not_measured(f"{run} has no episodes yet")
    try:
        if len(runs) > 1:
            comparison = compare_runs(runs[0], runs[-1])
            return result_of(comparison, _changed(frames[0], frames[-1], comparison))
        return _of_one(runs[0], frames[0])
    except ConfigError as error:
        return _not_measured(str(error))


def result_of(comparison: Comparison, question: str) -> ComparisonResult:
    """The headline of a comparison."""
    if comparison.unmeasured:
        return _unmeasured(comparison, question)
    headline = comparison.headline
    others = [c for c in comparison.comparisons if c.metric == headline.metric and c is not headline]
    limits = "".join(f"; {caveat}" for caveat in comparison.caveats())
    detail = [headline.reach(), *(f"{other.part}: {other.sentence()}" for other in others)]
    detail += [change.sentence() for change in comparison.changes]
    if comparison.slope:
        detail.append(comparison.slope.sentence(comparison.before, comparison.after))
    detail += sentences(comparison.treatments)
    if both := comparison.decomposition:
        limit = f"; applies to {both.limit}" if both.limit else ""
        return ComparisonResult(
            question="skills and weights",
            sentence=f"{both.sentence()}; {p_text(both.both.p_value)}, over {both.counted}{limit}{limits}",
            difference=both.both.difference,
            interval=both.both.interval,
            p_value=both.both.p_value,
            shown=both.both.shown,
            detail=(*both.lines(), *detail, *comparison.notes),
            comparison=comparison,
        )
    return ComparisonResult(
        question=question,
        sentence=_sentence(headline, _subject(comparison, question)) + limits,
        difference=headline.difference,
        interval=headline.interval,
        p_value=headline.p_value,
        shown=headline.shown,
        detail=(*detail, *comparison.notes),
        comparison=comparison,
    )


def _unmeasured(comparison: Comparison, question: str) -> ComparisonResult:
    """The verdict where the treatment did not happen. The effect of weights in a 2 x 2 stays measured."""
    both = comparison.decomposition
    weights = f"; the weights alone: {both.weights}" if both else ""
    return ComparisonResult(
        question=question,
        sentence=f"not measured: {comparison.unmeasured}{weights}",
        detail=(*sentences(comparison.treatments), *comparison.notes),
        comparison=comparison,
    )


def _of_one(run: Path, frame: pd.DataFrame) -> ComparisonResult:
    arms, missing = _arms_in_order(run, frame)
    found = _by_arms(run, frame, arms)
    if not missing:
        return found
    return replace(found, sentence=f"{found.sentence}; planned arms without episodes yet: {', '.join(missing)}")


def _by_arms(run: Path, frame: pd.DataFrame, arms: list[str]) -> ComparisonResult:
    if {"off", "on"} <= set(arms):
        return with_causes(result_of(compare_arms(run, "off", "on"), "skills"), frame)
    if len(arms) > 1:
        return result_of(compare_arms(run, arms[0], arms[1]), "arms")
    if frame["weights"].nunique() > 1:
        first, last = (frame[frame["weights"] == which] for which in (frame["weights"].min(), frame["weights"].max()))
        columns = ["model", "adapter", "adapter_digest"]
        names = weights_names(next(side[columns].itertuples(index=False, name=None)) for side in (first, last))
        comparison = compare_frames(first, last, WEIGHTS_PLACE, (names[0], names[1]), str(run))
        whole = (run / "run.json").is_file()
        plan = registered(run, names[0], names[1], progress_in(run, frame), weights=True) if whole else None
        return result_of(replace(comparison, registered=plan), "weights")
    return _not_measured(f"{run} has one arm, {arms[0]}, and one set of weights; run a second arm or give a second run")


def with_causes(found: ComparisonResult, frame: pd.DataFrame) -> ComparisonResult:
    """Adds the placebo comparison and the oracle gap. The placebo is tested only after a significant effect of skills:
    in a fixed-sequence procedure no p-value needs correction for the tests before it. Where the effect of skills is
    that of a look, they are over the same units, and say that their p and interval are for one look at the end."""
    arms = set(frame["arm"])
    both = found.comparison.decomposition if found.comparison else None
    causes: list[str] = []
    if found.comparison and found.comparison.unmeasured:
        return found
    plan = found.comparison.registered if found.comparison else None
    early = ""
    if plan and (plan.looks or (plan.plan and plan.under_way)):
        frame, early = looked_at(frame, plan) if plan.look else frame, "; does not account for early looks"
    if (both.skills_shown if both else found.shown) and "placebo" in arms:
        placebo, on = (frame[frame["arm"] == arm] for arm in ("placebo", "on"))
        against = compare_frames(placebo, on, ARM_PLACE, ("placebo", "on"))
        causes.append(f"against a placebo of the same length: {_against_placebo(against)}{early}")
    if "oracle" in arms and (gap := gap_closed(frame)):
        off, oracle = (frame[frame["arm"] == arm] for arm in ("off", "oracle"))
        missing = compare_frames(off, oracle, ARM_PLACE, ("off", "oracle")).untreated
        measured = f"{gap.sentence()}{early}"
        causes.append(f"share of the gap to the oracle: not measured: {missing}" if missing else measured)
    return replace(found, causes=tuple(causes))


def _against_placebo(comparison: Comparison) -> str:
    if comparison.unmeasured:
        return f"not measured: {comparison.unmeasured}"
    content = comparison.headline
    return content.sentence() + ("" if content.shown else "; an effect of the skills' content is not shown")


def _arms_in_order(run: Path, frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The arms with episodes, in configuration order, and the configured arms without any."""
    held = set(frame["arm"])
    manifest = read_manifest(run) if (run / "run.json").is_file() else None
    learns = manifest is not None and manifest.command == "learn"
    asked = manifest.config.get("learning", {}).get("arms", ()) if manifest and learns else ()
    there = [arm for arm in asked if arm in held] + sorted(held - set(asked))
    return there, [arm for arm in asked if arm not in held]


def _changed(before: pd.DataFrame, after: pd.DataFrame, comparison: Comparison) -> str:
    """Whether two runs differ in weights alone, judging by their episodes and their configurations."""
    identity = ["model", "adapter", "adapter_digest"]
    same = set(before[identity].itertuples(index=False)) == set(after[identity].itertuples(index=False))
    others = {difference.field for difference in comparison.differences} - _WEIGHTS - _EXTENT
    return "runs" if same or others else "weights"


_WEIGHTS = frozenset({"model.adapter", "model.merge", "learning.adapters"})
"""The fields that choose the weights of a model."""
_EXTENT = frozenset({"suite.count", "run.samples", "learning.arms", "learning.replicates", "learning.worlds"})
"""Fields that say how much was run, which changes no pair."""


def _subject(comparison: Comparison, question: str) -> str:
    """What the verdict is about; for two runs with what differs between them."""
    if question in _SUBJECTS:
        return _SUBJECTS[question]
    sides = f"{comparison.after} vs {comparison.before}"
    fields = [difference for difference in comparison.differences if difference.field not in _EXTENT]
    if not fields:
        return sides
    told = "; ".join(map(str, fields)) if len(fields) <= _FIELDS else f"{len(fields)} settings differ, see below"
    return f"{sides} ({told})"


_SUBJECTS = {"skills": "Skills", "weights": "The new weights"}
_FIELDS = 3
"""Differing settings to name in the verdict."""


def _sentence(found: MetricComparison, subject: str) -> str:
    metric = "" if found.metric == "success" else f"{METRICS[found.metric]}: "
    part = f" {found.part}" if found.part else ""
    rates = f"{100 * found.before.value:.0f} % -> {100 * found.after.value:.0f} %"
    p_value = tested(found.p_value, found.p_adjusted, f"{found.family} arms") + found.at_any_look()
    change = f"{points(found.difference, found.interval)}{part}, {rates}, {p_value}, over {found.counted}"
    if found.shown:
        said = f"better by {change}" if found.difference > 0 else f"worse: {change}"
    else:
        power = "" if found.looked else f"; {_detectable(found)}"
        said = f"{shown(found.p_value, found.p_adjusted)}{change}{power}"
    limit = f"; applies to {found.limit}" if found.limit else ""
    return f"{subject}: {metric}{said}{limit}{'; success was not measured' if metric else ''}"


def _detectable(found: MetricComparison) -> str:
    """The minimum detectable effect with these pairs and correlations, at the level left for each arm if several are
    compared with the first: of a rise, or of a fall if the first rate leaves no room for a rise."""
    if (rise := _least(found, 1)) is not None:
        return f"minimum detectable effect {points(rise)} (power {POWER})"
    if (fall := _least(found, -1)) is not None:
        rate = f"{100 * found.before.value:.0f} %"
        return f"no rise from {rate} is detectable, a fall of {points(-fall).removeprefix('+')} is (power {POWER})"
    return f"underpowered: no effect size has power {POWER}"


def _least(found: MetricComparison, direction: int) -> float | None:
    """The effect that every clustering detects; None if there is none."""
    alike = CORRELATION if found.pair_correlation is None else found.pair_correlation
    asked, level = (found.before.trials, found.before.value, POWER, alike), ALPHA / found.family
    effects = [
        None
        if lanes is not None and lanes.number < MIN_UNITS
        else detectable(*asked, lanes=lanes, alpha=level, direction=direction)
        for lanes in found.clusters
    ]
    known = [effect for effect in effects if effect is not None]
    return max(known, key=abs) if len(known) == len(effects) else None


def _not_measured(why: str) -> ComparisonResult:
    return ComparisonResult("", f"not measured: {why}")
