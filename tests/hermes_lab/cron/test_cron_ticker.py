"""The ticker on a driven clock and on the real one: every slot once, and no job delays another."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any
from zoneinfo import ZoneInfo

import anyio
import pytest

from hermes_lab.cron.database import opened, read, written
from hermes_lab.cron.jobs import JobStore, definition_of
from hermes_lab.cron.runs import Claim, Outcome, Run, RunStore
from hermes_lab.cron.ticker import ON_TIME, Beat, Ticker, beats
from hermes_lab.errors import ConfigError, StoreError

pytestmark = pytest.mark.anyio
BEGIN = datetime(2027, 1, 1, 0, 0, 30, tzinfo=UTC)
ZONES = ("Europe/Berlin", "Asia/Tokyo", "UTC")


def busy(ticker: Ticker) -> bool:
    """Whether it runs a job, or delivers now what was kept."""
    return ticker.working > 0 or any(task.name and "_deliver_kept" in task.name for task in anyio.get_running_tasks())


class DrivenClock:
    """A clock that jumps to the time that is waited for, once the ticker is not busy; at `end` it waits for ever."""

    def __init__(self, begin: datetime, end: datetime) -> None:
        self._now = begin
        self._end = end
        self.ticker: Ticker | None = None
        self.ended = anyio.Event()

    def now(self) -> datetime:
        return self._now

    async def sleep_until(self, moment: datetime) -> None:
        while self.ticker and busy(self.ticker):  # noqa: ASYNC110
            await anyio.sleep(0.0005)  # a loop that never waits would slow down the ticker's threads
        if moment > self._end:
            self.ended.set()
            await anyio.sleep_forever()
        self._now = max(self._now, moment)


async def drive(home: Path, clock: DrivenClock, run: Any, **more: Any) -> None:
    """Runs a ticker to the clock's end, or until no job has a slot left."""
    clock.ticker = Ticker(home, run, say=lambda _: None, clock=clock, **more)
    runs = RunStore(home)
    async with anyio.create_task_group() as group:
        group.start_soon(clock.ticker.run)
        while not clock.ended.is_set():
            idle = runs.next_slot() is None and not busy(clock.ticker)
            if idle and not any(run.state in ("claimed", "running") for run in runs.latest()):
                break
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()


async def well(claim: Claim, output: IO[bytes]) -> Outcome:
    output.write(b"done")
    return Outcome("ok")


def add(home: Path, name: str, schedule: str, now: datetime = BEGIN, **fields: Any) -> None:
    definition = definition_of(**({"name": name, "schedule": schedule, "prompt": "x", "zone": "UTC"} | fields))
    JobStore(home).add(definition, now)


def states(home: Path, job: str = "") -> list[tuple[str, str]]:
    return [(run.slot, run.state) for run in reversed(RunStore(home).latest(10_000, job))]


