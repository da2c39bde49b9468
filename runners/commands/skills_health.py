"""`skills health`: problems with skills, and their funnel in a run."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer

from hermes_lab.analysis.libraries import LibraryRef, find_all
from hermes_lab.analysis.skill_effects.funnel import STAGES, Funnel, funnels, read_seen
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.skills_look import Lib, report
from hermes_lab.runners.tables import table
from hermes_lab.skills import own_tests
from hermes_lab.skills.storage.index import Entry
from hermes_lab.text.counted import counted
from hermes_lab.text.printable import printable

COUNTS = {name: name.upper() for name in (*STAGES, "helped", "hurt")} | {"astray": "WRONG SKILL"}
"""Columns of the funnel table: the heading of each count."""


def health(
    library: Lib = "",
    test: Annotated[bool, typer.Option("--test", help="Run the skills' own tests in a sandbox.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills health`."""
    refs = find_all(library)
    found = {ref.name: _tested(ref) if test else _entries(ref) for ref in refs}
    run, lane = refs[0].run, refs[0].lane if len(refs) == 1 else ""
    came = funnels(seen for seen in read_seen(run) if lane in ("", seen.lane)) if run else None
    if json:
        content: dict[str, Any] = {
            "libraries": {name: list(map(report, entries)) for name, entries in found.items()},
            "broken": {ref.name: ref.broken for ref in refs if ref.broken},
        }
        output.print_json(content if came is None else content | {"funnels": [funnel.to_dict() for funnel in came]})
        return
    for ref in refs:
        entries = found[ref.name]
        _show(ref.name if len(found) > 1 else "", entries, ref.broken)
        if not quiet:
            sick = sum(any(problem.severity == "error" for problem in entry.problems) for entry in entries)
            count = counted(len(entries) + len(ref.broken), "skill")
            output.say(f"{ref.name}: {count}, {sick + len(ref.broken)} with errors")
    if came:
        typer.echo("")
        for line in _funnel_table(came):
            typer.echo(line)
    elif came is not None and not quiet:
        output.say(f"{run}: no skill was eligible or loaded in any episode")


def _entries(ref: LibraryRef) -> list[Entry]:
    with ref.index() as index:
        return index.entries()


def _tested(ref: LibraryRef) -> list[Entry]:
    """The entries of a library; a skill whose own tests fail counts as broken."""
    failed = own_tests.failures(ref.library.skills.values(), instead="leave out --test to skip the tests")
    return [
        msgspec.structs.replace(
            entry,
            problems=(*entry.problems, failed[entry.name]),
            health="broken",
            reason=entry.reason if entry.health == "broken" else str(failed[entry.name]),
        )
        if entry.name in failed
        else entry
        for entry in _entries(ref)
    ]


def _show(title: str, entries: Sequence[Entry], broken: Mapping[str, str]) -> None:
    if title and entries:
        typer.echo(f"\n{title}")
    rows: list[tuple[str, ...]] = [(entry.name, entry.health, entry.state, entry.reason) for entry in entries]
    rows += [(name, "broken", "-", "cannot be read") for name in broken]
    for line in table(("NAME", "HEALTH", "STATE", "WHY"), rows) if rows else ():
        typer.echo(line)
    for entry in entries:
        for problem in entry.problems:
            typer.echo(f"{problem.severity}: {entry.name}/{printable(str(problem))}")
    for line in broken.values():
        typer.echo(f"error: {printable(line)}")


def _funnel_table(came: Sequence[Funnel]) -> list[str]:
    header = ("ARM", "SKILL", *COUNTS.values(), "WITH IT", "WITHOUT IT")
    rows = [
        (
            funnel.arm,
            funnel.skill,
            *("-" if (count := getattr(funnel, stage)) is None else str(count) for stage in COUNTS),
            _rate(funnel.with_it),
            _rate(funnel.without_it),
        )
        for funnel in came
    ]
    return table(header, rows)


def _rate(rate: Rate) -> str:
    return str(rate) if rate.trials else "-"
