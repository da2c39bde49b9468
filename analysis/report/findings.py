"""The results shown in a report, gathered from the rest of `analysis`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from hermes_lab.analysis.comparison.continual import Transfer, transfers
from hermes_lab.analysis.comparison.course import course
from hermes_lab.analysis.comparison.sequential import stopped_early, whole_lanes
from hermes_lab.analysis.comparison.verdict import ComparisonResult, verdict
from hermes_lab.analysis.curves import CURVES
from hermes_lab.analysis.fitting.fit import fit_series
from hermes_lab.analysis.fitting.forms import Forms, choose_series
from hermes_lab.analysis.fitting.result import Fit
from hermes_lab.analysis.report.data import (
    Losses,
    Sides,
    choose_sides,
    compared_series,
    losses,
    pair_up,
    per_run,
    run_names,
    usual_order,
)
from hermes_lab.analysis.skill_effects.capture import Capture
from hermes_lab.analysis.skill_effects.funnel import Funnel, funnels, read_seen
from hermes_lab.analysis.skill_effects.uplift import Uplift, uplift_sentence, uplifts
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.analysis.stats.paired import rate_of
from hermes_lab.analysis.summaries.cost import costs
from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.analysis.summaries.warnings import error_warnings, repeated_warnings
from hermes_lab.manifest import RunManifest

T = TypeVar("T")


@dataclass(frozen=True)
class FromSuite:
    """Results that need the suite, provided by the caller. None is not measured."""

    captures: Sequence[Capture] | None = None
    leaks: Sequence[str] | None = None
    """One line per held-out answer leaked into a skill."""
    searched: str = ""
    """What was searched for leaks, or why there was no search."""


class Arm(NamedTuple):
    """A series of the report. Rates are over judged episodes of phase `learn`, or `heldout` if it has none;
    `last_check` is at the last check that all series of its run reached."""

    name: str
    success: Rate
    accepted: Rate
    reused: Rate
    errored: int
    last_check: Rate


@dataclass(frozen=True)
class Findings:
    """Everything the page shows above its list of episodes."""

    sides: Sides | None
    pairs: pd.DataFrame
    verdict: ComparisonResult
    losses: list[Losses]
    """Regressions by compared part, the verdict's first."""
    arms: list[Arm]
    fits: Mapping[str, Fit]
    forms: Mapping[str, Forms]
    costs: pd.DataFrame
    compared: list[str]
    """The compared series; all if nothing is compared."""
    course: pd.DataFrame
    funnels: list[Funnel]
    uplifts: list[Uplift] | None
    """None unless the run was made by `hermes-lab skills uplift`."""
    transfers: Mapping[str, Transfer]
    several: bool = False
    """Whether the report covers several runs."""
    from_suite: FromSuite = FromSuite()
    warnings: list[str] = field(default_factory=list)
    learns: bool = True
    """Whether a run is an experiment. Other runs have no curves, no course and no transfer."""
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The summaries of plain runs, by the prefix of their series' names."""


def find(
    frame: pd.DataFrame, runs: Sequence[Path], manifests: Sequence[RunManifest], from_suite: FromSuite
) -> Findings:
    """Gathers all findings; failed comparisons become warnings. Raises `ConfigError` for an unreadable run."""
    skills = uplifts(frame) if [manifest.command for manifest in manifests] == ["uplift"] else None
    said = verdict(*runs) if skills is None else ComparisonResult("", uplift_sentence(skills))
    comparison = said.comparison
    sides = choose_sides(frame, comparison)
    pairs = pair_up(frame, sides)
    arms = list(_arms(frame))
    learns = any(manifest.command == "learn" for manifest in manifests)
    curves = frame
    for run in runs:
        curves = whole_lanes(run, curves)
    fits = _named(_per_run(curves, fit_series)) if learns else {}
    summaries = {run: summarize(run) for run in runs}
    by_run = dict(zip(runs, manifests, strict=True))
    folders = {str(run): run for run in runs}
    warnings = [*_incomplete(frame, runs, manifests), *_absent(frame, by_run), *_scores(summaries, by_run, said)]
    if len(runs) > 2:
        warnings.append(f"{len(runs)} runs: the verdict compares the first with the last")
    if from_suite.leaks:
        warnings.append(f"{len(from_suite.leaks)} skills contain part of a held-out answer (see Leaks)")
    if fits and not any(fit.identified for fit in fits.values()):
        warnings.append("no learning curve is identified, so none is drawn or should be quoted (see Curves)")
    return Findings(
        sides=sides,
        pairs=pairs,
        verdict=said,
        losses=[losses(pairs, part) for part in dict.fromkeys(c.part for c in comparison.comparisons)]
        if comparison
        else [],
        arms=arms,
        fits=fits,
        forms=_named(_per_run(curves, _forms)) if learns else {},
        costs=_tables(_per_run(frame, costs)),
        compared=compared_series(frame, sides, comparison) if sides and comparison else [arm.name for arm in arms],
        course=_tables(_per_run(frame, course)),
        funnels=[funnel for run in runs for funnel in funnels(read_seen(run))] if len(runs) == 1 else [],
        uplifts=skills,
        transfers=_named(_per_run(frame, transfers)) if learns else {},
        several=len(runs) > 1,
        from_suite=from_suite,
        warnings=warnings,
        learns=learns,
        evaluations={
            name: summary
            for name, rows in per_run(frame)
            if (summary := summaries[folders[rows["run"].iloc[0]]])["evaluation"]
        },
    )


