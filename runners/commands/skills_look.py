"""`skills`: read-only commands: list, show, search, history, diff."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from hermes_lab.analysis.libraries import FORMS, LibraryRef, find, home_skills, nested_libraries
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.engine.lane_history import RoundMerge, describe_merge, read_history
from hermes_lab.runners.tables import interval, solved, table
from hermes_lab.sessions import hermes_home
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import check_skill_name
from hermes_lab.skills.storage import catalog
from hermes_lab.skills.storage.diff import diff as differences
from hermes_lab.skills.storage.history import Change
from hermes_lab.skills.storage.index import Entry
from hermes_lab.text.counted import counted
from hermes_lab.text.printable import printable

_BELOW = 5
Lib = Annotated[str, typer.Argument(help=f"A library: {FORMS}.", show_default="your own skills")]


def names(incomplete: str) -> list[str]:
    """Shell completion of a skill's name from the user's own library."""
    return sorted(path.parent.name for path in home_skills().glob(f"{incomplete}*/SKILL.md"))


Name = Annotated[str, typer.Argument(help="A skill's name.", show_default=False, autocompletion=names)]
In = Annotated[str, typer.Option("--in", help=f"The library: {FORMS}.", show_default="your own skills")]


def list_(library: Lib = "", json: options.Json = False, quiet: options.Quiet = False) -> None:
    """`hermes-lab skills list`."""
    ref = find(library)
    with ref.index() as index:
        entries = index.entries()
    if json:
        rows = list(map(report, entries))
        snapshot = ref.library.snapshot
        output.print_json({"library": ref.name, "snapshot": snapshot, "skills": rows, "broken": ref.broken})
        return
    if entries:
        header = ("NAME", "STATE", "PIN", "ORIGIN", "USES", "SOLVED", "95 %", "DESCRIPTION")
        for line in table(header, [_row(entry) for entry in entries]):
            typer.echo(line)
    if not quiet:
        left_out(ref)
        output.say(f"{ref.name}: {counted(len(entries), 'skill')}, snapshot {ref.library.snapshot}")
        if not entries and (below := nested_libraries(library)):
            output.say(f"skills were found in subfolders: {', '.join(map(str, below[:_BELOW]))}")


def show(name: Name, library: In = "", json: options.Json = False) -> None:
    """`hermes-lab skills show`."""
    ref = find(library)
    skill = ref.library.skills[check_skill_name(ref.library, name, ref.broken)]
    with ref.index() as index:
        entry = next(entry for entry in index.entries() if entry.name == skill.name)
    if json:
        files = {path: len(data) for path, data in skill.files.items()}
        output.print_json({**report(entry), "text": skill.text, "files": files})
        return
    for line in _facts(entry):
        typer.echo(line)
    typer.echo(f"\n{printable(skill_format.shown(skill), keep=chr(10) + chr(9)).rstrip()}")
    for path, data in skill.files.items():
        typer.echo(f"\n{path}  {len(data):,} bytes")


def search(
    query: Annotated[str, typer.Argument(help="What the skill should be about.", show_default=False)],
    library: In = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of results.", min=1)] = 5,
    refresh: Annotated[bool, typer.Option("--refresh", help="First fetch the lists of skills.sources again.")] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> int:
    """`hermes-lab skills search`. Exits 1 if a source cannot be fetched."""
    ref = find(library)
    sources = load_config(config or []).skills.sources if refresh or not library else ()
    say = output.say_nothing if json else output.say
    found, failed = catalog.catalogs(sources, hermes_home(), refresh=refresh, say=say)
    with ref.index() as index:
        hits = index.search(query, limit)
    offers = [hit for hit in catalog.search(query, found, limit) if hit.offer.name not in ref.library.skills]
    if json:
        rows = [{"score": hit.score, **msgspec.structs.asdict(hit.offer)} for hit in offers]
        report_ = {"library": ref.name, "hits": [{"score": hit.score, **report(hit.entry)} for hit in hits]}
        output.print_json({**report_, "available": rows, "failed": failed})
        return 1 if failed else 0
    for line in table(
        ("SCORE", "NAME", "STATE", "DESCRIPTION"),
        [(f"{hit.score:.2f}", hit.entry.name, hit.entry.state, hit.entry.description) for hit in hits],
    ):
        typer.echo(line)
    if offers:
        typer.echo("\navailable, with hermes-lab skills install:")
        rows_ = [(f"{hit.score:.2f}", hit.offer.name, hit.offer.install, hit.offer.description) for hit in offers]
        for line in table(("SCORE", "NAME", "INSTALL", "DESCRIPTION"), rows_):
            typer.echo(line)
    left_out(ref)
    for why in failed:
        output.say(f"not searched: {printable(why)}")
    if unknown := [source for source in sources if not refresh and catalog.cached(source, hermes_home()) is None]:
        output.say(f"not fetched yet: {', '.join(unknown)}; --refresh searches there, too")
    return 1 if failed else 0


def history(
    library: Lib = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of results.", min=1)] = 20,
    json: options.Json = False,
) -> None:
    """`hermes-lab skills history`."""
    ref = find(library)
    if ref.run and ref.lane:
        _show_merges(ref.name, read_history(ref.run, ref.lane), limit, json)
        return
    if ref.store is None:
        raise ConfigError(f"{ref.name}: has no history of its own; compare its snapshots with `hermes-lab skills diff`")
    changes = list(ref.store.history())[::-1][:limit]
    if json:
        output.print_json({"library": ref.name, "changes": changes})
        return
    for line in table(
        ("AT", "BY", "BEFORE", "AFTER", "WHAT"),
        [(c.at[:19].replace("T", " "), c.origin, c.before, c.after, _what(c)) for c in changes],
    ):
        typer.echo(line)


def _show_merges(name: str, merges: Sequence[RoundMerge], limit: int, json: bool) -> None:
    """Prints the history of a run's lane: the rounds whose merge changed something."""
    happened = [merge for merge in merges if describe_merge(merge)][::-1][:limit]
    if json:
        output.print_json({"library": name, "round_merges": happened})
        return
    rows = [(f"{merge.round}->{merge.round + 1}", describe_merge(merge)) for merge in happened]
    for line in table(("ROUND", "WHAT"), rows):
        typer.echo(line)


