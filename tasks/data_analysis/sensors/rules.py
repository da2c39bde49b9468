"""How plants may read their loggers: what each convention does to the readings of an export."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from hermes_lab.tasks.conventions import Convention, Literals
from hermes_lab.tasks.data_analysis.sensors.export import TIMES, Reading, SiteConfig, write_time


def _all(readings: Sequence[Reading]) -> Iterable[Reading]:
    return readings


def _as_read(reading: Reading) -> Decimal:
    return reading.value


@dataclass(frozen=True)
class Statistics:
    """The figures of an export. `peaks`: the times that are right for the highest reading."""

    means: Mapping[str, float]
    count: int
    peaks: frozenset[str]


@dataclass(frozen=True)
class Strategy:
    """How readings are counted; as it stands, the obvious way."""

    select: Callable[[Sequence[Reading]], Iterable[Reading]] = _all
    value: Callable[[Reading], Decimal] = _as_read
    weight: Callable[[Reading], Decimal] = lambda reading: Decimal(1)
    probe: Callable[[str], str] = str
    form: str = ""
    """Of times; empty: that of the file."""
    earlier: timedelta = timedelta()
    """By how much a time is told earlier."""
    of_equals: bool = False
    """Whether it is left open which of equal readings count."""

    def statistics(self, readings: Sequence[Reading], form: str) -> Statistics:
        """The figures of an export that writes times in `form`."""
        kept = [(reading, self.value(reading), self.weight(reading)) for reading in self.select(readings)]
        added: dict[str, Decimal] = defaultdict(Decimal)
        weights: dict[str, Decimal] = defaultdict(Decimal)
        for reading, value, weight in kept:
            added[self.probe(reading.probe)] += value * weight
            weights[self.probe(reading.probe)] += weight
        highest = max(value for _, value, _ in kept)
        among = readings if self.of_equals else [reading for reading, _, _ in kept]
        peaks = {write_time(r.at - self.earlier, self.form or form) for r in among if self.value(r) == highest}
        return Statistics(
            {probe: float(total / weights[probe]) for probe, total in added.items()}, len(kept), frozenset(peaks)
        )


def _release(text: str) -> tuple[int, ...]:
    """A release of the firmware to compare: 2.10 comes after 2.9."""
    return tuple(map(int, text.split(".")))


def _since(release: str, factor: int) -> Strategy:
    first = _release(release)
    return Strategy(value=lambda r: r.value / factor if _release(r.firmware) >= first else r.value)


def _without(of: Callable[[Reading], bool]) -> Strategy:
    return Strategy(select=lambda readings: (reading for reading in readings if not of(reading)))


def _by(readings: Iterable[Reading], key: Callable[[Reading], Hashable]) -> Mapping[Hashable, list[Reading]]:
    groups: dict[Hashable, list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[key(reading)].append(reading)
    return groups


def _later(number: int) -> Strategy:
    def select(readings: Sequence[Reading]) -> list[Reading]:
        return [each for group in _by(readings, lambda r: r.probe).values() for each in group[number:]]

    return Strategy(select=select)


def _one_an_hour(which: str) -> Strategy:
    at = -1 if which == "last" else 0

    def select(readings: Sequence[Reading]) -> list[Reading]:
        return [group[at] for group in _by(readings, lambda r: (r.probe, r.at.date(), r.at.hour)).values()]

    return Strategy(select=select)


def _trimmed(number: int) -> Strategy:
    def select(readings: Sequence[Reading]) -> list[Reading]:
        groups = _by(readings, lambda r: r.probe).values()
        return [each for group in groups for each in sorted(group, key=lambda r: r.value)[number:-number]]

    return Strategy(select=select, of_equals=True)


def _of_probes(**more: Sequence[object]) -> Callable[[SiteConfig], Sequence[Literals]]:
    """Each probe with each row of further literals, which are given as columns."""
    rows = [dict(zip(more, row, strict=True)) for row in zip(*more.values(), strict=True)]
    return lambda site_config: [
        {"column": site_config.probe, "probe": probe, **row} for probe in site_config.probes for row in rows
    ]


def _releases(site_config: SiteConfig) -> Sequence[Literals]:
    units = (("tenths", 10), ("hundredths", 100), ("halves", 2))
    return [
        {
            "firmware": site_config.firmware,
            "release": release,
            "parts": release.replace(".", ", "),
            "value": site_config.value,
            "unit": unit,
            "factor": factor,
        }
        for release in site_config.releases[1:]
        for unit, factor in units
    ]


def _forms(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {"form": form, "code": code, "own": TIMES[site_config.form]}
        for form, code in TIMES.items()
        if form != site_config.form
    ]


PLAIN = Strategy()

CONVENTIONS: Mapping[str, Convention[SiteConfig, Strategy]] = {
    "filler": Convention(
        (
            "a {value} of exactly {odd} means that nothing was measured",
            "the logger writes {odd} when the line is down",
            "{odd} is what {value} shows after a restart",
        ),
        "leave out all rows with a {value} of {odd}",
        lambda site_config: [{"value": site_config.value, "odd": odd} for odd in site_config.odd],
        lambda rule: _without(lambda r: r.value == Decimal(rule["odd"])),
        {"select": 'rows = [row for row in rows if number(row["%(value)s"]) != Decimal("%(odd)s")]'},
    ),
    "upgrade": Convention(
        (
            "with {firmware} {release} the logger went over to {unit}",
            "{firmware} {release} and whatever came after it writes {unit} of the unit",
            "the unit is another since {firmware} {release}: {unit} of the old one",
        ),
        "divide every {value} by {factor} from {firmware} {release} on",
        _releases,
        lambda rule: _since(rule["release"], rule["factor"]),
        {
            "change": """\
