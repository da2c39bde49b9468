"""`tasks check`: validates a suite, and prints its rubric."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hermes_lab.analysis.stats.intervals import wilson
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.protocols import Suite
from hermes_lab.records import read_episodes
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.bar import progress_bar
from hermes_lab.runners.commands.suites_options import AnyWorld, Name, Seed, config_of, split_of, suite_of
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks.adapters.harbor.check import check_tasks
from hermes_lab.tasks.adapters.harbor.suite import HarborSuite
from hermes_lab.tasks.admission import StaticReport, static_checks
from hermes_lab.tasks.check import CheckReport, check_suite, rubric_of, too_little
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.jsonl_check import check_rows
from hermes_lab.tasks.learnable import learning_notes
from hermes_lab.tasks.play import opener
from hermes_lab.tasks.proof import Provable
from hermes_lab.tasks.registry import adapters, wrap_suite_errors
from hermes_lab.tasks.rubric import Rubric, grade_runs
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.unproven import UnprovenReport, check_unproven, missing_solutions
from hermes_lab.text.counted import counted

ALL = "all"
_STATIC = 50
"""Minimum number of tasks per split that are checked without a sandbox."""


def check(
    name: Name = "",
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", help="Tasks per split.", min=1, show_default="20; all of a file or folder"),
    ] = None,
    split: Annotated[str, typer.Option(help="The split to check.")] = ALL,
    seed: Seed = 0,
    world: AnyWorld = None,
    config: options.Config = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Print the rubric of this run's episodes instead.", show_default=False)
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """`hermes-lab tasks check`."""
    if runs:
        return _check_runs(runs, name, json)
    if not name:
        raise ConfigError(
            "tasks check: give a suite, module:Class of your own, a JSONL file, a folder of Harbor tasks, or a run "
            "with --runs"
        )
    settings = config_of(name, config)
    suite = suite_of(settings)
    if isinstance(suite, JsonlSuite | HarborSuite):
        _refuse_unused(suite, split, seed, world)
        if isinstance(suite, JsonlSuite):
            return _check_file(suite, count or 0, settings.sandbox, json)
        return _check_folder(suite, count or 0, settings.sandbox, json)
    if name in adapters():
        return _check_adapter(suite, split, count or 20, seed, settings.sandbox, json)
    splits = suite.splits if split == ALL else (split_of(suite, split),)
    count = count or 20
    static = None
    if not isinstance(suite, Provable):
        return _check_unproven(suite, splits, count, seed, world or 0, settings.sandbox, json, quiet=quiet or json)
    with wrap_suite_errors(name):
        if isinstance(suite, WorldSuite):
            static = static_checks(suite, count=max(count, _STATIC), seed=seed, world=world or 0)
        reports = [_play(suite, each, count, seed, world, settings.sandbox, quiet=quiet or json) for each in splits]
    return _report(suite, static, reports, json)


def _refuse_unused(suite: JsonlSuite | HarborSuite, split: str, seed: int, world: int | None) -> None:
    """Raises `ConfigError` for options that change nothing: a file and a folder are checked in their own order."""
    if split != ALL:
        split_of(suite, split)
    for option, value in (("--seed", seed), ("--world", world)):
        if value:
            raise ConfigError(f"{option}: {suite.path} is checked in its own order; leave the option out")


def _check_adapter(suite: Suite, split: str, count: int, seed: int, sandbox: SandboxConfig, json: bool) -> int:
    """Verifies the reference solutions of a third-party suite, and prints how many are accepted."""
    from hermes_lab.tasks.adapters._oracle import prove

    failures: list[str] = []
    splits: list[dict[str, Any]] = []
    for each in suite.splits if split == ALL else (split_of(suite, split),):
        tasks = suite.load(split=each, count=count, seed=seed, world=0)
        proof = anyio.run(partial(prove, suite, tasks, partial(open_sandbox, sandbox)))
        failures += proof.failures
        splits.append({"split": each, "tasks": proof.total, "accepted": proof.solved, "flaws": proof.flaws})
        if json:
            continue
        typer.echo(f"{each}: {proof.sentence()}")
        for flaw in proof.flaws:
            typer.echo(f"  known flaw of the package: {flaw}")
    if json:
        output.print_json({"suite": suite.name, "splits": splits, "failures": failures})
        return 1 if failures else 0
    for line in collapsed(failures):
        output.say(line)
    return 1 if failures else 0


def collapsed(failures: Iterable[str]) -> Iterator[str]:
    """One line per fault, with the further tasks or rows that have the same one. A failure is `WHERE: what`."""
    groups: dict[str, Counter[str]] = {}
    for failure in failures:
        where, mark, what = failure.partition(": ")
        groups.setdefault(f"{mark}{what}" if mark else failure, Counter())[where if mark else ""] += 1
    for what, places in groups.items():
        first, *others = places
        more = f", and {len(others) - _PLACES:,} more" if len(others) > _PLACES else ""
        same = f" (the same in {', '.join(others[:_PLACES])}{more})" if others else ""
        times = f" ({places[first]:,} times)" if places[first] > 1 and not others else ""
        yield f"{first}{what}{same}{times}"


_PLACES = 3
"""Further places of a fault to name."""


def _play(
    suite: Suite, split: str, count: int, seed: int, world: int | None, sandbox: SandboxConfig, *, quiet: bool
) -> CheckReport:
    with progress_bar(f"{suite.name} ({split})", shown=not quiet) as seen:
        return anyio.run(
            partial(
                check_suite,
                suite,
                split=split,
                count=count,
                seed=seed,
                world=world or 0,
                many_worlds=world is None,
                open_sandbox=opener(sandbox, suite),
                tell=lambda _, wanted: seen(wanted),
            )
        )


def _report(suite: Suite, static: StaticReport | None, reports: list[CheckReport], json: bool) -> int:
    failures = [*(static.problems if static else ())]
    failures += [failure for report in reports for failure in report.failures]
    # Too few tasks say nothing about the headroom of the rules.
    failures += too_little([report for report in reports if len(report.drawn) >= 10])
    notes = [f"{report.split}: {note}" for report in reports for note in report.notes]
    rubric = rubric_of(reports)
    if json:
        content = {
            "suite": suite.name,
            "failures": failures,
            "notes": notes,
            "splits": [_figures(report) for report in reports],
            "tasks_per_second": static.tasks_per_second if static else None,
            "distinct": static.distinct if static else None,
            "sentences": static.templates if static else None,
            "rubric": rubric.to_dict(),
        }
        output.print_json(content)
        return 1 if failures else 0
    for report in reports:
        typer.echo(report.sentence())
        for family in report.families:
            typer.echo(f"  {_shares(report.of(family))}")
    if static:
        typer.echo(
            f"static checks: {static.tasks_per_second:,.0f} tasks/s, {static.distinct:.1%} unique; "
            f"sentence templates: {', '.join(f'{split} {n}' for split, n in static.templates.items())}"
        )
    for line in rubric.lines():
        typer.echo(line)
    _say(notes, failures)
    return 1 if failures else 0


def _say(notes: Iterable[str], failures: Iterable[str]) -> None:
    """Prints the failures; if there are none, the notes."""
    lines = list(collapsed(failures))
    for line in lines or [f"note: {note}" for note in notes]:
        output.say(line)


def _shares(part: CheckReport) -> str:
    """One family's figures in a split as a line."""
    ruled = [row for row in part.drawn if row.triggers]
    plain = [row for row in part.drawn if not row.triggers]
    extra = len(part.rows) - len(part.drawn)
    return (
        f"{part.suite}: oracle {_mean(part, 'oracle'):.2f}, no-op {_mean(part, 'noop'):.2f}, naive "
        f"{_mean(part, 'naive'):.2f} (below 1 on {sum(row.naive < 1 for row in ruled)} of {len(ruled)} with a rule, "
        f"exactly 1 on {sum(row.naive == 1 for row in plain)} of {len(plain)} others); "
        f"headroom {100 * part.headroom:.0f} points{_range(part)}; "
        f"{f'{extra} more by rule type; ' if extra else ''}{part.milliseconds:.1f} ms per verification"
    )


