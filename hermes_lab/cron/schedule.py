"""When a job runs: a schedule in a time zone, and its slots, which are instants in UTC.

The clock's changes follow Debian's cron. A schedule with fixed hours and minutes runs once a day that it names: a time
that the clock skips runs as soon as it has skipped it, one that comes twice runs the first time. A schedule whose hour
or minute begins with `*` follows real time: it runs at every instant whose time of day matches.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hermes_lab.config.zones import check_zone
from hermes_lab.errors import ConfigError

_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EVERY = re.compile(r"every\s+(?P<count>\d{1,6})\s*(?P<unit>s|m|h|d|(?:second|minute|hour|day)s?)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SECOND = timedelta(seconds=1)
_STEP = timedelta(hours=12)
"""No zone changes its clock twice in this time."""
COUNTED = 1_000
"""Maximum number of passed slots that are counted."""
_LOOKBACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=40), timedelta(days=800))
_FORMS = (
    "write five cron fields such as '0 9 * * mon-fri', @hourly, @daily, @weekly, @monthly, @yearly, 'every 2h', "
    "or one time such as '2027-03-28 09:00'"
)


class Passed(NamedTuple):
    """The slots that have come: their number (at most 1,000 are counted), and the last one."""

    number: int
    last: datetime


@dataclass(frozen=True)
class Schedule:
    """A schedule in a zone. One of: the cron fields, a period from `start` on, or a single time."""

    zone: tzinfo
    fields: str = ""
    period: timedelta | None = None
    start: datetime | None = None
    once: datetime | None = None

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than `moment`, in UTC; None if there is none."""
        if self.once:
            return self.once if self.once > moment else None
        if self.period:
            assert self.start is not None
            gone = max((moment - self.start) // self.period, 0)
            return self.start + (gone + 1) * self.period
        hour, minute = self.fields.split()[1], self.fields.split()[0]
        if hour.startswith("*") or minute.startswith("*"):
            return _next_instant(self.fields, self.zone, moment)
        return _next_of_the_day(self.fields, self.zone, moment)

    def passed(self, first: datetime, now: datetime) -> Passed:
        """The slots from `first`, which is one, to `now`."""
        if self.period:
            count = (now - first) // self.period
            return Passed(min(count + 1, COUNTED), first + count * self.period)
        count, last = 0, first
        for slot in self._from(first, now):
            count, last = count + 1, slot
            if count == COUNTED:
                break
        if count < COUNTED:
            return Passed(count, last)
        for back in _LOOKBACK:  # so that a year of minutes is not walked through
            if late := list(self._from(self.after(now - back), now)):
                return Passed(count, late[-1])
        return Passed(count, last)

    def _from(self, slot: datetime | None, until: datetime) -> Iterator[datetime]:
        while slot is not None and slot <= until:
            yield slot
            slot = self.after(slot)


def parse(text: str, zone: str, start: datetime) -> Schedule:
    """Reads a schedule. `start` is when the job was made, from which a period counts. Raises `ConfigError`."""
    try:
        place: tzinfo = UTC if zone == "UTC" else ZoneInfo(check_zone(zone) or "UTC")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    plain = " ".join(text.split()).lower()
    if match := _EVERY.fullmatch(plain):
        if not (count := int(match["count"])):
            raise ConfigError(f"schedule {text!r}: the period is zero")
        return Schedule(
            place, period=timedelta(**{_UNITS[match["unit"][0]]: count}), start=start.replace(microsecond=0)
        )
    if _DATE.match(plain):
        return Schedule(place, once=_single(text, place))
    fields = _NAMES.get(plain, plain)
    if len(fields.split()) != 5:
        raise ConfigError(f"schedule {text!r}: {_FORMS}")
    schedule = Schedule(place, fields=fields)
    from cronsim import CronSimError

    try:
        found = schedule.after(start)
    except CronSimError as error:
        wrong = str(error).removeprefix("Bad ")
        raise ConfigError(f"schedule {text!r}: wrong {wrong}; {_FORMS}") from None
    if found is None:
        raise ConfigError(f"schedule {text!r}: no day matches it; {_FORMS}")
    return schedule


def machine_zone() -> str:
    """The name of this machine's time zone; UTC if it is not known."""
    told = os.environ.get("TZ", "").removeprefix(":")
    linked = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    file = Path("/etc/timezone")
    for name in (told, linked, file.read_text().strip() if file.is_file() else ""):
        try:
            if check_zone(name):
                return name
        except ValueError:
            continue
    return "UTC"


def _single(text: str, zone: tzinfo) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        raise ConfigError(f"schedule {text!r}: no such time; write it as 2027-03-28 09:00") from None


def _matches(fields: str, after: datetime) -> Iterator[datetime]:
    """The times of day, without a zone, that match the fields. Raises cronsim's `CronSimError`."""
    from cronsim import CronSim

    return iter(CronSim(fields, after))


def _wall(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(moment: datetime, zone: tzinfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _change(zone: tzinfo, begin: datetime, end: datetime) -> datetime | None:
    """The first second after `begin`, and at most `end`, with another offset than `begin`."""
    offset = _offset(begin, zone)
    low = begin
    while low < end:
        high = min(low + _STEP, end)
        if _offset(high, zone) != offset:
            while high - low > _SECOND:
                middle = (low + (high - low) / 2).replace(microsecond=0)
                low, high = (middle, high) if _offset(middle, zone) == offset else (low, middle)
            return high
        low = high
    return None


def _next_instant(fields: str, zone: tzinfo, moment: datetime) -> datetime | None:
    """The next instant whose time of day matches."""
    moment = moment.replace(microsecond=0)
    begin = _wall(moment, zone)
    while (match := next(_matches(fields, begin), None)) is not None:
        offset = _offset(moment, zone)
        instant = (match - offset).replace(tzinfo=UTC)
        if (change := _change(zone, moment, instant)) is None:
            return instant
        moment, begin = change, _wall(change, zone) - _SECOND
    return None


def _next_of_the_day(fields: str, zone: tzinfo, moment: datetime) -> datetime | None:
    """The next match, each once, at the end of a gap if the clock skips it."""
    for match in _matches(fields, _wall(moment, zone)):
        instant = match.replace(tzinfo=zone).astimezone(UTC)
        if _wall(instant, zone) != match:  # skipped: `instant` is as far behind the gap's end as the match is in it
            instant = _change(zone, match.replace(tzinfo=zone, fold=1).astimezone(UTC), instant) or instant
        if instant > moment:
            return instant
    return None
