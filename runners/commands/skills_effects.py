"""`skills effects`: rule capture, use, transfer, cost and leaks of a run's skills."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hermes_lab.analysis.skill_effects.capture import Capture, captures
from hermes_lab.analysis.skill_effects.funnel import Funnel, funnels, read_seen
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.config.schema import RunConfig
from hermes_lab.lane import SKILL_ARMS
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.skills_health import COUNTS
from hermes_lab.runners.engine.reload import config_of
from hermes_lab.runners.experiments.ground_truth import LeakScan, library_claims, scan_leaks
from hermes_lab.runners.tables import table
from hermes_lab.text.counted import counted

if TYPE_CHECKING:
    import pandas as pd

    from hermes_lab.analysis.comparison.continual import Transfer
    from hermes_lab.analysis.stats.over_lanes import Estimate

Lines = Iterator[str]
T = TypeVar("T")


def effects(
    run: options.Run,
    leaks: Annotated[
        bool, typer.Option(help="Search the skills for held-out answers, which are computed in sandboxes.")
    ] = True,
    json: options.Json = False,
) -> None:
    """`hermes-lab skills effects`."""
    from hermes_lab.analysis.data.load import load_episodes
    from hermes_lab.analysis.data.runs import open_runs
    from hermes_lab.analysis.report.data import usual_order

    (opened,) = open_runs(run)
    output.warn(opened.warning())
    config = config_of(run)
    frame = load_episodes(run).sort_values("arm", key=lambda arms: arms.map(usual_order), kind="stable")
    told = library_claims(run)
    caught = None if told is None else captures(told)
    chain = funnels(read_seen(run))
    leaked = scan_leaks(run) if leaks else None
    if json:
        output.print_json(_report(frame, config, caught, chain, leaked))
        return
    for title, lines in (
        ("Capture: rules in force that the skills state", _capture(caught)),
        ("Stages: episodes in which the right skill was listed, loaded and followed", _chain(chain, frame)),
        ("Over time, by task number", _course(frame)),
        ("Transfer: held-out tasks", _transfer(frame)),
        ("Drift", _drift(frame, config)),
        ("Lanes: how much they differ", _lane_variance(frame)),
        ("Cost, reviews included", _cost(frame, config)),
        ("Leaks: held-out answers in skills", _leaks(leaked, asked=leaks)),
    ):
        if found := list(lines):
            typer.echo(f"{title}\n" + "\n".join(f"  {line}" for line in found) + "\n")


def _report(
    frame: "pd.DataFrame",
    config: RunConfig,
    caught: Sequence[Capture] | None,
    chain: Sequence[Funnel],
    leaked: LeakScan | None,
) -> dict[str, Any]:
    """Everything for JSON; null means not measured."""
    from hermes_lab.analysis.comparison.continual import transfers
    from hermes_lab.analysis.comparison.course import course, growth
    from hermes_lab.analysis.stats.lane_variance import lane_variance
    from hermes_lab.analysis.summaries.cost import costs

    return {
        "captures": None if caught is None else [each.to_dict() for each in caught],
        "funnels": [each.to_dict() for each in chain],
        "by_task_range": _rows(course(frame)),
        "growth": _rows(growth(frame)),
        "transfer": {name: each.to_dict() for name, each in transfers(frame).items()},
        "drift": {name: each.to_dict() for name, each in _recoveries(frame, config)},
        "lanes": _rows(lane_variance(frame)),
        "cost": _rows(costs(frame, _price(config))),
        "leaks": leaked,
    }


def _rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    return [
        {str(k): None if v is None or v != v else v for k, v in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


def _in_order(arms: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    from hermes_lab.analysis.report.data import usual_order

    yield from ((arm, arms[arm]) for arm in sorted(arms, key=usual_order))


def _capture(caught: Sequence[Capture] | None) -> Lines:
    """Sums over the libraries of each arm after the last round."""
    if caught is None:
        yield "not measured: the suite does not know its rules"
        return
    last: dict[str, Capture] = {each.lane: each for each in caught}  # ordered by round
    arms: dict[str, list[Capture]] = defaultdict(list)
    for each in last.values():
        arms[each.arm].append(each)
    rows = [
        (
            arm,
            str(len(lanes)),
            str(sum(each.skills for each in lanes)),
            _rate(_sum(each.precision for each in lanes)),
            _rate(_sum(each.recall_met for each in lanes)),
            _rate(_sum(each.recall for each in lanes)),
            str(sum(each.silent for each in lanes)),
        )
        for arm, lanes in _in_order(arms)
    ]
    if rows:
        yield from table(
            ("ARM", "LANES", "SKILLS", "PRECISION", "RECALL (RULES MET)", "RECALL", "STATES NO RULE"), rows
        )
    untrue = [f"{each.lane}: {name}" for each in last.values() for name in each.untrue]
    if untrue:
        yield f"state a wrong rule: {', '.join(untrue[:6])}{f' and {len(untrue) - 6} more' * (len(untrue) > 6)}"


def _chain(chain: Sequence[Funnel], frame: "pd.DataFrame") -> Lines:
    """A row for each arm with skills, also for one without an episode in which a skill was relevant."""
    arms: dict[str, list[Funnel]] = {arm: [] for arm in SKILL_ARMS if (frame["arm"] == arm).any()}
    for funnel in chain:
        arms.setdefault(funnel.arm, []).append(funnel)
    if not arms:
        yield "no skill was eligible or loaded"
        return
    rows = []
    for arm, skills in _in_order(arms):
        counts = [[count for each in skills if (count := getattr(each, name)) is not None] for name in COUNTS]
        rows.append((arm, str(len(skills)), *("-" if skills and not found else str(sum(found)) for found in counts)))
    yield from table(("ARM", "SKILLS", *COUNTS.values()), rows)


def _course(frame: "pd.DataFrame") -> Lines:
    from hermes_lab.analysis.comparison.course import course

    found = course(frame)
    if found.empty:
        return
    rows = [
        (
            row["series"],
            f"{row['first']}-{row['last']}",
            _percent(row["success"]),
            f"{row['seconds']:.1f}" + (f" ({100 * row['censored']:.0f} % cut off)" if row["censored"] else ""),
            _number(row["tokens"]),
            _percent(row["reuse"]),
            _percent(row["recovery"]),
            f"{row['skills']:.1f}",
        )
        for row in _rows(found)
    ]
    yield from table(("SERIES", "TASKS", "SOLVED", "SECONDS", "TOKENS", "REUSE", "RECOVERY", "SKILLS"), rows)


def _transfer(frame: "pd.DataFrame") -> Lines:
    from hermes_lab.analysis.comparison.continual import transfers

    found = transfers(frame)
    if not found:
        yield "not measured: the run holds out no tasks (learning.heldout.tasks)"
    for name, each in found.items():
        yield f"{name}: {'; '.join(_measures(each))}; over {each.over}"
        if each.blocks > 1:
            for stage, scores in enumerate(each.scores.tolist()):
                cells = "  ".join(_percent(None if score != score else score).rjust(5) for score in scores)
                yield f"  after {counted(stage, 'block')}: {cells}"


def _measures(transfer: "Transfer") -> Iterator[str]:
    names = {
        "acc": "final",
        "gain": "gain from learning",
        "gap": "train minus held-out",
        "bwt": "backward transfer",
        "fwt": "forward transfer",
        "forgetting": "forgetting",
    }
    for name, words in names.items():
        if estimate := getattr(transfer, name):
            yield f"{words} {_points(estimate, signed=name != 'acc')}"


def _recoveries(frame: "pd.DataFrame", config: RunConfig) -> Iterator[tuple[str, Any]]:
    from hermes_lab.analysis.comparison.drift import recovery_from_drift
    from hermes_lab.analysis.data.series import series_of

    at = config.suite.options.get("drift_at", 0)
    for name, group in frame.groupby(series_of(frame), sort=False) if at else ():
        if recovered := recovery_from_drift(group, at):
            yield str(name), recovered


def _drift(frame: "pd.DataFrame", config: RunConfig) -> Lines:
    for name, each in _recoveries(frame, config):
        half = each.half_life
        if half is None:
            recovered = "no drop shown"
        else:
            ends = f" ({half.interval.low:g} to {half.interval.high:g})" if half.interval else ""
            recovered = f"half recovered after {half.value:g} tasks{ends}"
        dropped = f"dropped by {_points(each.drop)} at task {config.suite.options['drift_at']}"
        yield f"{name}: {dropped}; {recovered}; over {each.over}"


def _lane_variance(frame: "pd.DataFrame") -> Lines:
    from hermes_lab.analysis.stats.lane_variance import lane_variance

    for row in _rows(lane_variance(frame)):
        if row["sd"] is not None:
            yield (
                f"{row['series']}: {row['lanes']} lanes from {_percent(row['low'])} to {_percent(row['high'])}, "
                f"standard deviation {100 * row['sd']:.0f} points ({100 * row['chance']:.0f} expected by chance)"
            )


def _cost(frame: "pd.DataFrame", config: RunConfig) -> Lines:
    from hermes_lab.analysis.summaries.cost import costs

    rows = []
    for row in _rows(costs(frame, _price(config))):
        each = ("tokens_per_solved", "seconds_per_solved", "calls_per_solved")
        rows.append(
            (
                row["series"],
                f"{row['solved']}/{row['episodes']}",
                _number(row["tokens"]),
                _number(row["review_tokens"]),
                *(_number(row[name], 1) for name in each),
                *(["-" if row["money"] is None else f"{row['money']:.4g}"] if _price(config) else []),
            )
        )
    header = ["SERIES", "SOLVED", "TOKENS", "OF REVIEWS", "TOKENS/SOLVED", "SECONDS/SOLVED", "CALLS/SOLVED"]
    yield from table([*header, *(["MONEY"] if _price(config) else [])], rows) if rows else ()


def _leaks(scan: LeakScan | None, *, asked: bool) -> Lines:
    if scan is None:
        yield "not measured: the run holds out no tasks" if asked else "skipped (--no-leaks)"
        return
    for lane, leaks in scan.leaks.items():
        for leak in leaks:
            yield f"{lane}: {leak.skill} contains {', '.join(leak.literals[:3])} from {leak.task_id}"
    if not scan.findable:
        tasks = counted(scan.tasks, "held-out task")
        yield f"not measured: none of {tasks} has an answer specific enough to detect a leak"
        return
    found = counted(sum(map(len, scan.leaks.values())), "leak")
    yield (
        f"{found} in {counted(scan.lanes, 'library').replace('librarys', 'libraries')}; {scan.findable} of "
        f"{counted(scan.tasks, 'held-out task')} have an answer specific enough to detect a leak"
    )


def _price(config: RunConfig) -> tuple[float, float] | None:
    from hermes_lab.analysis.summaries.evaluation import plain_price

    return plain_price(config.model.price.model_dump())


def _sum(rates: Iterator[Rate]) -> Rate:
    found = list(rates)
    return Rate(sum(rate.successes for rate in found), sum(rate.trials for rate in found))


def _rate(rate: Rate) -> str:
    return f"{rate.successes}/{rate.trials}" if rate.trials else "-"


def _number(amount: float | None, decimals: int = 0) -> str:
    return "-" if amount is None else f"{amount:,.{decimals}f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _points(estimate: "Estimate", *, signed: bool = True) -> str:
    from hermes_lab.analysis.comparison.wording import end_text

    sign = "+" if signed else ""
    value, interval = estimate
    ends = " to ".join(map(end_text, interval)) if interval else "no interval"
    return f"{100 * value:{sign}.0f} {'points' if signed else '%'} ({ends})"
