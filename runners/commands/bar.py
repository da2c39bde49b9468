"""A progress bar for terminals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str, total: int | None = None, *, shown: bool) -> Iterator[Callable[..., None]]:
    """Yields a function to call after each of the `total` items, with the total as its argument if it was not known
    before. The bar is only drawn if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda _=None: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda total=None: progress.update(task, advance=1, total=total)
