"""Paired comparisons of two runs or two arms: the same task at the same position under both."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from hermes_lab.analysis.comparison.decomposition import TwoByTwo, by_weights, decompose
from hermes_lab.analysis.comparison.pairs import (
    ARM_PLACE,
    CHECK_PLACE,
    COLUMNS,
    METRICS,
    RUN_PLACE,
    first_and_last_check,
    moment,
    outcomes,
    pair,
    parts,
    side,
)
from hermes_lab.analysis.comparison.registered import Registered, progress_in, registered
from hermes_lab.analysis.comparison.result import Cell, Change, Comparison, Difference, Flips, MetricComparison
from hermes_lab.analysis.comparison.sequential import stopped_early
from hermes_lab.analysis.comparison.slope import learning_slope
from hermes_lab.analysis.comparison.tasks import coverage, refuse_other_tasks
from hermes_lab.analysis.curves import Array
from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.runs import refuse_copies
from hermes_lab.analysis.data.series import weights_names
from hermes_lab.analysis.skill_effects.treatment import Config, not_measured, treatments_of
from hermes_lab.analysis.stats.aggregate import Aggregate, aggregate_arm
from hermes_lab.analysis.stats.multiple import holm
from hermes_lab.analysis.stats.paired import LEVEL, PLACES, Codes, intraclass_correlation, mcnemar, rate_of
from hermes_lab.analysis.stats.power import Lanes
from hermes_lab.errors import ConfigError
from hermes_lab.lane import MAIN, lane_key
from hermes_lab.manifest import OWN_LOOP, config_differences, read_manifest
from hermes_lab.registration import read_plan
from hermes_lab.text.counted import counted


def compare_runs(before: Path, after: Path, arm: str = "") -> Comparison:
    """Pairs two runs by episode key, for all arms together or for one.

    Raises `ConfigError` if their tasks differ, one lacks the arm, or both are the same run or a copy of it.
    """
    refuse_copies((before, after))
    refuse_other_tasks(before, after)
    wholes = [load_episodes(run, columns=COLUMNS) for run in (before, after)]
    olds, news = (_of_arm(whole, arm, run) for whole, run in zip(wholes, (before, after), strict=True))
    of = f", {arm}" if arm else ""
    comparison = compare_frames(olds, news, RUN_PLACE, (f"{before}{of}", f"{after}{of}"))
    a, b = read_manifest(before), read_manifest(after)
    fields = [("prompts", a.prompts, b.prompts)] if a.prompts != b.prompts else []
    fields += config_differences(a, b)
    notes = (
        *comparison.notes,
        *coverage(olds, news, (str(before), str(after))),
        *_notes(before, wholes[0], [arm] * bool(arm)),
        *_notes(after, wholes[1], [arm] * bool(arm)),
    )
    arms = [each for each in dict.fromkeys(olds["arm"]) if each in set(news["arm"])]
    several = len(arms) > 1 and not comparison.decomposition
    plain = arms == [MAIN] and comparison.headline.metric == "success"
    early = [_early(run, whole) for run, whole in zip((before, after), wholes, strict=True)]
    return replace(
        comparison,
        early=tuple(filter(None, early)),
        differences=tuple(Difference(*each) for each in fields),
        notes=notes,
        agents=tuple(_agents(before, after)),
        pooled=f"the arms {', '.join(arms)} are pooled (--arms compares one)" if several else "",
        flips=_flips(pair(olds, news, RUN_PLACE)) if plain else None,
    )


def _flips(pairs: pd.DataFrame) -> Flips:
    """The tasks of plain runs of which more, or fewer, samples were solved."""
    whole = pairs[pairs["success_before"].notna() & pairs["success_after"].notna()]
    change = whole["success_after"].astype(int) - whole["success_before"].astype(int)
    by_task = change.groupby(whole["task_id"]).sum()
    return Flips(tuple(by_task.index[by_task > 0]), tuple(by_task.index[by_task < 0]))


def compare_arms(run: Path, before: str, after: str) -> Comparison:
    """Pairs two arms of a run by task, replicate, world, weights, round and sample.

    Raises `ConfigError` if an arm is missing.
    """
    return compare_to_first(run, [before, after])[0]


def compare_to_first(run: Path, arms: Sequence[str]) -> list[Comparison]:
    """Each further arm of a run against the first; the headline p-values are Holm-adjusted as one family.

    Raises `ConfigError` if an arm is missing.
    """
    frame = load_episodes(run, columns=COLUMNS)
    if frame.empty:
        raise ConfigError(f"{run} has no episodes yet, so there is nothing to compare")
    first, *others = (_of_arm(frame, arm, run) for arm in arms)
    notes = _notes(run, frame, arms)
    config = read_manifest(run).config if (run / "run.json").is_file() else {}
    progress = progress_in(run, frame) if (run / "run.json").is_file() else None
    comparisons = []
    for arm, other in zip(arms[1:], others, strict=True):
        plan = registered(run, arms[0], arm, progress) if progress else None
        sides = [looked_at(side, plan) if plan and plan.look else side for side in (first, other)]
        comparison = compare_frames(sides[0], sides[1], ARM_PLACE, (arms[0], arm), str(run), config)
        comparisons.append(
            replace(comparison, notes=(*comparison.notes, *notes), registered=plan, agents=tuple(_agents(run)))
        )
    return [_with_look(comparison) for comparison in adjust(comparisons)]


def looked_at(frame: pd.DataFrame, plan: Registered) -> pd.DataFrame:
    """The episodes of the units that a look is over."""
    monitor = plan.progress.monitor
    if monitor is None:
        return frame
    # A plan counts the lanes of its run, whichever world of the suite is the first.
    units = {
        lane: monitor.primary.unit(place.replicate, place.world)
        for lane in frame["lane"].unique()
        if (place := lane_key(lane))
    }
    return frame[frame["lane"].map(units) < monitor.units]


def _early(run: Path, whole: pd.DataFrame) -> str:
    """That p and interval of two runs do not account for early looks at this one; "" if there were none."""
    if not (run / "run.json").is_file() or (plan := read_plan(run)) is None:
        return ""
    status = Registered(plan, progress_in(run, whole)).status
    return status and f"{run}: {status}"


def _with_look(comparison: Comparison) -> Comparison:
    """The comparison with the p and the interval of the look as those of its headline."""
    plan = comparison.registered
    if plan is None or (look := plan.look) is None or comparison.headline.metric != "success":
        return comparison
    found, p_value = comparison.headline, look.p_value
    valid = replace(found, interval=look.interval, p_value=p_value, p_adjusted=p_value, family=1, looked=plan.units)
    return replace(comparison, comparisons=tuple(valid if each is found else each for each in comparison.comparisons))


def _of_arm(frame: pd.DataFrame, arm: str, run: Path) -> pd.DataFrame:
    """The episodes of an arm, or all if `arm` is ""."""
    if not arm:
        return frame
    found = frame[frame["arm"] == arm]
    if found.empty:
        held = ", ".join(sorted(frame["arm"].unique()))
        raise ConfigError(f"{run} has no arm {arm!r}; it has {held}; or give a second run to compare with")
    return found


def compare_frames(
    before: pd.DataFrame,
    after: pd.DataFrame,
    place: list[str],
    names: tuple[str, str],
    where: str = "",
    config: Config = MappingProxyType({}),
) -> Comparison:
    """Compares two frames of `load_episodes`, paired by the columns `place`. Raises `ConfigError` if nothing pairs.

    `where` and `config` are the run and its configuration, to explain what is missing.
    """
    olds, news = _common_checks(before, after), _common_checks(after, before)
    when = moment(pd.concat([olds, news]))
    news_of = dict(parts(news, when))
    found: list[MetricComparison] = []
    for part, rows in parts(olds, when):
        others = news_of.get(part, news.iloc[:0])
        found += _compare(pair(rows, others, place), len(rows) + len(others), part)
    if not found:
        raise ConfigError(_nothing(pair(before, after, place), names, where))
    skills = names if place is ARM_PLACE else ("off", "on")
    decomposition = _decomposition(pd.concat([before, after], ignore_index=True), skills, config)
    one_arm = before["arm"].nunique() == after["arm"].nunique() == 1
    comparison = Comparison(
        *names,
        comparisons=tuple(found),
        cells=_cells(before, after, place, names if place is RUN_PLACE else ("", "")),
        changes=_changes(before, after, names),
        slope=learning_slope(before, after) if one_arm else None,
        aggregates=_aggregates(olds, news, names) if one_arm and found[0].over != "tasks" else (),
        decomposition=decomposition,
        notes=tuple(_without_calls((olds, news), names)),
    )
    if place is ARM_PLACE:
        comparison = _with_treatments(comparison, pd.concat([before, after]), (olds, news), config)
    elif place is RUN_PLACE:
        comparison = replace(comparison, absences=tuple(_absences(comparison, (before, after), (olds, news))))
    return adjust([comparison])[0]


def _without_calls(sides: tuple[pd.DataFrame, pd.DataFrame], names: tuple[str, str]) -> Iterator[str]:
    """The side for which parsed first calls are missing in the comparison, if the other side has them."""
    called = [bool(rows["first_call_ok"].notna().any()) for rows in sides]
    if any(called) and not all(called):
        name = names[called.index(False)]
        yield f"parsed first calls are not compared: no first reply of {name} is known to ask for a tool"


def _with_treatments(
    comparison: Comparison, whole: pd.DataFrame, reached: tuple[pd.DataFrame, pd.DataFrame], config: Config
) -> Comparison:
    """Adds what each arm was given in the part of the headline, and whether that is enough for a comparison."""
    when = moment(pd.concat(reached))
    compared = [dict(parts(side, when)).get(comparison.headline.part, side.iloc[:0]) for side in reached]
    found = {each.arm: each for each in treatments_of(whole, pd.concat(compared))}
    before, after = found.get(comparison.before), found.get(comparison.after)
    return replace(comparison, treatments=tuple(found.values()), untreated=not_measured(before, after, config))


def _absences(
    comparison: Comparison, sides: tuple[pd.DataFrame, pd.DataFrame], reached: tuple[pd.DataFrame, pd.DataFrame]
) -> Iterator[str]:
    """Compared arms of either run whose treatment did not happen in the part of the headline."""
    when = moment(pd.concat(reached))
    both = comparison.decomposition
    if both and any(both.absent):  # the verdict says it
        return
    arms = set(both.skills_names) if both else set(sides[0]["arm"]) & set(sides[1]["arm"])
    for name, side_, of_side in zip((comparison.before, comparison.after), sides, reached, strict=True):
        compared = dict(parts(of_side, when)).get(comparison.headline.part, of_side.iloc[:0])
        for treatment in treatments_of(side_[side_["arm"].isin(arms)], compared):
            if absent := treatment.absence({}) or treatment.unread():
                yield f"in {name.removesuffix(f', {treatment.arm}')} {absent}"


def adjust(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with p-values Holm-adjusted in three families: the headlines; each side's change from its first
    to its last held-out check; and all other metrics and parts."""
    headlines = [comparison.headline for comparison in comparisons]
    gains = {change.side: change.comparison for comparison in comparisons for change in comparison.changes}
    others = [c for comparison in comparisons for c in comparison.comparisons if c is not comparison.headline]
    adjusted: dict[int, MetricComparison] = {}
    for family in (headlines, list(gains.values()), others):
        for each, p_value in zip(family, holm([c.p_value for c in family]), strict=True):
            adjusted[id(each)] = replace(each, p_adjusted=p_value, family=len(family))
    return [
        replace(
            comparison,
            comparisons=tuple(adjusted[id(c)] for c in comparison.comparisons),
            changes=tuple(replace(c, comparison=adjusted[id(gains[c.side])]) for c in comparison.changes),
        )
        for comparison in comparisons
    ]