def _range(part: CheckReport) -> str:
    interval = _interval(part)
    return f" ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})" if interval else ""


def _interval(part: CheckReport) -> tuple[float, float] | None:
    """Interval of the headroom: that of the naive policy's failure rate, as a right oracle always scores 1.

    None if the oracle does not, or if a score is outside of [0, 1]: both are failures of the check.
    """
    lost = sum(1 - row.naive for row in part.drawn)
    if any(row.oracle != 1 or not 0 <= row.naive <= 1 for row in part.drawn):
        return None
    return wilson(round(lost), len(part.drawn))


def _mean(part: CheckReport, policy: str) -> float:
    return float(sum(getattr(row, policy) for row in part.drawn)) / len(part.drawn)


def _figures(report: CheckReport) -> dict[str, Any]:
    families = []
    for family in report.families:
        part = report.of(family)
        low, high = _interval(part) or (None, None)
        scores = {policy: _mean(part, policy) for policy in ("noop", "naive", "oracle")}
        headroom = {"points": 100 * part.headroom, "low": _points(low), "high": _points(high)}
        ruled = sum(bool(row.triggers) for row in part.drawn)
        families.append(
            {
                "family": family,
                "tasks": len(part.drawn),
                "ruled": ruled,
                "by_type": len(part.rows) - len(part.drawn),
                **scores,
                "headroom": headroom,
                "verification_ms": part.milliseconds,
            }
        )
    return {"split": report.split, "tasks": len(report.drawn), "failures": report.failures, "families": families}


