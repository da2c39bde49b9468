"""Views of a run: a live table in a terminal or a notebook, plain lines anywhere else."""

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.runners.engine.tally import Quiet, Tally, endings_of, share

_BEAT = 15
"""Seconds between two lines."""


@dataclass
class Plain(Quiet):
    """Prints a line at every 10 % of the episodes and every 15 seconds, and names episodes that wait long."""

    say: Callable[[str], None]
    _tenths: int = 0
    _warned: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Plain":
        self.tally.start()
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()

    def __call__(self, episode: EpisodeSummary) -> None:
        super().__call__(episode)
        if not self._warned and (warning := self.tally.early_warning):
            self._warned = True
            self.say(f"warning: {warning}")
        done = self.tally.total("finished") + self.tally.total("errored")
        if (tenths := 10 * done // self.tally.total("wanted")) > self._tenths:
            self._tenths = tenths
            self.say(self.tally.headline())

    def _beat(self) -> None:
        beats = 0
        told = -_BEAT
        while not self._ended.wait(1):
            beats += 1
            if beats % _BEAT == 0:
                self.say(self.tally.headline())
            if beats - told >= _BEAT and (waiting := self.tally.waiting()):
                told = beats
                self.say(waiting[0])  # lines stay, so one is enough


class LiveTable(Quiet):
    """A table with a row per arm, redrawn four times a second."""

    def __init__(self, tally: Tally, console: Console) -> None:
        super().__init__(tally)
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._table)

    def __enter__(self) -> "LiveTable":
        self.tally.start()
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def _table(self) -> Table:
        table = Table(title=Text(self._headline()), title_justify="left", title_style="")
        names = [
            "arm",
            "episodes",
            "solved at the\nfirst submission",
            "parsed first calls",
            "skills written",
            "errored",
            "tokens",
        ]
        if unanswered := bool(self.tally.endings()):
            names.append("ended without an answer")
        for name in names:
            table.add_column(name, justify="left" if name == "arm" else "right")
        for name, arm in self.tally.arms.items():
            table.add_row(
                name,
                f"{arm.finished}/{arm.wanted}",
                share(arm.solved, arm.scored),
                share(arm.parsed, arm.called),
                str(arm.wrote),
                str(arm.errored) if arm.errored else "-",
                f"{arm.tokens:,}{'+' if arm.uncounted else ''}",  # at least so many
                *([endings_of(arm.stops) or "-"] if unanswered else []),
            )
        return table

    def _headline(self) -> str:
        error = f"\nlast error: {self.tally.last_error}" if self.tally.last_error else ""
        warning = f"\nwarning: {early}" if (early := self.tally.early_warning) else ""
        return "\n".join([self.tally.headline() + error + warning, *self.tally.waiting()])


class NotebookTable(LiveTable):
    """The same table as the output of a notebook cell, redrawn twice a second."""

    def __init__(self, tally: Tally) -> None:
        # Text alone: as a notebook or a terminal the console would display what it prints itself, or colour it.
        super().__init__(tally, Console(file=io.StringIO(), width=120, force_jupyter=False, force_terminal=False))
        self._ended = threading.Event()

    def __enter__(self) -> "NotebookTable":
        from IPython.display import display

        self.tally.start()
        self._handle: Any = display(self._shown(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        self._redraw = threading.Thread(target=self._beat, daemon=True)
        self._redraw.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._redraw.join()  # else an older table could replace the last one
        self._handle.update(self._shown(), raw=True)

    def _beat(self) -> None:
        while not self._ended.wait(0.5):
            self._handle.update(self._shown(), raw=True)

    def _shown(self) -> dict[str, str]:
        console = self._live.console
        with console.capture() as captured:
            console.print(self._table())
        return {"text/plain": "\n".join(line.rstrip() for line in captured.get().splitlines())}
