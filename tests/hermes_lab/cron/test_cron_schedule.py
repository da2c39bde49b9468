"""Schedules: their slots, minute by minute, where the clock is changed too."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hermes_lab.cron.schedule import parse
from hermes_lab.errors import ConfigError

MINUTE = timedelta(minutes=1)


def numbers(field: str, low: int, high: int) -> set[int]:
    """The numbers of one cron field, read without cronsim."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        if span == "*":
            found |= set(range(low, high + 1, int(step or 1)))
        else:
            found |= set(range(int(begin), int(end or (high if step else begin)) + 1, int(step or 1)))
    return found


def scanned(fields: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """The right slots after `begin` and until `end`: each minute of real time is looked at."""
    minute, hour, day, month, weekday = fields.split()
    minutes, hours, days = numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(day, 1, 31)
    months, weekdays = numbers(month, 1, 12), {each % 7 for each in numbers(weekday, 0, 7)}
    both = day.startswith("*") or weekday.startswith("*")
    real = minute.startswith("*") or hour.startswith("*")

    def fits(wall: datetime) -> bool:
        named = (wall.day in days, wall.isoweekday() % 7 in weekdays)
        of_the_day = all(named) if both else any(named)
        return wall.minute in minutes and wall.hour in hours and wall.month in months and of_the_day

    place, found = ZoneInfo(zone), []
    now = begin - timedelta(days=1)  # so that a slot before `begin` is known to have been
    walls: set[datetime] = set()
    before = now.astimezone(place).replace(tzinfo=None)
    while now < end:
        now += MINUTE
        wall = now.astimezone(place).replace(tzinfo=None, fold=0)
        skipped = [before + MINUTE * step for step in range(1, int((wall - before) / MINUTE))]
        runs = fits(wall) and (real or wall not in walls)
        runs |= not real and any(map(fits, skipped))  # what the clock skips runs once it has skipped it
        walls |= {wall}
        before = wall
        if runs and now > begin:
            found.append(now)
    return found


def slots(text: str, zone: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    schedule = parse(text, zone, begin)
    slot = schedule.after(begin)
    while slot is not None and slot <= end:
        yield slot
        slot = schedule.after(slot)


CHANGES = [
    ("Europe/Berlin", datetime(2027, 3, 27, 12, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2027, 10, 30, 12, tzinfo=UTC)),
    ("America/Santiago", datetime(2027, 9, 4, 12, tzinfo=UTC)),  # skips midnight
    ("America/Santiago", datetime(2027, 4, 3, 12, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2027, 4, 3, 6, tzinfo=UTC)),  # by half an hour
    ("Australia/Lord_Howe", datetime(2027, 10, 2, 6, tzinfo=UTC)),
]
FIELDS = [
    *("30 2 * * *", "0,30 2 * * *", "0 2,3 * * *", "0 3 * * *", "45 1 * * *", "30 1 * * 0", "0 0 * * *", "30 0 * * *"),
    *("*/15 * * * *", "*/20 2 * * *", "0 * * * *", "30 */2 * * *", "*/10 0 * * *", "*/15 1 * * *", "* 2 * * 0"),
    *("15 1-3 * * *", "0 12 29 3 1"),
]


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize(("zone", "begin"), CHANGES)
def test_slots_are_right_where_the_clock_is_changed(fields: str, zone: str, begin: datetime) -> None:
    end = begin + timedelta(days=2)
    assert list(slots(fields, zone, begin, end)) == scanned(fields, zone, begin, end)


@pytest.mark.parametrize("hours", range(10, 20))
def test_the_next_slot_does_not_depend_on_when_one_asks(hours: int) -> None:
    end = datetime(2027, 11, 2, tzinfo=UTC)
    begin = datetime(2027, 10, 30, 12, tzinfo=UTC) + timedelta(minutes=50 * (hours - 8))
    for fields in FIELDS:
        assert list(slots(fields, "Europe/Berlin", begin, end)) == scanned(fields, "Europe/Berlin", begin, end), fields


def test_a_period_counts_from_when_the_job_was_made() -> None:
    begin = datetime(2027, 3, 27, 12, 0, 30, tzinfo=UTC)
    found = list(slots("every 90m", "Europe/Berlin", begin, begin + timedelta(hours=5)))
    assert found == [begin + timedelta(minutes=90) * number for number in (1, 2, 3)]


def test_a_single_time_is_one_in_the_zone() -> None:
    begin = datetime(2027, 3, 1, tzinfo=UTC)
    schedule = parse("2027-03-28 09:00", "Europe/Berlin", begin)
    assert schedule.after(begin) == datetime(2027, 3, 28, 7, tzinfo=UTC)
    assert schedule.after(datetime(2027, 3, 28, 7, tzinfo=UTC)) is None
    assert parse("2027-03-28T09:00+09:00", "UTC", begin).after(begin) == datetime(2027, 3, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "count", "last"),
    [
        ("* * * * *", 1_000, datetime(2027, 12, 31, 23, 59, tzinfo=UTC)),
        ("0 6 * * *", 365, datetime(2027, 12, 31, 6, tzinfo=UTC)),
        ("every 1s", 1_000, datetime(2027, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("*/5 * 2 2 *", 288, datetime(2027, 2, 2, 23, 55, tzinfo=UTC)),
    ],
)
def test_the_last_of_many_slots_is_found(text: str, count: int, last: datetime) -> None:
    begin = datetime(2027, 1, 1, 0, 0, 30, tzinfo=UTC)
    schedule = parse(text, "UTC", begin)
    first = schedule.after(begin)
    assert first
    assert schedule.passed(first, datetime(2027, 12, 31, 23, 59, 59, tzinfo=UTC)) == (count, last)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 25 * * *", "wrong hour"),
        ("0 0 31 2 *", "wrong day-of-month"),
        ("* * * * * *", "write five cron fields"),
        ("@reboot", "write five cron fields"),
        ("", "write five cron fields"),
        ("every 0h", "the period is zero"),
        ("2027-02-30", "no such time"),
        ("0001-01-01 00:00+02:00", "no such time"),
    ],
)
def test_a_mistake_is_one_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as failure:
        parse(text, "UTC", datetime(2027, 1, 1, tzinfo=UTC))
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)