def _forms(frame: pd.DataFrame) -> dict[str, Forms]:
    """The forms among the lab's own curves: a report does not depend on which packages are installed."""
    return choose_series(frame, curves=CURVES)


def _per_run(frame: pd.DataFrame, of: Callable[[pd.DataFrame], T]) -> dict[str, T]:
    """Applies `of` to each run, keyed by the prefix of its series' names."""
    return {name: of(rows) for name, rows in per_run(frame)}


def _named(found: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    named = {run + name: each for run, of_run in found.items() for name, each in of_run.items()}
    return {name: named[name] for name in sorted(named, key=usual_order)}


def _tables(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    whole = pd.concat([table.assign(series=run + table["series"].astype(str)) for run, table in found.items()])
    return whole.sort_values("series", key=lambda names: names.map(usual_order), kind="stable")


def _arms(frame: pd.DataFrame) -> Iterator[Arm]:
    last_check = {name: check for _, rows in per_run(frame) for name, check in _last_checks(rows)}
    for name in sorted(set(frame["series"]), key=usual_order):
        yield _arm(name, frame[frame["series"] == name], last_check[name])


def _last_checks(run: pd.DataFrame) -> Iterator[tuple[str, int | None]]:
    """For each series, the round of the last check that all series of the run reached, or None."""
    checks = {str(name): set(rows.loc[rows["phase"] == "heldout", "round"]) for name, rows in run.groupby("series")}
    last = max(set.intersection(*checks.values()), default=None)
    yield from ((name, last) for name in checks)


def _arm(name: str, rows: pd.DataFrame, last_check: int | None) -> Arm:
    learn, heldout = rows[rows["phase"] == "learn"], rows[rows["phase"] == "heldout"]
    last = heldout[heldout["round"] == last_check]
    work = learn if len(learn) else heldout
    return Arm(
        name=name,
        success=rate_of(work),
        accepted=rate_of(work, "accepted"),
        reused=rate_of(work[work["status"] == "ok"], "reused"),
        errored=int((rows["status"] == "errored").sum()),
        last_check=rate_of(last),
    )


def _incomplete(frame: pd.DataFrame, runs: Sequence[Path], manifests: Sequence[RunManifest]) -> Iterator[str]:
    """Missing, errored and unjudged episodes, a line each."""
    for run, manifest in zip(runs, manifests, strict=True):
        rows = frame[frame["run"] == str(run)]
        finished = int((rows["status"] == "ok").sum())
        where = f"{run.name}: " if len(runs) > 1 else ""
        if len(rows) < manifest.wanted and not stopped_early(run):
            yield (f"{where}the run is not finished: results are based on {finished:,} of {manifest.wanted:,} episodes")
        if errored := Counter(rows.loc[rows["status"] == "errored", "error_kind"]):
            kinds = ", ".join(f"{kind} {count}" for kind, count in errored.most_common())
            messages = Counter(rows.loc[rows["status"] == "errored", "error_message"])
            often = min(messages, key=lambda message: (-messages[message], message))
            yield (
                f"{where}{errored.total():,} episodes errored and have no score ({kinds}); often: {often[:300]}; "
                "retry with --resume"
            )
        if unjudged := int((rows["status"].eq("ok") & rows["success"].isna()).sum()):
            yield f"{where}{unjudged:,} episodes were not judged and have no score"


def _scores(
    summaries: Mapping[Path, Mapping[str, Any]], manifests: Mapping[Path, RunManifest], said: ComparisonResult
) -> Iterator[str]:
    """Warnings about problems that invalidate scores, from the run's summary; not what the verdict says."""
    for run, content in summaries.items():
        shown = {*error_warnings(content), *repeated_warnings(content, manifests[run].config, said.sentence)}
        where = f"{run.name}: " if len(summaries) > 1 else ""
        yield from (f"{where}{warning}" for warning in content["warnings"] if warning not in shown)


def _absent(frame: pd.DataFrame, manifests: Mapping[Path, RunManifest]) -> Iterator[str]:
    """Configured arms without episodes."""
    names = run_names(list(map(str, manifests)))
    for run, manifest in manifests.items():
        rows = frame[frame["run"] == str(run)]
        where = f"{names[str(run)]}, " if len(names) > 1 else ""
        asked = manifest.config.get("learning", {}).get("arms", ()) if manifest.command == "learn" else ()
        for arm in asked:
            if not rows["arm"].eq(arm).any():
                yield f"{where}arm {arm} has no episodes yet"
