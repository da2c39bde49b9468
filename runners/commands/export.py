"""`export`: a run's episodes in the formats of others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from runners.commands import options
from runners.export import FORMATS, Name
from runners.export.format import Folder
from runners.export.output import STDOUT, check_out, new_folder, write_lines
from runners.export.source import Source

_FORMATS = "\n\n".join(f"{name}: {format.about}" for name, format in FORMATS.items())


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "export",
        help=f"Write a run's episodes for other programs: to read, to train on, to publish.\n\n{_FORMATS}\n\n"
        "hermes-lab export runs/first --format openai -o first.jsonl\n\n"
        "hermes-lab export runs/first --format hf -o first-dataset",
    )(export)


def export(
    run: options.Run,
    format: Annotated[Name, typer.Option("--format", help="What to write.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The file or folder to write; - for standard output.", show_default=False),
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier export.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab export`."""
    from hermes_lab.manifest import read_manifest

    chosen = FORMATS[format]
    wanted = read_manifest(run).wanted
    check_out(out, run, folder=isinstance(chosen, Folder), force=force)
    with _progress(wanted, shown=not quiet and out != STDOUT) as seen:
        source = Source(run, seen)
        if isinstance(chosen, Folder):
            with new_folder(out) as folder:
                count = chosen.write(source, folder)
        else:
            count = write_lines(chosen.rows(source), out)
    if not quiet:
        where = "standard output" if out == STDOUT else out
        options.say(f"{count} rows in {where}{_left_out(source)}")


def _left_out(source: Source) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(source.left_out.items()))
    return f"; episodes left out: {reasons}" if reasons else ""


@contextmanager
def _progress(wanted: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """Gives what is to be called for every episode read; on a terminal it moves a bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("episodes", total=wanted)
        yield lambda: progress.advance(task)
