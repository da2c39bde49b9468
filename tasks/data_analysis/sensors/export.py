"""Exports of a plant's logger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws

DIALECTS = ((";", ","), (";", "."), ("\t", ","), (",", "."))
"""What stands between cells, and before the decimals."""
TIMES = {
    "YYYY-MM-DD HH:MM": "%Y-%m-%d %H:%M",
    "DD.MM.YYYY HH:MM": "%d.%m.%Y %H:%M",
    "DD/MM/YYYY HH:MM": "%d/%m/%Y %H:%M",
    "YYYY-MM-DDTHH:MM": "%Y-%m-%dT%H:%M",
    "YYYYMMDD HHMM": "%Y%m%d %H%M",
    "YYYY/MM/DD HH.MM": "%Y/%m/%d %H.%M",
}
"""Forms of a time, and the same for Python."""
ODD = ("11.1", "12.2", "13.3", "36.6", "37.7")
"""Values off the usual range, so that no mean of others is the same; below the highest."""
LOW = ("15.4", "16.7", "17.5", "18.6")


@dataclass(frozen=True)
class SiteConfig:
    """What lasts in a plant's exports."""

    time: str
    probe: str
    value: str
    firmware: str
    span: str
    page: str
    means: str
    count: str
    peak: str
    zero: str
    drift: str
    status: str
    statuses: tuple[str, ...]
    probes: tuple[str, ...]
    """One or two digits."""
    releases: tuple[str, ...]
    """Of the firmware, oldest first."""
    odd: tuple[str, ...]
    """Three values that stand in every export, some times each."""
    prefixes: tuple[str, ...]
    dialect: tuple[str, str]
    form: str
    """Of times: a key of `TIMES`."""
    columns: tuple[str, ...]
    """All but the time, in the order of the file."""
    serial: str


_DRAWN = [each.name for each in fields(SiteConfig)][:9]


class Reading(NamedTuple):
    """One row."""

    at: datetime
    probe: str
    value: Decimal
    firmware: str
    status: str
    numbers: Mapping[str, Decimal]
    """The other columns of numbers."""


def write_time(at: datetime, form: str) -> str:
    """A time in one of the `TIMES`."""
    cut = form.rindex("DD") + 3 if form[0] == "Y" else form.rindex("YYYY") + 5
    date = form[: cut - 1].replace("YYYY", f"{at.year}").replace("MM", f"{at.month:02}").replace("DD", f"{at.day:02}")
    return date + form[cut - 1 :].replace("HH", f"{at.hour:02}").replace("MM", f"{at.minute:02}")


def draw_shape(draws: Draws, words: Words) -> SiteConfig:
    """The exports of a plant."""
    named = {name: draws.choice(getattr(words, name)) for name in _DRAWN}
    zero, drift = draws.choice(words.corrections)
    status, *statuses = draws.choice(words.status)
    major, minor = draws.integer(1, 6), draws.integer(7, 8)
    columns = [*(named[name] for name in ("probe", "value", "firmware", "span")), zero, drift, status]
    return SiteConfig(
        **named,
        zero=zero,
        drift=drift,
        status=status,
        statuses=tuple(statuses),
        probes=tuple(sorted(map(str, draws.sample(range(1, 60), draws.integer(3, 4))))),
        releases=tuple(f"{major}.{minor + step}" for step in range(4)),
        odd=tuple(draws.sample(ODD, 3)),
        prefixes=words.prefixes,
        dialect=draws.choice(DIALECTS),
        form=draws.choice(tuple(TIMES)),
        columns=tuple(draws.shuffled(columns)),
        serial=f"{draws.integer(1000, 99_999):06}",
    )


def draw_readings(site_config: SiteConfig, draws: Draws) -> list[Reading]:
    """12 to 16 readings of each probe, in the order of time.

    What a rule could be about is in every export: each release of the firmware at each probe, every status, the odd
    values and low ones, two readings of a probe in one hour, and one value that is highest by far.
    """
    each, probes = draws.integer(12, 16), site_config.probes
    count = each * len(probes)
    start = datetime(2022, 1, 1) + timedelta(minutes=draws.integer(0, 1_900_000))
    values = [Decimal(draws.integer(190, 340)) / 10 for _ in range(count)]
    special = [*(value for value in site_config.odd for _ in range(2)), *LOW, f"39.{draws.integer(1, 9)}"]
    for row, value in zip(draws.sample(range(count), len(special)), special, strict=True):
        values[row] = Decimal(value)
    statuses = draws.shuffled([site_config.statuses[n % len(site_config.statuses)] for n in range(count)])
    readings = []
    at = start
    for n in range(count):
        # Every probe is read in turn, all of them within 23 minutes.
        at += timedelta(minutes=draws.integer(3, 23 // len(probes)))
        numbers = {
            site_config.zero: Decimal(draws.integer(1, 25)) / 10,
            site_config.drift: Decimal(draws.integer(1, 25)) / 10,
            site_config.span: Decimal(draws.integer(1, 9)),
        }
        release = site_config.releases[min(n * 4 // count, 3)]
        readings.append(Reading(at, probes[n % len(probes)], values[n], release, statuses[n], numbers))
    return readings


def render_export(site_config: SiteConfig, words: Words, readings: Sequence[Reading], draws: Draws) -> str:
    """The export as it lies in the workspace: a block about the logger, and sums of pages among the rows."""
    mark, point = site_config.dialect
    page = draws.integer(15, 22)
    lines = [words.head.format(serial=site_config.serial, date=readings[-1].at.date()).rstrip("\n")]
    lines.append(mark.join((site_config.time, *site_config.columns)))
    added = Decimal(0)
    for number, reading in enumerate(readings, 1):
        cells = {
            site_config.probe: reading.probe,
            site_config.value: _number(reading.value, point),
            site_config.firmware: reading.firmware,
            site_config.status: reading.status,
            **{column: _number(value, point) for column, value in reading.numbers.items()},
        }
        lines.append(
            mark.join((write_time(reading.at, site_config.form), *(cells[column] for column in site_config.columns)))
        )
        added += reading.value
        if number % page == 0:
            sums = {site_config.probe: site_config.page, site_config.value: _number(added, point)}
            lines.append(mark.join(("", *(sums.get(column, "") for column in site_config.columns))))
    return "\n".join((*lines, words.foot)) + "\n"


def _number(value: Decimal, point: str) -> str:
    return str(value).replace(".", point)
