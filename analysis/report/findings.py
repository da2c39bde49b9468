"""What the first screens of a report say, gathered from the rest of `analysis`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import pandas as pd

from hermes_lab.analysis.comparison.continual import Transfer, transfers
from hermes_lab.analysis.comparison.course import course
from hermes_lab.analysis.comparison.verdict import Verdict, verdict
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
    usual_order,
)
from hermes_lab.analysis.skill_effects.capture import Capture
from hermes_lab.analysis.skill_effects.funnel import Funnel, funnels, read_seen
from hermes_lab.analysis.skill_effects.uplift import Uplift, uplift_sentence, uplifts
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.analysis.summaries.cost import costs
from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.analysis.summaries.warnings import error_warnings
from hermes_lab.manifest import RunManifest

T = TypeVar("T")


@dataclass(frozen=True)
class FromSuite:
    """What only the suite knows, which the caller asks it. None is not measured."""

    captures: Sequence[Capture] | None = None
    leaks: Sequence[str] | None = None
    """A line for each leak of a held-out answer into a skill."""
    searched: str = ""
    """What was searched for leaks, or why nothing was."""


class Arm(NamedTuple):
    """A series of the report: its rates are over judged episodes of the phase `learn`, or of `heldout` where it has
    none; `last_check` is of the last check that all series of its run came to."""

    name: str
    success: Rate
    accepted: Rate
    reused: Rate
    errored: int
    last_check: Rate


@dataclass(frozen=True)
class Findings:
    """Everything that the page says above its list of episodes."""

    sides: Sides | None
    pairs: pd.DataFrame
    verdict: Verdict
    losses: list[Losses]
    """Of every part that was compared, the verdict's first."""
    arms: list[Arm]
    fits: Mapping[str, Fit]
    forms: Mapping[str, Forms]
    costs: pd.DataFrame
    compared: list[str]
    """The series on either side; all where nothing is compared."""
    course: pd.DataFrame
    funnels: list[Funnel]
    uplifts: list[Uplift] | None
    """None of every run but one that `hermes-lab skills uplift` made."""
    transfers: Mapping[str, Transfer]
    several: bool = False
    """Whether it is of more than one run."""
    from_suite: FromSuite = FromSuite()
    warnings: list[str] = field(default_factory=list)


def find(
    frame: pd.DataFrame, runs: Sequence[Path], manifests: Sequence[RunManifest], from_suite: FromSuite
) -> Findings:
    """What cannot be compared becomes a warning. Raises `ConfigError` for a run that cannot be read."""
    skills = uplifts(frame) if [manifest.command for manifest in manifests] == ["uplift"] else None
    said = verdict(*runs) if skills is None else Verdict("", uplift_sentence(skills))
    report = said.comparison
    sides = choose_sides(frame, report)
    pairs = pair_up(frame, sides)
    arms = list(_arms(frame))
    fits = _named(_per_run(frame, fit_series))
    warnings = [*_owed(frame, runs, manifests), *_absent(frame, manifests), *_scores(runs)]
    if len(runs) > 2:
        warnings.append(f"{len(runs)} runs: the verdict is of the first against the last")
    if from_suite.leaks:
        warnings.append(f"{len(from_suite.leaks)} skills tell a part of a held-out answer (see Leaks)")
    if fits and not any(fit.identified for fit in fits.values()):
        warnings.append("no learning curve is identified: no curve is drawn, and none should be quoted (see Curves)")
    return Findings(
        sides=sides,
        pairs=pairs,
        verdict=said,
        losses=[losses(pairs, part) for part in dict.fromkeys(c.part for c in report.comparisons)] if report else [],
        arms=arms,
        fits=fits,
        forms=_named(_per_run(frame, choose_series)),
        costs=_tables(_per_run(frame, costs)),
        compared=compared_series(frame, sides, report) if sides and report else [arm.name for arm in arms],
        course=_tables(_per_run(frame, course)),
        funnels=[funnel for run in runs for funnel in funnels(read_seen(run))] if len(runs) == 1 else [],
        uplifts=skills,
        transfers=_named(_per_run(frame, transfers)),
        several=len(runs) > 1,
        from_suite=from_suite,
        warnings=warnings,
    )


def _per_run(frame: pd.DataFrame, of: Callable[[pd.DataFrame], T]) -> dict[str, T]:
    """What `of` says of each run, by what the names of the run's series begin with."""
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
    """The round of the last check that every series of a run came to, for each of them; None where there is none."""
    checks = {str(name): set(rows.loc[rows["phase"] == "heldout", "round"]) for name, rows in run.groupby("series")}
    last = max(set.intersection(*checks.values()), default=None)
    yield from ((name, last) for name in checks)


def _arm(name: str, rows: pd.DataFrame, last_check: int | None) -> Arm:
    learn, heldout = rows[rows["phase"] == "learn"], rows[rows["phase"] == "heldout"]
    last = heldout[heldout["round"] == last_check]
    work = learn if len(learn) else heldout
    return Arm(
        name=name,
        success=_rate(work["success"]),
        accepted=_rate(work["accepted"]),
        reused=_rate(work.loc[work["status"] == "ok", "reused"]),
        errored=int((rows["status"] == "errored").sum()),
        last_check=_rate(last["success"]),
    )


def _rate(outcomes: pd.Series) -> Rate:
    return Rate(int(outcomes.sum()), int(outcomes.count()))


def _owed(frame: pd.DataFrame, runs: Sequence[Path], manifests: Sequence[RunManifest]) -> Iterator[str]:
    """What is missing, errored or unjudged, a line each."""
    for run, manifest in zip(runs, manifests, strict=True):
        rows = frame[frame["run"] == str(run)]
        finished = int((rows["status"] == "ok").sum())
        where = f"{run.name}: " if len(runs) > 1 else ""
        if len(rows) < manifest.wanted:
            yield (
                f"{where}the run is not finished: {finished:,} of {manifest.wanted:,} episodes; "
                "what stands here is of those"
            )
        if errored := Counter(rows.loc[rows["status"] == "errored", "error_kind"]):
            kinds = ", ".join(f"{kind} {count}" for kind, count in errored.most_common())
            messages = Counter(rows.loc[rows["status"] == "errored", "error_message"])
            often = min(messages, key=lambda message: (-messages[message], message))
            yield (
                f"{where}{errored.total():,} episodes errored and have no score ({kinds}); most often: {often[:300]}; "
                "--resume tries them again"
            )
        if unjudged := int((rows["status"].eq("ok") & rows["success"].isna()).sum()):
            yield f"{where}{unjudged:,} episodes were judged by nothing and have no score"


def _scores(runs: Sequence[Path]) -> Iterator[str]:
    """What makes a run's score meaningless, in the words of its summary."""
    for run in runs:
        content = summarize(run)
        told = set(error_warnings(content))  # by `_owed`
        where = f"{run.name}: " if len(runs) > 1 else ""
        yield from (f"{where}{warning}" for warning in content["warnings"] if warning not in told)


def _absent(frame: pd.DataFrame, manifests: Sequence[RunManifest]) -> Iterator[str]:
    """That an arm which was asked for is not there."""
    for manifest, (run, rows) in zip(manifests, per_run(frame), strict=True):
        asked = manifest.config.get("learning", {}).get("arms", ()) if manifest.command == "learn" else ()
        for arm in asked:
            if not rows["arm"].eq(arm).any():
                yield f"{run}arm {arm} has no episode yet"
