"""Progress of a run: a live table on a terminal, plain lines anywhere else."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from hermes_lab.types import Episode
from runners.plan import Lane


@dataclass
class ArmTally:
    """Running counts of one arm. Only first submissions count as solved."""

    wanted: int = 0
    finished: int = 0
    errored: int = 0
    scored: int = 0
    solved: int = 0
    called: int = 0
    wrote: int = 0
    tokens: int = 0


class Tally:
    """Counts by arm, over everything finished so far, earlier starts included."""

    def __init__(self, lanes: list[Lane]) -> None:
        self.arms: dict[str, ArmTally] = defaultdict(ArmTally)
        for lane in lanes:
            self.arms[arm_of(lane.name)].wanted += lane.wanted
        self.last_error = ""

    def add(self, episode: Episode) -> None:
        """Counts one episode."""
        arm = self.arms[arm_of(episode.lane)]
        if episode.error:
            arm.errored += 1
            self.last_error = f"{episode.error.kind}: {episode.error.message}"
            return
        arm.finished += 1
        arm.scored += episode.success is not None
        arm.solved += episode.success is True
        arm.called += episode.metrics.get("first_call_ok", 0.0) == 1.0
        reviews = episode.review
        arm.wrote += len(episode.skills.writes) + (len(reviews.writes) if reviews else 0)
        for trajectory in (episode.trajectory, reviews.trajectory if reviews else None):
            if trajectory:
                arm.tokens += trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens

    def total(self, name: str) -> int:
        """One count over all arms."""
        return sum(getattr(arm, name) for arm in self.arms.values())


def arm_of(lane: str) -> str:
    """The arm of a lane's name `<arm>-r<replicate>-w<world>`; a lane without replicates is its own arm."""
    return lane.split("-r", 1)[0]


class Progress(Protocol):
    """A context manager that is told of every episode."""

    def __enter__(self) -> "Progress": ...
    def __exit__(self, *exc: object) -> None: ...
    def __call__(self, episode: Episode) -> None: ...


@dataclass
class Quiet:
    """Counts, and says nothing."""

    tally: Tally

    def __enter__(self) -> "Quiet":
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __call__(self, episode: Episode) -> None:
        self.tally.add(episode)


@dataclass
class Plain(Quiet):
    """A line every tenth of the way, and every 15 seconds."""

    say: Callable[[str], None]
    _next_share: float = 0.1
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Plain":
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()

    def __call__(self, episode: Episode) -> None:
        super().__call__(episode)
        share = (self.tally.total("finished") + self.tally.total("errored")) / self.tally.total("wanted")
        if share >= self._next_share:
            self._next_share = share + 0.1
            self._line()

    def _beat(self) -> None:
        while not self._ended.wait(15):
            self._line()

    def _line(self) -> None:
        errored = self.tally.total("errored")
        done, wanted = self.tally.total("finished") + errored, self.tally.total("wanted")
        failed = f", {errored} errored" if errored else ""
        self.say(f"{done}/{wanted} episodes, {self.tally.total('solved')} solved at once{failed}")


class LiveTable(Quiet):
    """A table of arms that is drawn anew four times a second."""

    def __init__(self, tally: Tally, console: Console) -> None:
        super().__init__(tally)
        self._started = time.monotonic()
        self._fresh = 0
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._table)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def __call__(self, episode: Episode) -> None:
        super().__call__(episode)
        self._fresh += 1

    def _table(self) -> Table:
        table = Table(title=self._headline(), title_justify="left", title_style="")
        for name in (
            "arm",
            "episodes",
            "solved at once",
            "parsed first calls",
            "skills written",
            "errored",
            "tokens",
        ):
            table.add_column(name, justify="left" if name == "arm" else "right")
        for name, arm in self.tally.arms.items():
            table.add_row(
                name,
                f"{arm.finished}/{arm.wanted}",
                share(arm.solved, arm.scored),
                share(arm.called, arm.finished),
                str(arm.wrote),
                str(arm.errored) if arm.errored else "-",
                f"{arm.tokens:,}",
            )
        return table

    def _headline(self) -> str:
        elapsed = time.monotonic() - self._started
        done = self.tally.total("finished") + self.tally.total("errored")
        wanted = self.tally.total("wanted")
        left = f", about {clock(elapsed / self._fresh * (wanted - done))} left" if self._fresh and done < wanted else ""
        error = f"\nlast error: {self.tally.last_error}" if self.tally.last_error else ""
        return f"{done}/{wanted} episodes in {clock(elapsed)}{left}{error}"


def share(part: int, whole: int) -> str:
    """`3/10 30 %`."""
    return f"{part}/{whole} {part / whole:4.0%}" if whole else "-"


def clock(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