def diff(
    before: Annotated[str, typer.Argument(help=f"A library: {FORMS}.", show_default=False)],
    after: Annotated[str, typer.Argument(help="The library to compare it with.", show_default="your own skills")] = "",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills diff`."""
    old, new = find(before), find(after)
    found = differences(old.library, new.library)
    if json:
        output.print_json({"before": old.library.snapshot, "after": new.library.snapshot, "skills": found})
        return
    for skill in found:
        for file in skill.files:
            typer.echo(printable(file.text, keep="\n\t"), nl=False)
    if not quiet:
        counts = {kind: sum(skill.kind == kind for skill in found) for kind in ("added", "removed", "changed")}
        summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "no difference"
        output.say(f"{old.library.snapshot} -> {new.library.snapshot}: {summary}")


def left_out(ref: LibraryRef) -> None:
    """Prints the broken skills of a library, which are missing from its lists."""
    for line in ref.broken.values():
        output.say(f"left out: {printable(line)}")


def report(entry: Entry) -> dict[str, Any]:
    """A row of the index for JSON."""
    return {**msgspec.structs.asdict(entry), "problems": [problem._asdict() for problem in entry.problems]}


def _what(change: Change) -> str:
    by = f" ({change.reason})" if change.reason else ""
    files = f": {', '.join(change.paths)}" if change.paths else ""
    return f"{change.action} {change.name}{files}{by}" if change.action else change.reason


def _row(entry: Entry) -> tuple[str, ...]:
    uses = str(entry.uses) if entry.uses else "-"
    pin = "pin" if entry.pinned else ""
    return (
        entry.name,
        entry.state,
        pin,
        entry.origin,
        uses,
        solved(entry.solved, entry.judged),
        interval(entry.low, entry.high),
        entry.description,
    )


def _facts(entry: Entry) -> list[str]:
    facts = {
        "name": entry.name,
        "state": f"{entry.state}{', pinned' if entry.pinned else ''}",
        "health": f"{entry.health}: {entry.reason}" if entry.reason else entry.health,
        "origin": " ".join(part for part in (entry.origin, entry.source, entry.model) if part),
        "learned in": entry.episode,
        "created": entry.created,
        "changed": entry.changed,
        "last used": entry.last_used,
        "uses": f"{entry.uses}, solved {solved(entry.solved, entry.judged)} ({interval(entry.low, entry.high)})"
        if entry.uses
        else "none",
        "needs": "; ".join(entry.dependencies),
        "tags": ", ".join(entry.tags),
    }
    return [f"{name:<10} {printable(text)}" for name, text in facts.items() if text]
