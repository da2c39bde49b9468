"""Schedules rollouts: a fixed number of slots; a free slot goes to the lane in the lowest round (with a stopping rule,
of the lowest unit)."""

from collections import Counter
from heapq import heapify, heappop, heappush

import anyio


class Scheduler:
    """Scheduler for rollouts. Of the waiting lanes, the one in the lowest round goes first; ties go to the first in the
    plan, where the arms of a replicate and world are adjacent.

    `lead`: the maximum number of rounds that a lane may be ahead of the slowest one; None for no limit. A limit keeps
    lanes at about the same round when a budget ends the run, so that their episodes can be paired.
    """

    def __init__(self, count: int, *, lead: int | None = None) -> None:
        self._free = count
        self._lead = lead
        self._waiting: list[tuple[int, int, int, anyio.Event]] = []
        self._arrived = 0
        self._lanes = Counter[int]()
        self._least = 0

    def join(self, round_: int = 0) -> None:
        """Adds a lane at its first round. All lanes join before any acquires."""
        self._lanes[round_] += 1

    def move(self, round_: int, to: int | None) -> None:
        """Moves a lane from `round_` to a later one, or removes it (None), so that it no longer holds others back."""
        self._lanes[round_] -= 1
        if to is not None:
            self._lanes[to] += 1
        while self._lanes.total() and not self._lanes[self._least]:
            self._least += 1
        self._grant()

    async def acquire(self, round_: int, lane: int = 0) -> None:
        """Waits for a slot. `lane` is the lane's position in the plan."""
        event = anyio.Event()
        heappush(self._waiting, (round_, lane, self._arrived, event))
        self._arrived += 1
        self._grant()
        try:
            await event.wait()
        except BaseException:
            if event.is_set():
                self.release()
            else:
                self._waiting = [each for each in self._waiting if each[3] is not event]
                heapify(self._waiting)
            raise

    def release(self) -> None:
        """Frees a slot."""
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        while self._free and self._waiting:
            if self._lead is not None and self._waiting[0][0] > self._least + self._lead:
                return
            self._free -= 1
            heappop(self._waiting)[3].set()
