"""Whose turn it is: rollouts run so many at once, and a free slot goes to the lane that is least far."""

from collections import Counter
from heapq import heapify, heappop, heappush

import anyio


class Scheduler:
    """Scheduler for rollouts. Where several lanes wait, the one in the lowest round goes first, and of those the one
    that comes first in the plan, in which the arms of a replicate and world stand together.

    `lead`: no lane goes more rounds than that ahead of the one that is least far; None lets it. So whenever no more may
    begin, all lanes have come about equally far, and their episodes pair.
    """

    def __init__(self, count: int, *, lead: int | None = None) -> None:
        self._free = count
        self._lead = lead
        self._waiting: list[tuple[int, int, int, anyio.Event]] = []
        self._arrived = 0
        self._lanes = Counter[int]()
        self._least = 0

    def join(self) -> None:
        """A lane begins with its first round. All join before any acquires."""
        self._lanes[0] += 1

    def move(self, round_: int, to: int | None) -> None:
        """A lane leaves `round_` for a later one, or, to None, for good: it holds no other back any more."""
        self._lanes[round_] -= 1
        if to is not None:
            self._lanes[to] += 1
        while self._lanes.total() and not self._lanes[self._least]:
            self._least += 1
        self._grant()

    async def acquire(self, round_: int, lane: int = 0) -> None:
        """Waits for a slot, for the lane of that number in the plan."""
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
        """Gives a slot back."""
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        while self._free and self._waiting:
            if self._lead is not None and self._waiting[0][0] > self._least + self._lead:
                return
            self._free -= 1
            heappop(self._waiting)[3].set()
