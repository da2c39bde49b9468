"""Progress of commands that take minutes: a bar in terminals, a line now and then anywhere else."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from hermes_lab.runners import output

_BEAT = 15
"""Seconds between two lines."""


@contextmanager
def progress_bar(what: str, total: int | None = None, *, shown: bool) -> Iterator[Callable[..., None]]:
    """Yields a function to call after each of the `total` items, with the total as its argument if it was not known
    before. If stderr is no terminal, a line every 15 seconds replaces the bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not shown:
        yield lambda _=None: None
        return
    if not console.is_terminal:
        yield _lines(what, total)
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda total=None: progress.update(task, advance=1, total=total)


def _lines(what: str, expected: int | None) -> Callable[..., None]:
    done, told = count(1), time.monotonic()

    def seen(total: int | None = None) -> None:
        nonlocal told
        number = next(done)
        if time.monotonic() - told >= _BEAT:
            told = time.monotonic()
            known = expected if total is None else total
            output.say(f"{what}: {number:,} of {known:,}" if known else f"{what}: {number:,}")

    return seen
