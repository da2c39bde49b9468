"""The budget of a run: once it is spent, no new rollout starts."""

import time
from collections.abc import Mapping

from msgspec import Struct

from hermes_lab.config.schema import BudgetConfig
from hermes_lab.runners.engine.episode_summary import EpisodeSummary
from hermes_lab.text.counted import counted


class Share(Struct, frozen=True):
    """How much of one limit is used."""

    used: float
    limit: float

    def __str__(self) -> str:
        return f"{_number(self.used)} of {_number(self.limit)}"


class Budget:
    """The limits of a run and their use: tasks and tokens over all starts, hours of the current start.

    Rollouts already in flight are finished and kept, so the task limit is exact, while tokens and hours can overshoot
    by what those rollouts still use. A limit of tokens ends the run after the first episode with a model call whose
    tokens the server did not report: nobody can tell when it is reached.
    """

    def __init__(self, limits: BudgetConfig | None = None) -> None:
        self._limits = limits or BudgetConfig()
        self._started = time.monotonic()
        self._tasks = self._tokens = self._uncounted = self._running = 0
        self._spent = ""

    @property
    def limited(self) -> bool:
        """Whether any limit is set."""
        return bool(self.shares)

    @property
    def shares(self) -> Mapping[str, Share]:
        """The use of each limit that is set, by name."""
        limits = self._limits
        hours = (time.monotonic() - self._started) / 3600
        used = {"tasks": (self._tasks, limits.tasks), "tokens": (self._tokens, limits.tokens)}
        every = {name: Share(*share) for name, share in (used | {"hours": (hours, limits.hours)}).items()}
        return {name: share for name, share in every.items() if share.limit}

    @property
    def spent(self) -> str:
        """The limit that stopped a rollout from starting, as `budget.tokens is spent (...)`; "" if there is none."""
        if self._spent == "tokens" and self._uncounted:
            return f"budget.tokens cannot be enforced: {counted(self._uncounted, 'model call')} had no `usage`"
        return f"budget.{self._spent} is spent ({self.shares[self._spent]})" if self._spent else ""

    @property
    def remedy(self) -> str:
        """What to change for a resume, once it is `spent`."""
        return "set budget.tokens=0" if self._spent == "tokens" and self._uncounted else "raise the budget"

    def allows(self) -> bool:
        """Whether one more rollout may start. If not, `spent` says why."""
        if self._uncounted and self._limits.tokens:
            self._spent = self._spent or "tokens"
            return False
        running = {"tasks": self._running}
        for name, share in self.shares.items():
            if share.used + running.get(name, 0) >= share.limit:
                self._spent = self._spent or name
                return False
        return True

    def begin(self) -> bool:
        """Counts a rollout as running until `end`. Returns False, and counts nothing, if no more are allowed."""
        allowed = self.allows()
        self._running += allowed
        return allowed

    def end(self) -> None:
        """Counts a rollout as ended; its use is counted by `add`."""
        self._running -= 1

    def add(self, episode: EpisodeSummary) -> None:
        """Counts a finished episode."""
        self._tasks += 1
        self._tokens += episode.tokens
        self._uncounted += episode.uncounted


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
