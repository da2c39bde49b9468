"""`rescore`: applies a changed verifier to the episodes of a run."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hermes_lab.records import write_json
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.bar import progress_bar
from hermes_lab.runners.engine.execute import run_blocking
from hermes_lab.runners.rescoring.rescore import count_changes, rescore
from hermes_lab.runners.rescoring.source import Source, open_source
from hermes_lab.runners.rescoring.tally import Changes
from hermes_lab.text.counted import counted
from hermes_lab.text.printable import printable


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "rescore",
        help="Re-verify recorded episodes with the current (or another) verifier. No agent runs, and the run is never "
        "changed: the verdicts go to a new run folder, which every command reads. Final answers are in every record; a "
        "verifier that reads the workspace needs one that was kept (run.keep_workspaces). Episodes that cannot be "
        "re-verified get no score; the reason is counted.\n\n"
        "hermes-lab rescore runs/mine --dry-run   (what would change; writes nothing, asks no judge)\n\n"
        "hermes-lab rescore runs/mine -c suite.path=tasks-v2.jsonl --out runs/mine-v2\n\n"
        "hermes-lab rescore runs/mine -c judge.model.name=my-judge -c judge.votes=3\n\n"
        "hermes-lab compare runs/mine runs/mine-v2",
    )(rescore_run)


def rescore_run(
    run: options.Run,
    config: options.Config = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The new run folder; default: RUN-rescored.", show_default=False)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the rescoring in --out; retries episodes that errored.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change; write nothing and ask no judge.")
    ] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab rescore`."""
    source = open_source(run, config or [])
    folder = out or run.resolve().with_name(f"{run.resolve().name}-rescored")
    say = output.say_nothing if quiet or json else output.say
    if dry_run:
        changes = run_blocking(partial(count_changes, source))
    else:
        try:
            with progress_bar("episodes", source.manifest.wanted, shown=not (quiet or json)) as seen:
                work = partial(rescore, source, folder, resume=resume, on_episode=lambda _: seen(), say=say)
                changes = run_blocking(work)
        except KeyboardInterrupt:
            output.say(f"interrupted: finished episodes are kept in {folder}; continue with --resume")
            return 130
        write_json(folder / "summary.json", _summary(folder))
    _show(source, None if dry_run else folder, changes, json=json)
    if not json:
        for warning in _warnings(source, changes):
            output.say(f"warning: {warning}")
    if changes.errors:
        (why, _), *_ = changes.errors.most_common(1)
        again = "run it without --dry-run" if dry_run else "--resume retries them"
        output.say(f"{changes.errors.total()} of {changes.episodes} episodes errored ({printable(why)}); {again}")
        return 3
    return 0


def _summary(folder: Path) -> dict[str, Any]:
    from hermes_lab.analysis.summaries.summary import summarize

    return summarize(folder)


def _show(source: Source, folder: Path | None, changes: Changes, *, json: bool) -> None:
    if json:
        where = {"run": str(source.run), "out": str(folder) if folder else None, "verifier": source.verifier}
        output.print_json(where | changes.to_dict() | {"warnings": list(_warnings(source, changes))})
        return
    written = f"written to {folder}" if folder else "nothing written (--dry-run)"
    typer.echo(f"{source.run}: verifier {source.verifier[:8]}, {written}")
    for label, what in _lines(changes):
        typer.echo(f"  {label:<32} {printable(what)}")


def _lines(changes: Changes) -> Iterator[tuple[str, str]]:
    moves = changes.moves
    yield "rescored", f"{moves.total():,} of {changes.episodes:,} episodes"
    yield "  changed 0 -> 1", f"{moves['0 -> 1']:,}"
    yield "  changed 1 -> 0", f"{moves['1 -> 0']:,}"
    other = f", {changes.other_scores:,} with another score" if changes.other_scores else ""
    yield "  unchanged", f"{moves['unchanged']:,}{other}"
    if moves["new"]:
        yield "  scored for the first time", f"{moves['new']:,}"
    yield "not possible, without a score", f"{changes.not_possible.total():,}"
    for why, count in changes.not_possible.most_common():
        yield f"  {count:,}", why
    if changes.errors:
        yield "errored", f"{changes.errors.total():,}"
        for why, count in changes.errors.most_common(3):
            yield f"  {count:,}", why
    if changes.judge_votes:
        cost = f", cost {changes.judge_cost:,.4g}" if changes.judge_cost else ""
        unknown = f", {counted(changes.uncounted_votes, 'vote')} without usage" if changes.uncounted_votes else ""
        yield "judge", f"{changes.judge_votes:,} votes, {changes.judge_tokens:,} tokens{cost}{unknown}"
    yield "success, same episodes", f"{_rate(changes.before, changes)} -> {_rate(changes.after, changes)}"


def _rate(count: int, changes: Changes) -> str:
    return f"{count}/{changes.compared} = {count / changes.compared:.0%}" if changes.compared else "-"


def _warnings(source: Source, changes: Changes) -> Iterator[str]:
    """What the old verdicts led to cannot be rescored."""
    if source.manifest.command == "learn":
        yield (
            "this run learned from the old verdicts: feedback, reviews, skills and every later round followed them and "
            "are as they were; only the verdicts on what was submitted are new"
        )
    if changes.followed:
        yield (
            f"{changes.followed} of the {changes.changed} episodes with another success got feedback or a review, "
            "which followed the old verdict"
        )
    for why, count in changes.later.most_common():
        yield f"{count} episodes have a new verdict on the first submission alone; the later ones: {why}"