if tuple(map(int, row["%(firmware)s"].split("."))) >= (%(parts)s):
    value /= %(factor)d""",
        },
    ),
    "bias": Convention(
        (
            "{column} {probe} reads {number} too high",
            "the last calibration found {number} too much at {column} {probe}",
            "{column} {probe} sits next to a motor that adds {number}",
        ),
        "take {number} off everything that {column} {probe} reads",
        _of_probes(number=("0.5", "1.2", "2.5", "4.0")),
        lambda rule: Strategy(
            value=lambda r: r.value - Decimal(rule["number"]) if r.probe == rule["probe"] else r.value,
        ),
        {"change": 'value -= Decimal("%(number)s") if row["%(column)s"] == "%(probe)s" else 0'},
    ),
    "drop": Convention(
        (
            "rows with {column} {value} are not to be trusted",
            "what has {column} {value} was no measurement",
            "{column} {value} is written while somebody works at the logger",
        ),
        "leave out all rows with {column} {value}",
        lambda site_config: [{"column": site_config.status, "value": value} for value in site_config.statuses],
        lambda rule: _without(lambda r: r.status == rule["value"]),
        {"select": 'rows = [row for row in rows if row["%(column)s"] != "%(value)s"]'},
    ),
    "less": Convention(
        (
            "{column} is contained in each {value} and must come off",
            "a {value} is right only after its {column} is taken away",
            "what counts is the difference between {value} and {column}",
        ),
        "take {column} off {value} in every row",
        lambda site_config: [
            {"column": column, "value": site_config.value} for column in (site_config.zero, site_config.drift)
        ],
        lambda rule: Strategy(value=lambda r: r.value - r.numbers[rule["column"]]),
        {"change": 'value -= number(row["%(column)s"])'},
    ),
    "warm": Convention(
        (
            "the first {number} rows of each {column} are for warming up",
            "a {column} needs {number} rows until it can be trusted",
            "each {column} settles during its first {number} rows",
        ),
        "leave out the first {number} rows of each {column}",
        lambda site_config: [{"column": site_config.probe, "number": number} for number in (2, 3, 4, 5)],
        lambda rule: _later(rule["number"]),
        {
            "select": """\
seen = defaultdict(list)
for row in rows:
    seen[row["%(column)s"]].append(row)