def _nothing(pairs: pd.DataFrame, names: tuple[str, str], where: str) -> str:
    """Why no metric could be compared."""
    sides = f"arms {names[0]} and {names[1]} of {where}" if where else f"{names[0]} and {names[1]}"
    if pairs.empty:
        return f"{sides} share no task at the same position; compare runs with the same suite, plan and seed"
    errored = int(((pairs["status_before"] == "errored") | (pairs["status_after"] == "errored")).sum())
    return f"{sides}: none of {len(pairs)} pairs was judged on both sides ({errored} errored)"


def _agents(*runs: Path) -> Iterator[str]:
    """What worked in each run, if it was another program than the lab's own loop in any."""
    manifests = [read_manifest(run) for run in runs if (run / "run.json").is_file()]
    if any(manifest.agent for manifest in manifests):
        for run, manifest in zip(runs, manifests, strict=True):
            model = manifest.config.get("model", {}).get("name", "")
            yield f"agent of {run}: {manifest.agent or OWN_LOOP}, {model}"


def _notes(run: Path, whole: pd.DataFrame, arms: Collection[str]) -> tuple[str, ...]:
    """Notes on missing and errored episodes of some arms, or of all."""
    notes = []
    frame = whole[whole["arm"].isin(arms)] if arms else whole
    manifest = read_manifest(run) if (run / "run.json").is_file() else None
    if (run / "run.json").is_file() and (decision := stopped_early(run)):
        notes.append(f"{run} ended early: {decision}")
    elif manifest and len(whole) < manifest.wanted and len(frame) < (wanted := manifest.wanted_of(arms)):
        notes.append(f"{run} is not finished: results are based on {len(frame)} of {wanted} episodes")
    errors = Counter(frame.loc[frame["status"] == "errored", "error_kind"])
    if errors:
        kinds = ", ".join(f"{kind} {count}" for kind, count in errors.most_common())
        notes.append(f"{run}: {errors.total()} errored episodes excluded ({kinds})")
    return tuple(notes)