@pytest.fixture
def fast_home() -> Iterator[Path]:
    """A folder in memory, for thousands of transactions."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


SCHEDULES = ["30 2 * * *", "0 3 * * 0", "15 1 * * 6,0", "0 9 1 * *", "0 0 29 2 *", "45 23 * * 1-5"]


def wanted(home: Path, end: datetime, begin: datetime = BEGIN) -> set[tuple[str, datetime]]:
    """The slots of all jobs from `begin` to `end`."""
    found = set()
    for job in JobStore(home).all():
        slot = job.schedule.after(begin)
        while slot is not None and slot <= end:
            found.add((job.name, slot))
            slot = job.schedule.after(slot)
    return found


def test_every_slot_of_fifty_jobs_in_three_zones_is_claimed_exactly_once_in_400_days(fast_home: Path) -> None:
    end = BEGIN + timedelta(days=400)
    for number in range(51):
        fields = SCHEDULES[number // 3] if number < 18 else f"{number} {number % 24} {number % 28 + 1} * *"
        add(fast_home, f"job {number}", fields, zone=ZONES[number % 3])
    slots, store = wanted(fast_home, end), RunStore(fast_home)
    claimed: Counter[tuple[str, datetime]] = Counter()
    with opened(fast_home):  # or every call, as the last to close the database, tidies it
        while (now := store.next_slot()) is not None and now <= end:
            for claim in store.claim(now, ON_TIME):
                claimed[claim.job.name, claim.slot] += 1
                store.finish(claim, Outcome("ok"), now, 0.0)
    assert len(slots) > 2_000
    assert set(claimed) == slots
    assert set(claimed.values()) == {1}
    assert Counter(run.state for run in store.latest(100_000)) == {"ok": len(slots)}
    # 2:30 does not come on one of these days in Berlin, and comes twice on another.
    for number, zone in enumerate(map(ZoneInfo, ZONES)):
        days = sorted(slot.astimezone(zone).date() for name, slot in claimed if name == f"job {number}")
        first = BEGIN.astimezone(zone).date() + timedelta(days=zone.key == "Asia/Tokyo")
        assert days == [first + timedelta(days=day) for day in range(len(days))]
        assert len(days) in (400, 401)


@pytest.mark.parametrize("begin", [datetime(2027, 3, 25, tzinfo=UTC), datetime(2027, 10, 28, tzinfo=UTC)])
async def test_a_ticker_runs_every_slot_where_the_clock_is_changed(begin: datetime, fast_home: Path) -> None:
    for number, fields in enumerate([*SCHEDULES, "*/30 1-3 * * *", "every 5h"]):
        for zone in ZONES:
            add(fast_home, f"job {number} {zone[:3]}", fields, begin, zone=zone)
    end = begin + timedelta(days=8)
    ran: Counter[tuple[str, datetime]] = Counter()

    async def run(claim: Claim, output: IO[bytes]) -> Outcome:
        ran[claim.job.name, claim.slot] += 1
        return Outcome("ok")

    await drive(fast_home, DrivenClock(begin, end), run)
    assert set(ran) == wanted(fast_home, end, begin)
    assert set(ran.values()) == {1}
    assert {run.state for run in RunStore(fast_home).latest(100_000)} == {"ok"}


async def test_a_job_that_hangs_delays_none_of_the_others(fast_home: Path) -> None:
    now = datetime.now(UTC)
    slot = (now + timedelta(seconds=3)).replace(microsecond=0)
    for number in range(50):
        add(fast_home, f"job {number}", written(slot), now)
    begun: dict[str, datetime] = {}
    all_begun = anyio.Event()

    async def run(claim: Claim, output: IO[bytes]) -> Outcome:
        begun[claim.job.name] = datetime.now(UTC)
        if len(begun) == 50:
            all_begun.set()
        if claim.job.name == "job 0":
            await anyio.sleep_forever()
        return Outcome("ok")

    async with anyio.create_task_group() as group:
        group.start_soon(Ticker(fast_home, run, say=lambda _: None).run)
        await all_begun.wait()
        while Counter(state for _, state in states(fast_home)) != {"ok": 49, "running": 1}:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    assert min(begun.values()) >= slot
    assert Counter(state for _, state in states(fast_home)) == {"ok": 49, "interrupted": 1}


async def test_prompts_wait_for_their_turn_and_commands_do_not(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    add(tmp_path, "first", "every 1s", now, repeat=1)
    add(tmp_path, "second", "every 3s", now, repeat=1, max_seconds=0.05)
    add(tmp_path, "command", "every 3s", now, repeat=1, prompt=None, command="doctor")
    begun: list[str] = []
    released = anyio.Event()

    async def run(claim: Claim, output: IO[bytes]) -> Outcome:
        begun.append(claim.job.name)
        if claim.job.name == "first":
            await released.wait()
        return Outcome("ok")

    def ended() -> dict[str, str]:
        return {each.job: each.state for each in RunStore(tmp_path).latest()}

    async with anyio.create_task_group() as group:
        group.start_soon(Ticker(tmp_path, run, say=lambda _: None, prompts=1).run)
        while ended() != {"first": "running", "second": "running", "command": "ok"}:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        await anyio.sleep(0.2)  # longer than the second may take
        assert begun == ["first", "command"]
        released.set()
        while set(ended().values()) != {"ok"}:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    assert begun == ["first", "command", "second"]


async def test_two_tickers_share_the_slots(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    for number in range(10):
        add(tmp_path, f"job {number}", "every 1s", now, repeat=3)
    ran: Counter[tuple[str, datetime]] = Counter()

    async def run(claim: Claim, output: IO[bytes]) -> Outcome:
        ran[claim.job.name, claim.slot] += 1
        return Outcome("ok")

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(Ticker(tmp_path, run, say=lambda _: None).run)
        while any(job.state == "active" for job in JobStore(tmp_path).all()):  # noqa: ASYNC110
            await anyio.sleep(0.1)
        assert len(beats(tmp_path)) == 2
        while sum(ran.values()) < 30:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    assert set(ran.values()) == {1}
    assert Counter(name for name, _ in ran) == {f"job {number}": 3 for number in range(10)}
    assert beats(tmp_path) == []


def test_a_slot_that_two_stores_want_is_claimed_by_one(tmp_path: Path) -> None:
    add(tmp_path, "a", "0 * * * *")
    at = BEGIN.replace(minute=0, second=0) + timedelta(hours=1)
    assert RunStore(tmp_path).claim(at - timedelta(milliseconds=1), ON_TIME) == []
    (claim,) = RunStore(tmp_path).claim(at + timedelta(milliseconds=1), ON_TIME)
    assert claim.slot == at
    assert RunStore(tmp_path).claim(at, ON_TIME) == []
    # Not even after the job was removed and made again.
    RunStore(tmp_path).finish(claim, Outcome("ok"), at, 1.0)
    JobStore(tmp_path).remove("a")
    add(tmp_path, "a", "0 * * * *")
    assert RunStore(tmp_path).claim(at, ON_TIME) == []


@pytest.mark.parametrize(("missed", "state"), [("skip", "missed"), ("once", "claimed")])
def test_missed_slots_are_recorded_or_run_once(missed: str, state: str, tmp_path: Path) -> None:
    add(tmp_path, "a", "0 * * * *", missed=missed)
    later = BEGIN + timedelta(hours=10, minutes=20)
    claims = RunStore(tmp_path).claim(later, ON_TIME)
    last = later.replace(minute=0, second=0)
    assert [claim.slot for claim in claims] == ([last] if missed == "once" else [])
    (run,) = RunStore(tmp_path).latest()
    assert (run.state, run.note, run.slot) == (state, "9 missed before", written(last))
    assert JobStore(tmp_path).find("a").next == last + timedelta(hours=1)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_was_ahead_stops_no_job(restarted: bool, tmp_path: Path) -> None:
    ahead = BEGIN + timedelta(days=1500)
    add(tmp_path, "daily", "0 9 * * *")
    add(tmp_path, "often", "every 2h")
    store = RunStore(tmp_path)
    assert store.claim(BEGIN, ON_TIME) == []
    store.claim(ahead, ON_TIME)
    add(tmp_path, "late", "every 3h", ahead)
    store = RunStore(tmp_path) if restarted else store
    assert store.claim(BEGIN + timedelta(hours=1), ON_TIME) == []
    expected = {"daily": BEGIN.replace(hour=9, second=0), "often": BEGIN + timedelta(hours=2)}
    assert {job.name: job.next for job in JobStore(tmp_path).all()} == expected | {"late": BEGIN + timedelta(hours=4)}
    assert [claim.job.name for claim in store.claim(BEGIN.replace(hour=9, second=0), ON_TIME)] == ["daily"]
    assert not Beat(1, BEGIN, ahead).lives(BEGIN)


def test_a_slot_that_ran_on_a_clock_ahead_runs_once(tmp_path: Path) -> None:
    add(tmp_path, "a", "0 9 * * *", repeat=2)
    store, first = RunStore(tmp_path), BEGIN.replace(hour=9, second=0)
    (claim,) = store.claim(first, ON_TIME)
    store.finish(claim, Outcome("ok"), first, 1.0)
    assert store.claim(first - timedelta(hours=3), ON_TIME) == []
    assert JobStore(tmp_path).find("a").next == first
    assert store.claim(first, ON_TIME) == []
    assert JobStore(tmp_path).find("a").done == 1
    assert [claim.slot for claim in store.claim(first + timedelta(days=1), ON_TIME)] == [first + timedelta(days=1)]


def test_a_slot_is_skipped_while_the_job_still_runs(tmp_path: Path) -> None:
    add(tmp_path, "a", "0 * * * *")
    store, first = RunStore(tmp_path), BEGIN.replace(minute=0, second=0) + timedelta(hours=1)
    (claim,) = store.claim(first, ON_TIME)
    with store.begin(claim, first) or pytest.fail("not begun"):
        assert store.claim(first + timedelta(hours=1), ON_TIME) == []
        assert store.recover(first + timedelta(hours=1)) == []
        store.finish(claim, Outcome("ok"), first, 1.0)
    assert [state for _, state in states(tmp_path)] == ["ok", "skipped"]
    assert len(store.claim(first + timedelta(hours=2), ON_TIME)) == 1


def test_a_run_that_was_taken_for_lost_does_not_begin(tmp_path: Path) -> None:
    add(tmp_path, "a", "0 * * * *")
    store, first = RunStore(tmp_path), BEGIN.replace(minute=0, second=0) + timedelta(hours=1)
    (claim,) = store.claim(first, ON_TIME)
    assert store.recover(first) == []
    (lost,) = store.recover(first + timedelta(minutes=2))
    assert (lost.state, lost.note) == ("interrupted", "its process ended before it began")
    assert store.begin(claim, first) is None


@pytest.mark.parametrize("retry", [0, 2])
def test_an_interrupted_run_is_repeated_as_often_as_the_job_says(retry: int, tmp_path: Path) -> None:
    add(tmp_path, "a", "0 9 * * *", retry=retry)
    store, now = RunStore(tmp_path), BEGIN.replace(hour=9, minute=0, second=0)
    claims = store.claim(now, ON_TIME)
    attempts = 0
    while claims:
        attempts += 1
        file = store.begin(claims[0], now)
        assert file
        file.close()  # as its process ends
        assert [run.state for run in store.recover(now)] == ["interrupted"]
        claims = store.repeat_interrupted(now)
    assert attempts == 1 + retry
    assert states(tmp_path) == [(written(now), "interrupted")]


async def test_repeat_ends_a_job(tmp_path: Path) -> None:
    add(tmp_path, "a", "@daily", repeat=3)
    add(tmp_path, "once", "2027-01-05 12:00")
    await drive(tmp_path, DrivenClock(BEGIN, BEGIN + timedelta(days=9)), well)
    assert len(states(tmp_path, "a")) == 3
    assert states(tmp_path, "once") == [("2027-01-05T12:00:00.000Z", "ok")]
    assert {job.state for job in JobStore(tmp_path).all()} == {"done"}


async def test_what_fails_is_recorded_and_the_next_slot_comes(tmp_path: Path) -> None:
    add(tmp_path, "a", "@daily", repeat=2, max_seconds=0.05)

    async def run(claim: Claim, output: IO[bytes]) -> Outcome:
        if claim.slot.day == 2:
            raise RuntimeError("broken\nbadly")
        await anyio.sleep_forever()
        raise AssertionError

    await drive(tmp_path, DrivenClock(BEGIN, BEGIN + timedelta(days=4)), run)
    found = [(run.state, run.note) for run in reversed(RunStore(tmp_path).latest())]
    assert found == [("failed", "RuntimeError: broken badly"), ("timeout", "ended after max_seconds, 0.05 s")]


class Sent:
    """A delivery that keeps what it gets."""

    def __init__(self, failure: Exception | None = None, times: int = 1_000) -> None:
        self.sent: list[tuple[str, str, list[str]]] = []
        self._failure = failure
        self._times = times

    async def __call__(self, name: str, target: str, text: str, files: Sequence[Path]) -> None:
        if self._failure and self._times:
            self._times -= 1
            raise self._failure
        self.sent.append((target, text, [file.name for file in files]))


def deliveries(home: Path) -> list[tuple[str, str]]:
    return deliveries_of(home, "")


def deliveries_of(home: Path, job: str) -> list[tuple[str, str]]:
    return [(run.delivery, run.note) for run in reversed(RunStore(home).latest(20, job))]


async def test_results_go_where_the_job_says(tmp_path: Path) -> None:
    for name, day in (("night-2027-01-02.png", 2), ("night-2027-01-02.old", 1)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, times=(datetime(2027, 1, day, tzinfo=UTC).timestamp(),) * 2)
    JobStore(tmp_path).add(
        definition_of(
            name="chat", schedule="2027-01-02", prompt="x", zone="UTC", deliver="origin", files=["night-{date}.*"]
        ),
        BEGIN,
        origin="telegram:dm:1",
    )
    add(tmp_path, "file", "2027-01-03", deliver="./news/{}.txt")
    add(tmp_path, "local", "2027-01-04")
    deliver = Sent()
    await drive(tmp_path, DrivenClock(BEGIN, BEGIN + timedelta(days=5)), well, deliver=deliver)
    assert deliver.sent == [("telegram:dm:1", "done", ["night-2027-01-02.png"])]
    assert (tmp_path / "news" / "{}.txt").read_text() == "done\n"
    assert deliveries(tmp_path) == [("delivered", ""), ("delivered", ""), ("", "")]
    assert (tmp_path / "cron" / "local" / "20270104T000000Z.txt").read_text() == "done"


async def test_a_result_that_nobody_can_deliver_is_kept_for_who_can(tmp_path: Path) -> None:
    add(tmp_path, "a", "2027-01-02", deliver="telegram")
    await drive(tmp_path, DrivenClock(BEGIN, BEGIN + timedelta(days=1)), well)
    assert deliveries(tmp_path) == [("undelivered", "kept for telegram: no gateway runs here")]
    deliver = Sent()
    clock = DrivenClock(BEGIN + timedelta(days=1), BEGIN + timedelta(days=2))
    add(tmp_path, "other", "2027-01-02 12:00")
    await drive(tmp_path, clock, well, deliver=deliver)
    assert deliver.sent == [("telegram", "done", [])]
    assert deliveries(tmp_path)[0] == ("delivered", "")


@pytest.mark.parametrize("failure", [StoreError("the disk is full"), OSError(28, "No space left on device")])
async def test_a_moment_without_a_disk_only_delays_a_result(failure: Exception, tmp_path: Path) -> None:
    add(tmp_path, "a", "2027-01-02", deliver="telegram")
    add(tmp_path, "other", "every 1h", repeat=30)
    deliver, said, clock = Sent(failure, times=3), [], DrivenClock(BEGIN, BEGIN + timedelta(days=1, hours=8))
    clock.ticker = Ticker(tmp_path, well, say=said.append, clock=clock, deliver=deliver)
    async with anyio.create_task_group() as group:
        group.start_soon(clock.ticker.run)
        while not deliver.sent or deliveries_of(tmp_path, "a") != [("delivered", "")]:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    assert deliver.sent == [("telegram", "done", [])]
    assert len([line for line in said if "undelivered" in line]) == 1  # not at every attempt


async def test_a_file_that_cannot_be_written_now_is_written_later(tmp_path: Path) -> None:
    (tmp_path / "news").touch()  # where the folder is to be
    add(tmp_path, "a", "2027-01-02", deliver="./news/a.txt")
    add(tmp_path, "other", "2027-01-02 12:00")
    await drive(tmp_path, DrivenClock(BEGIN, BEGIN + timedelta(days=1, hours=1)), well)
    ((delivery, note),) = deliveries_of(tmp_path, "a")
    assert delivery == "undelivered"
    assert note.startswith(f"kept for {tmp_path}/news/a.txt: ")
    (tmp_path / "news").unlink()
    await drive(tmp_path, DrivenClock(BEGIN + timedelta(days=1, hours=1), BEGIN + timedelta(days=2)), well)
    assert deliveries_of(tmp_path, "a") == [("delivered", "")]
    assert (tmp_path / "news" / "a.txt").read_text() == "done\n"


@pytest.mark.parametrize("ended", [True, False])
async def test_the_next_ticker_delivers_what_a_killed_one_did_not(ended: bool, tmp_path: Path) -> None:
    add(tmp_path, "a", "2027-01-02", deliver="telegram:dm:1")
    add(tmp_path, "file", "2027-01-02", deliver="./told.txt")
    add(tmp_path, "other", "2027-01-02 12:00")
    store, now = RunStore(tmp_path), datetime(2027, 1, 2, tzinfo=UTC)
    for claim in store.claim(now, ON_TIME):
        with store.begin(claim, now) or pytest.fail("not begun") as output:
            await well(claim, output)
            if ended:
                store.finish(claim, Outcome("ok"), now, 1.0)
    deliver = Sent()
    await drive(tmp_path, DrivenClock(now, now + timedelta(days=1)), well, deliver=deliver)
    text = "done" if ended else "a: interrupted, 0 s; its process ended\ndone"
    assert deliver.sent == [("telegram:dm:1", text, [])]
    assert (tmp_path / "told.txt").read_text() == f"{text.replace('a:', 'file:')}\n"
    assert [delivery for delivery, _ in deliveries(tmp_path)] == ["delivered", "delivered", ""]


def test_what_one_ticker_delivered_another_does_not_keep(tmp_path: Path) -> None:
    add(tmp_path, "a", "2027-01-02", deliver="telegram")
    store, now = RunStore(tmp_path), datetime(2027, 1, 2, tzinfo=UTC)
    (claim,) = store.claim(now, ON_TIME)
    run = store.finish(claim, Outcome("ok"), now, 1.0)
    assert [each.number for each in store.undelivered(now)] == [run.number]
    store.note_delivery(run, "delivered")
    store.note_delivery(run, "undelivered", "no gateway")
    assert deliveries(tmp_path) == [("delivered", "")]


async def test_a_delivery_that_fails_is_told_once_and_fails_nothing_else(tmp_path: Path) -> None:
    add(tmp_path, "a", "@daily", deliver="telegram", repeat=1)
    add(tmp_path, "b", "@daily", repeat=3)
    await drive(
        tmp_path, DrivenClock(BEGIN, BEGIN + timedelta(days=3)), well, deliver=Sent(ConfigError("no such chat"))
    )
    found: list[Run] = RunStore(tmp_path).latest(5, "a")
    assert [(run.state, run.delivery, run.note) for run in found] == [("ok", "refused", "telegram: no such chat")]
    assert [state for _, state in states(tmp_path, "b")] == ["ok"] * 3


def test_times_in_the_database_sort_as_times_do() -> None:
    moments = [BEGIN, BEGIN + timedelta(milliseconds=1), BEGIN + timedelta(seconds=1)]
    assert [read(written(moment)) for moment in moments] == moments
    assert sorted(map(written, reversed(moments))) == list(map(written, moments))
