"""The loop that runs jobs at their slots. Any number of tickers may work on one home: each slot is claimed once."""

import math
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from hermes_lab.cron.database import opened, read, written
from hermes_lab.cron.deliver import Deliver, files_of, is_path, text_of, write_copy
from hermes_lab.cron.jobs import JobStore
from hermes_lab.cron.runs import Claim, Outcome, Run, RunStore
from hermes_lab.errors import HermesLabError, InfraError, StoreError
from hermes_lab.migrations import transaction

ON_TIME = timedelta(minutes=1)
"""How late a ticker may come to a slot."""
TICK_ON_TIME = timedelta(hours=1)
"""How late `once` may come to a slot: the system's crontab calls it from time to time."""
BEAT_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_THREADS = 4
RunJob = Callable[[Claim, IO[bytes]], Awaitable[Outcome]]
T = TypeVar("T")


class Clock(Protocol):
    """What time it is."""

    def now(self) -> datetime:
        """The time, in UTC."""
        ...

    async def sleep_until(self, moment: datetime) -> None:
        """Returns at that time, or later."""
        ...


class SystemClock:
    """See `Clock`."""

    def now(self) -> datetime:
        """See `Clock`."""
        return datetime.now(UTC)

    async def sleep_until(self, moment: datetime) -> None:
        """See `Clock`. Looks at the clock every second, since it may be set, and the machine may sleep."""
        while (left := (moment - self.now()).total_seconds()) > 0:  # noqa: ASYNC110  # no event tells the time
            await anyio.sleep(min(left, _LOOK_SECONDS))


class Beat(NamedTuple):
    """A ticker that runs, or was killed. `beat` is when it last said that it lives."""

    pid: int
    since: datetime
    beat: datetime

    def lives(self, now: datetime) -> bool:
        """Whether it has said so lately."""
        return abs(now - self.beat) < timedelta(seconds=3 * BEAT_SECONDS)