def _check_unproven(
    suite: Suite,
    splits: Sequence[str],
    count: int,
    seed: int,
    world: int,
    sandbox: SandboxConfig,
    json: bool,
    *,
    quiet: bool,
) -> int:
    """Checks a suite without an oracle or a naive solution, and says what was not checked."""
    missing = missing_solutions(suite)
    reports: list[UnprovenReport] = []
    for split in splits:
        with wrap_suite_errors(suite), progress_bar(f"{suite.name} ({split})", shown=not quiet) as seen:
            check_split = partial(check_unproven, suite, split=split, count=count, seed=seed, world=world)
            tell = partial(_tell_wanted, seen)
            reports.append(anyio.run(partial(check_split, open_sandbox=opener(sandbox, suite), tell=tell)))
    failures = [failure for report in reports for failure in report.failures]
    notes = [f"{report.split}: {note}" for report in reports for note in report.notes]
    if json:
        rows = [{"split": each.split, "tasks": each.tasks, "failures": each.failures} for each in reports]
        content = {"suite": suite.name, "failures": failures, "notes": notes, "splits": rows, "missing": missing}
        output.print_json(content)
        return 1 if failures else 0
    for report in reports:
        found = counted(len(report.failures), "failure") if report.failures else "no problems"
        verifier = "" if report.played else "verifier not checked (its tasks have sessions); "
        typer.echo(
            f"{suite.name} ({report.split}): {counted(report.tasks, 'task')}, {found}; {verifier}solvability not "
            f"checked (no {', no '.join(missing)})"
        )
    _say(notes, failures)
    return 1 if failures else 0


def _tell_wanted(seen: Callable[[int], object], _: int, wanted: int) -> None:
    seen(wanted)


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _check_file(suite: JsonlSuite, count: int, sandbox: SandboxConfig, json: bool) -> int:
    failures = anyio.run(check_rows, suite, partial(open_sandbox, sandbox), count)
    rows = min(count, suite.size) or suite.size
    tasks = suite.load(split=suite.splits[0], count=rows, seed=0, world=0)
    judged = sum(bool(suite.judge_rubric(task)) for task in tasks)
    every = suite.load(split=suite.splits[0], count=0, seed=0, world=0)
    told = any(task.truth.get("feedback") for task in every)
    notes = [f"{suite.path}: {note}" for note in learning_notes(every, wanted=suite.size + 1, feedback=told)]
    if json:
        output.print_json({"suite": suite.name, "rows": rows, "judged": judged, "notes": notes, "failures": failures})
        return 1 if failures else 0
    found = f"{len(failures)} refused" if failures else "none refused"
    model = f"{judged} graded by a model, which is not asked here; " if judged else ""
    typer.echo(f"{suite.path}: {counted(rows, 'row')}, {found}; {model}solvability not checked (no oracle)")
    _say(notes, failures)
    return 1 if failures else 0


def _check_folder(suite: HarborSuite, count: int, sandbox: SandboxConfig, json: bool) -> int:
    """Lists the tasks that cannot run, and plays the others: nothing done, and the solution that comes with them."""
    failures = list(suite.broken) if suite.left_out else suite.problems()
    tasks = suite.tasks()[: count or None]
    checked = anyio.run(check_tasks, suite, partial(open_sandbox, sandbox), tasks)
    failures += [f"{suite.path}: {each.id}: {failure}" for each in checked for failure in each.failures]
    if json:
        rows = [{"task": each.id, "noop": each.noop, "oracle": each.oracle} for each in checked]
        content = {"suite": suite.name, "tasks": rows, "unsupported": suite.unsupported, "failures": failures}
        content["warnings"] = list(suite.remarks())
        output.print_json(content)
        return 1 if failures else 0
    scores = [each.oracle for each in checked if suite.has_solution(each.id)]
    without = f" ({len(checked) - len(scores)} without a solution)" if len(scores) < len(checked) else ""
    typer.echo(
        f"{suite.path}: {counted(len(checked), 'task')} checked: doing nothing scores 0 in "
        f"{sum(each.noop == 0 for each in checked)} of {len(checked)}; the solution scores 1 in "
        f"{sum(score == 1 for score in scores)} of {len(scores)}{without}; {len(suite.unsupported)} unsupported, "
        f"{len(suite.broken)} broken"
    )
    for remark in suite.remarks():
        output.say(f"warning: {remark}")
    for line in collapsed(failures):
        output.say(line)
    return 1 if failures else 0


def _check_runs(runs: Path, name: str, json: bool) -> int:
    try:
        read_manifest(runs)
    except ConfigError as error:
        raise ConfigError(f"--runs: {error}") from None
    episodes = (each for each in read_episodes(runs) if name in ("", each.suite))
    try:
        rubric: Rubric = grade_runs(episodes)
    except ValueError as error:
        raise ConfigError(f"--runs: {runs}: {error}") from None
    if json:
        output.print_json({"runs": str(runs), "rubric": rubric.to_dict()})
        return 0
    for line in rubric.lines():
        typer.echo(line)
    return 0