rows = [row for group in seen.values() for row in group[%(number)d:]]"""
        },
    ),
    "floor": Convention(
        (
            "nothing below {number} can be detected, so less counts as {number}",
            "the scale begins at {number}, whatever is displayed below it",
            "a {value} under {number} is set to {number}",
        ),
        "count {number} for every {value} under it",
        lambda site_config: [{"value": site_config.value, "number": number} for number in (16, 17, 18, 19)],
        lambda rule: Strategy(value=lambda r: max(r.value, Decimal(rule["number"]))),
        {"change": "value = max(value, Decimal(%(number)d))"},
    ),
    "digits": Convention(
        (
            "a {column} is known by {width} digits",
            "they fill the number of a {column} up to {width} digits",
            "the number of a {column} has {width} digits, zeros in front included",
        ),
        "write every {column} with {width} digits, zeros in front",
        lambda site_config: [{"column": site_config.probe, "width": width} for width in (3, 4, 5, 6)],
        lambda rule: Strategy(probe=lambda probe: "0" * (rule["width"] - len(probe)) + probe),
        {"code": 'row["%(column)s"].zfill(%(width)d)'},
    ),
    "stamp": Convention(
        (
            "times are told as {form}",
            "their charts take a time only as {form}",
            "a time there looks like {form}",
        ),
        "write the time of the highest as {form}",
        _forms,
        lambda rule: Strategy(form=rule["form"]),
        {"at": 'at = datetime.strptime(at, "%(own)s").strftime("%(code)s")'},
    ),
    "begin": Convention(
        (
            "a row is written {minutes} minutes after the fact",
            "the time of a row is the end of {minutes} minutes, and their times are beginnings",
            "the logger works {minutes} minutes behind",
        ),
        "tell the time of the highest {minutes} minutes earlier",
        lambda site_config: [{"minutes": minutes, "own": TIMES[site_config.form]} for minutes in (5, 10, 15, 20, 30)],
        lambda rule: Strategy(earlier=timedelta(minutes=rule["minutes"])),
        {
            "at": 'at = (datetime.strptime(at, "%(own)s") - timedelta(minutes=%(minutes)d)).strftime("%(own)s")',
        },
    ),
    "weighed": Convention(
        (
            "a row counts as much as its {span} says",
            "{span} is the weight of a row",
            "the longer the {span}, the more a row says",
        ),
        "weight each mean with {span}",
        lambda site_config: [{"span": site_config.span}],
        lambda rule: Strategy(weight=lambda r: r.numbers[rule["span"]]),
        {"weight": 'number(row["%(span)s"])'},
        unseen=True,
    ),
    "hourly": Convention(
        (
            "a {column} has one row an hour, the {which} one",
            "in every hour of the clock only the {which} row of a {column} is valid",
            "between two full hours the {which} row of each {column} is enough",
        ),
        "count only the {which} row of each {column} in each hour of the clock",
        lambda site_config: [
            {
                "column": site_config.probe,
                "time": site_config.time,
                "which": which,
                "order": order,
                "own": TIMES[site_config.form],
            }
            for which, order in (("last", "rows"), ("first", "reversed(rows)"))
        ],
        lambda rule: _one_an_hour(rule["which"]),
        {
            "select": """\
def hour(row):
    return row["%(column)s"], datetime.strptime(row["%(time)s"], "%(own)s").replace(minute=0)
rows = list({hour(row): row for row in %(order)s}.values())"""
        },
        unseen=True,
    ),
    "trim": Convention(
        (
            "the {number} highest and the {number} lowest rows of each {column} are thrown away",
            "a {column} loses {number} rows at either end before it is averaged",
            "{number} extremes of each {column} on both sides mean nothing",
        ),
        "leave out the {number} highest and the {number} lowest rows of each {column}",
        lambda site_config: [
            {"column": site_config.probe, "value": site_config.value, "number": number} for number in (1, 2, 3)
        ],
        lambda rule: _trimmed(rule["number"]),
        {
            "select": """\
ranked = defaultdict(list)
for row in sorted(rows, key=lambda row: number(row["%(value)s"])):
    ranked[row["%(column)s"]].append(row)
rows = [row for group in ranked.values() for row in group[%(number)d:-%(number)d]]"""
        },
        unseen=True,
    ),
    "letter": Convention(
        (
            "the number of a {column} comes with {prefix} in front",
            "a {column} is written {prefix} and its number",
            "their {column} numbers carry {prefix} to tell them from others",
        ),
        "write {prefix} in front of every {column}",
        lambda site_config: [{"column": site_config.probe, "prefix": prefix} for prefix in site_config.prefixes],
        lambda rule: Strategy(probe=lambda probe: rule["prefix"] + probe),
        {"code": '"%(prefix)s" + row["%(column)s"]'},
        unseen=True,
    ),
}