class Ticker:
    """Runs the jobs of one home, side by side. `deliver` sends results to chat platforms; without it they are kept for
    a day, for a ticker that has one. At most `prompts` of them ask the agent at the same time. `say` gets status
    lines."""

    def __init__(
        self,
        home: Path,
        run: RunJob,
        *,
        say: Callable[[str], None],
        deliver: Deliver | None = None,
        clock: Clock | None = None,
        prompts: float = math.inf,
    ) -> None:
        self._runs = RunStore(home)
        self._jobs = JobStore(home)
        self._home = home
        self._run = run
        self._say = say
        self._deliver = deliver
        self._clock = clock or SystemClock()
        self._id = secrets.token_hex(8)
        self._since = self._clock.now()
        self._wake = anyio.Event()
        self._next: datetime | None = None
        # Separate threads, since jobs may occupy all those of anyio.
        self._limiter = anyio.CapacityLimiter(_THREADS)
        self._prompts = anyio.CapacityLimiter(prompts)
        self._delivering: set[int] = set()
        self.working = 0
        """How many jobs it runs now."""
        self.paused = False
        """Whether no job is begun, because the process is about to restart."""

    async def run(self) -> None:
        """Runs jobs until it is cancelled, which interrupts the jobs under way."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch)
                while True:
                    try:
                        await self._step(group, ON_TIME)
                    except StoreError as error:  # a locked database, a full disk: the other jobs go on
                        self._say(f"cron: {error}; trying again")
                        self._next = self._clock.now() + timedelta(seconds=BEAT_SECONDS)
                    await self._sleep()
        finally:
            with anyio.CancelScope(shield=True), suppress(StoreError):
                await self._thread(self._leave)

    async def once(self) -> int:
        """Runs what is due now, and returns when that has ended: the number of runs."""
        async with anyio.create_task_group() as group:
            begun = await self._step(group, TICK_ON_TIME)
        await self._thread(self._leave)
        return begun

    async def work(self, claim: Claim) -> Run | None:
        """Runs a claimed job to its end, and delivers its result; None if the claim was given up meanwhile. What fails
        is recorded. Raises `StoreError` if it cannot be recorded."""
        self.working += 1
        try:
            if (output := await self._thread(self._runs.begin, claim, self._clock.now())) is None:
                return None
            with output:
                run = await self._recorded(claim, output)
            return await self._delivered(claim, run)
        finally:
            self.working -= 1

    async def _step(self, group: anyio.abc.TaskGroup, late: timedelta) -> int:
        if self.paused:
            self._next = self._clock.now() + timedelta(seconds=BEAT_SECONDS)
            return 0
        now = self._clock.now()
        interrupted, claims = await self._thread(self._look, now, late)
        for run in interrupted:
            self._say(f"cron: {run.job} at {run.slot} was interrupted: {run.note}")
        for claim in claims:
            group.start_soon(self._guarded, claim)
        group.start_soon(self._deliver_kept, now)
        self._next = await self._thread(self._runs.next_slot)
        return len(claims)

    def _look(self, now: datetime, late: timedelta) -> tuple[list[Run], list[Claim]]:
        """What was interrupted, and what is to be run now. Blocks."""
        self._beat(now)
        interrupted = self._runs.recover(now)
        return interrupted, self._runs.repeat_interrupted(now) + self._runs.claim(now, late)

    async def _guarded(self, claim: Claim) -> None:
        try:
            await self.work(claim)
        except Exception as error:  # nothing that one job does ends the others
            note = _one_line(error)
            self._say(f"cron: {claim.job.name}: {note}")
            with suppress(HermesLabError):
                await self._thread(self._runs.finish, claim, Outcome("failed", note=note), self._clock.now(), 0.0)

    async def _recorded(self, claim: Claim, output: IO[bytes]) -> Run:
        began = time.monotonic()
        outcome = Outcome("interrupted", note="the ticker was stopped")
        try:
            turn: AbstractAsyncContextManager[None]
            turn = self._prompts if claim.job.definition.prompt else nullcontext()
            async with turn:
                began = time.monotonic()
                with anyio.move_on_after(claim.job.definition.max_seconds) as scope:
                    outcome = await self._run(claim, output)
            if scope.cancelled_caught:
                outcome = Outcome("timeout", note=f"ended after max_seconds, {claim.job.definition.max_seconds:g} s")
        except Exception as error:
            outcome = Outcome("failed", note=_one_line(error))
        finally:
            with anyio.CancelScope(shield=True):
                output.flush()
                os.fsync(output.fileno())
                seconds = time.monotonic() - began
                run = await self._thread(self._runs.finish, claim, outcome, self._clock.now(), seconds)
        self._say(f"cron: {run.job} at {run.slot}: {run.state}" + (f"; {run.note}" if run.note else ""))
        return run

    async def _delivered(self, claim: Claim, run: Run) -> Run:
        if not run.target or run.number in self._delivering:
            return run
        self._delivering.add(run.number)
        try:
            await self._send(claim, run)
        finally:
            self._delivering.discard(run.number)
        return run

    async def _send(self, claim: Claim, run: Run) -> None:
        delivery, why = "delivered", ""
        try:
            text = await self._thread(text_of, claim.job, run)
            if is_path(run.target):
                await self._thread(write_copy, run.target, text)
            elif self._deliver:
                name = f"cron-{run.job}-{run.slot}-{run.attempt}"  # numbers begin anew if cron.db is moved away
                await self._deliver(name, run.target, text, await self._thread(files_of, Claim(*claim[:2], run)))
            else:
                delivery, why = "undelivered", "no gateway runs here"
        except (InfraError, OSError) as error:  # such as a full disk: the next step tries again
            delivery, why = "undelivered", _one_line(error)
        except Exception as error:  # the output file stays
            delivery, why = "refused", _one_line(error)
        new = await self._thread(self._runs.note_delivery, run, delivery, why)
        if new and why:  # without the target: in logs no ids of chats may stand
            self._say(f"cron: {run.job} at {run.slot}: {delivery}; `hermes-lab cron runs` says why")

    async def _deliver_kept(self, now: datetime) -> None:
        """Delivers what other tickers kept, or could not deliver before they were killed."""
        try:
            jobs = {job.name: job for job in await self._thread(self._jobs.all)}
            for run in await self._thread(self._runs.undelivered, now):
                if (job := jobs.get(run.job)) and (self._deliver or is_path(run.target)):
                    await self._delivered(Claim(job, read(run.slot), run), run)
        except Exception as error:
            self._say(f"cron: {_one_line(error)}")

    async def _sleep(self) -> None:
        """Sleeps until the next slot, or until there is something else to do."""
        async with anyio.create_task_group() as group:

            async def slot(moment: datetime) -> None:
                await self._clock.sleep_until(moment)
                group.cancel_scope.cancel()

            if self._next:
                group.start_soon(slot, self._next)
            await self._wake.wait()
            group.cancel_scope.cancel()
        self._wake = anyio.Event()

    async def _watch(self) -> None:
        """Wakes the loop to say that it lives, and when jobs were changed."""
        while True:
            beat = time.monotonic() + BEAT_SECONDS
            while time.monotonic() < beat:
                await anyio.sleep(_LOOK_SECONDS)
                with suppress(StoreError):
                    if await self._thread(self._runs.next_slot) != self._next:
                        break
            self._wake.set()

    def _beat(self, now: datetime) -> None:
        with opened(self._home) as db, transaction(db):
            db.execute("DELETE FROM tickers WHERE beat < ?", (written(now - timedelta(days=1)),))
            row = (self._id, os.getpid(), written(self._since), written(now))
            db.execute("INSERT OR REPLACE INTO tickers VALUES (?, ?, ?, ?)", row)

    def _leave(self) -> None:
        with opened(self._home) as db, transaction(db):
            db.execute("DELETE FROM tickers WHERE id = ?", (self._id,))

    async def _thread(self, work: Callable[..., T], *values: Any) -> T:
        return await anyio.to_thread.run_sync(partial(work, *values), limiter=self._limiter)


def beats(home: Path) -> Sequence[Beat]:
    """The tickers of a home, the latest beat first. Blocks."""
    with opened(home) as db:
        rows = db.execute("SELECT pid, since, beat FROM tickers ORDER BY beat DESC").fetchall()
    return [Beat(int(pid), read(since), read(beat)) for pid, since, beat in rows]


def _one_line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):  # of a task group, whose other tasks were cancelled
        error = error.exceptions[0]
    kind = "" if isinstance(error, HermesLabError) else f"{type(error).__name__}: "
    return " ".join(f"{kind}{error}".split())