def _common_checks(frame: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Drops held-out checks that only this side has reached, so both are measured at the same one."""
    theirs = other.loc[other["phase"] == "heldout", "round"].unique()
    return frame[(frame["phase"] != "heldout") | frame["round"].isin(theirs)]


def _compare(pairs: pd.DataFrame, episodes: int, part: str) -> Iterator[MetricComparison]:
    """One comparison for each metric with at least one complete pair."""
    for metric in METRICS:
        found = outcomes(pairs, metric)
        if found is None:
            continue
        before_P, after_P, together = found
        count = len(before_P)
        plain = together.over == "tasks" and set(side(pairs, "lane", "before")) == {MAIN}
        lost, gained = int((before_P & ~after_P).sum()), int((~before_P & after_P).sum())
        change_P = found.change_P.astype(np.float64)
        p_value = together.p_value(found.change_P)
        yield MetricComparison(
            metric=metric,
            before=together.rate(before_P),
            after=together.rate(after_P),
            gained=gained,
            lost=lost,
            interval=together.interval(found.change_P),
            p_value=p_value,
            mcnemar=mcnemar(lost, gained),
            p_adjusted=p_value,
            family=1,
            over=together.over,
            worlds=together.worlds,
            lanes=together.lanes,
            tasks=together.tasks,
            counted=_tasks(count, together.tasks) if plain else together.of(count, "pair" if count == 1 else "pairs"),
            limit="" if plain else together.limit(),
            clusters=tuple(_cluster(change_P, unit_P) for unit_P in together.clusterings),
            standard_error=None if math.isnan(error := together.error(change_P)) else error,
            unpaired=episodes - 2 * count,
            pair_correlation=found.correlation,
            lane_correlation=intraclass_correlation(change_P, together.lane_P),
            part=part,
        )


def _tasks(pairs: int, tasks: int) -> str:
    """What a comparison of plain runs is over. No library is shared, so only samples of a task depend on each other."""
    whole = counted(tasks, "task")
    return whole if pairs == tasks else f"{pairs} pairs of {whole}"


def _cluster(change_P: Array, unit_P: Codes) -> Lanes | None:
    """The clustering of the pairs, as input to `hermes_lab.analysis.stats.power`."""
    number = int(unit_P.max()) + 1
    return None if number == len(unit_P) else Lanes(number, intraclass_correlation(change_P, unit_P))


def _changes(before: pd.DataFrame, after: pd.DataFrame, names: tuple[str, str]) -> tuple[Change, ...]:
    """Each side's first held-out check against its last one, in the arm that both sides have; none if they have several
    in common, whose mean is no arm's change."""
    arms = [frozenset(before["arm"]), frozenset(after["arm"])]
    if max(map(len, arms)) > 1:
        if len(common := arms[0] & arms[1]) != 1:
            return ()
        before, after = (frame[frame["arm"].isin(common)] for frame in (before, after))
    changes = []
    for name, frame in zip(names, (before, after), strict=True):
        if checks := first_and_last_check(frame):
            pairs = pair(*checks, CHECK_PLACE)
            found = _compare(pairs, len(checks[0]) + len(checks[1]), "")
            changes += [Change(name, moment(frame), each) for each in found if each.metric == "success"]
    return tuple(changes)


def _aggregates(before: pd.DataFrame, after: pd.DataFrame, names: tuple[str, str]) -> tuple[Aggregate, ...]:
    sides = (aggregate_arm(name, frame) for name, frame in zip(names, (before, after), strict=True))
    return tuple(found for found in sides if found)


def _decomposition(frame: pd.DataFrame, skills: tuple[str, str], config: Config) -> TwoByTwo | None:
    """Weights x skills; None unless both vary."""
    try:
        found = decompose(frame, skills=skills)
    except ConfigError:
        return None
    rows = frame[frame["arm"].isin(skills)]
    _, inside = next(parts(frame))
    effects = (found.skills_before, found.skills_after)
    old, new = (
        _without_skills(side_, inside.loc[inside.index.intersection(side_.index)], effect.p_value < LEVEL, config)
        for side_, effect in zip(by_weights(rows), effects, strict=True)
    )
    return found.without((old, new))


def _without_skills(rows: pd.DataFrame, compared: pd.DataFrame, differs: bool, config: Config) -> str:
    """Why one set of weights measures no effect of skills; "" if it does. As for arms, skills that were listed and
    never loaded measure none unless its arms differ."""
    for treatment in treatments_of(rows, compared):
        if why := treatment.absence(config) or ("" if differs else treatment.unread()):
            return why
    return ""


def _cells(before: pd.DataFrame, after: pd.DataFrame, place: list[str], names: tuple[str, str]) -> tuple[Cell, ...]:
    """Weights x skills over the paired episodes; empty unless both runs have exactly the arms off and on. If both have
    the same weights, the `names` of the runs tell them apart."""
    if not set(before["arm"]) == set(after["arm"]) == {"off", "on"}:
        return ()
    pairs = pair(before, after, place)
    scored = pairs[side(pairs, "success", "before").notna() & side(pairs, "success", "after").notna()]
    cells = []
    skills_arms: tuple[Literal["off", "on"], ...] = ("off", "on")
    first = pairs.iloc[0]
    of_both = weights_names(
        (first[f"model_{which}"], first[f"adapter_{which}"], first[f"adapter_digest_{which}"])
        for which in ("before", "after")
    )
    for which, weights, name in zip(("before", "after"), of_both, names, strict=True):
        run = name if of_both[0] == of_both[1] else ""
        for skills in skills_arms:
            cell = scored[side(scored, "arm", which) == skills]
            rows = pd.DataFrame({name: side(cell, name, which) for name in [*PLACES, "success"]})
            cells.append(Cell(weights, skills, rate_of(rows), run))
    return tuple(cells)
