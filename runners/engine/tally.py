"""Live counts of a run by arm, with its pace and the estimated time left."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hermes_lab.activity import Activities, Running, State
from hermes_lab.analysis.summaries.warnings import EARLY, EARLY_REASONS, PLAIN, early_warning
from hermes_lab.lane import arm_and_weights
from hermes_lab.runners.engine.budget import Budget
from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.types.episode import Phase

if TYPE_CHECKING:
    from hermes_lab.runners.engine.stopping import Stopping

LONG = 10.0
"""Seconds after which it is said what a running episode waits for."""
NAMED = 3
"""Episodes of which it is said."""
WAITS_FOR: Mapping[State, str] = {
    "sandbox": "its sandbox",
    "model": "the model",
    "command": "a command",
    "verifier": "the verifier",
    "review": "its review",
}


@dataclass
class ArmTally:
    """Running counts of one arm. Only first submissions count as solved. `tokens` leaves out `uncounted` calls."""

    wanted: int = 0
    finished: int = 0
    errored: int = 0
    scored: int = 0
    solved: int = 0
    called: int = 0
    parsed: int = 0
    wrote: int = 0
    tokens: int = 0
    uncounted: int = 0
    stops: Counter[str] = field(default_factory=Counter)


class Tally:
    """Counts by arm over all starts of a run, and the pace of the current start."""

    def __init__(self, lanes: Sequence[Lane], budget: Budget | None = None, stopping: "Stopping | None" = None) -> None:
        self.arms: dict[str, ArmTally] = defaultdict(ArmTally)
        for lane in lanes:
            self.arms[arm_of(lane.name)].wanted += lane.wanted - lane.measured
            if lane.measured:
                self.arms[arm_of(lane.name, "heldout")].wanted += lane.measured
        self.budget = budget or Budget()
        self.stopping = stopping
        self.last_error = ""
        self.activities = Activities()
        self.start()

    def start(self) -> None:
        """Starts the clock. Only episodes counted from now on affect the pace."""
        self._started = time.monotonic()
        self._first: Counter[str] = Counter()
        self._before = (self.total("finished"), self.total("tokens"))

    def add(self, episode: EpisodeSummary) -> None:
        """Counts one episode."""
        arm = self.arms[arm_of(episode.lane, episode.phase)]
        if self._first.total() < EARLY:
            self._first["errored" if episode.error else episode.stop_reason] += 1
        if episode.error:
            arm.errored += 1
            self.last_error = f"{episode.error.kind}: {episode.error.message}"
            return
        arm.finished += 1
        arm.scored += episode.success is not None
        arm.solved += episode.success is True
        arm.stops[episode.stop_reason] += 1
        parsed = episode.metrics.get("first_call_ok", 0.0) == 1.0
        arm.parsed += parsed
        arm.called += parsed or bool(episode.metrics.get("first_call", episode.metrics.get("tool_calls", 0.0)))
        arm.wrote += len(episode.writes)
        arm.tokens += episode.tokens
        arm.uncounted += episode.uncounted
        self.budget.add(episode)
        if self.stopping:
            self.stopping.add(episode)

    @property
    def early_warning(self) -> str:
        """A warning if none of the first episodes of this start ended with an answer; else ""."""
        if self._first.total() < EARLY or not set(self._first) <= set(EARLY_REASONS):
            return ""
        return early_warning(self._first, self.last_error)

    def endings(self) -> str:
        """How the episodes without an answer ended, such as `7 reply cut, 1 no answer`; "" if all have an answer."""
        # Iterates over a fixed list of reasons, since another thread may add one to a counter meanwhile.
        return endings_of(Counter({reason: sum(arm.stops[reason] for arm in self.arms.values()) for reason in PLAIN}))

    def headline(self) -> str:
        """One line: progress, success rate, pace and time left."""
        elapsed = time.monotonic() - self._started
        finished, wanted, errored = self.total("finished"), self.total("wanted"), self.total("errored")
        fresh, tokens = finished - self._before[0], self.total("tokens") - self._before[1]
        parts = [f"{finished}/{wanted} episodes in {clock(elapsed)}"]
        parts += [f"{share.used / share.limit:.0%} of budget.{name}" for name, share in self.budget.shares.items()]
        if self.stopping:
            parts.append(str(self.stopping.decision or self.stopping.progress))
        if scored := self.total("scored"):
            parts.append(f"{self.total('solved') / scored:.0%} solved at the first submission")
        if endings := self.endings():
            parts.append(endings)
        if errored:
            parts.append(f"{errored} errored")
        if fresh and elapsed > 0:
            parts.append(f"{_rate(fresh / elapsed)} episodes/s")
            if tokens:
                parts.append(f"{_rate(tokens / elapsed)} tokens/s")
            if left := wanted - finished - errored:
                parts.append(f"about {clock(elapsed / fresh * left)} left")
        return ", ".join(parts)

    def waiting(self) -> list[str]:
        """A line for each of the episodes that wait longest, if that is long."""
        now = time.time()
        long = [episode for episode in self.activities.now(messages=False) if now - episode.since >= LONG]
        long.sort(key=lambda episode: episode.since)
        return [waiting_line(episode, now) for episode in long[:NAMED]]

    def total(self, name: str) -> int:
        """One count over all arms."""
        return sum(getattr(arm, name) for arm in self.arms.values())


def arm_of(lane: str, phase: Phase = "learn") -> str:
    """The group that a lane's episodes are counted in: its arm, weights and phase. A lane outside an experiment is its
    own arm."""
    name = arm_and_weights(lane)
    return f"{name}, held out" if phase == "heldout" else name


def endings_of(stops: Counter[str]) -> str:
    """`7 reply cut, 1 no answer`: counts of the stop reasons other than an answer."""
    return ", ".join(
        f"{stops[reason]} {plain}" for reason, plain in PLAIN.items() if reason != "answered" and stops[reason]
    )


class Progress(Protocol):
    """A view of a run: entered when rollouts start, and called once per episode."""

    def __enter__(self) -> "Progress": ...
    def __exit__(self, *exc: object) -> None: ...
    def __call__(self, episode: EpisodeSummary) -> None: ...


@dataclass
class Quiet:
    """Counts and shows nothing."""

    tally: Tally

    def __enter__(self) -> "Quiet":
        self.tally.start()
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __call__(self, episode: EpisodeSummary) -> None:
        self.tally.add(episode)


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.1f}"


def waiting_line(episode: Running, now: float) -> str:
    """`oldest: ledger|w3-07|on|0|0: turn 4, waiting for the model for 0:37`."""
    turn = f"turn {episode.turn}, " if episode.turn else ""
    waits = f"{turn}waiting for {WAITS_FOR[episode.state]} for {clock(now - episode.since)}"
    return f"oldest: {episode.key}: {waits}"


def share(part: int, whole: int) -> str:
    """`3/10 30 %`."""
    return f"{part}/{whole} {part / whole:4.0%}" if whole else "-"


def clock(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
