"""How plants may read their loggers: what each convention does to the readings of an export."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from hermes_lab.tasks.data_analysis.sensors.export import TIMES, Reading, SiteConfig, write_time
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions


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

_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Callable[[Literals], Strategy]]] = {
    "filler": Behavior(lambda rule: _without(lambda r: r.value == Decimal(rule["odd"]))),
    "upgrade": Behavior(lambda rule: _since(rule["release"], rule["factor"]), variants=_releases),
    "bias": Behavior(
        lambda rule: Strategy(
            value=lambda r: r.value - Decimal(rule["number"]) if r.probe == rule["probe"] else r.value,
        )
    ),
    "drop": Behavior(lambda rule: _without(lambda r: r.status == rule["value"])),
    "less": Behavior(
        lambda rule: Strategy(value=lambda r: r.value - r.numbers[rule["column"]]),
        variants=lambda site_config: [
            {"column": column, "value": site_config.value} for column in (site_config.zero, site_config.drift)
        ],
    ),
    "warm": Behavior(lambda rule: _later(rule["number"])),
    "floor": Behavior(lambda rule: Strategy(value=lambda r: max(r.value, Decimal(rule["number"])))),
    "digits": Behavior(lambda rule: Strategy(probe=lambda probe: "0" * (rule["width"] - len(probe)) + probe)),
    "stamp": Behavior(lambda rule: Strategy(form=rule["form"]), variants=_forms),
    "begin": Behavior(
        lambda rule: Strategy(earlier=timedelta(minutes=rule["minutes"])),
        variants=lambda site_config: [
            {"minutes": minutes, "own": TIMES[site_config.form]} for minutes in (5, 10, 15, 20, 30)
        ],
    ),
    "weighed": Behavior(lambda rule: Strategy(weight=lambda r: r.numbers[rule["span"]])),
    "hourly": Behavior(
        lambda rule: _one_an_hour(rule["which"]),
        variants=lambda site_config: [
            {
                "column": site_config.probe,
                "time": site_config.time,
                "which": which,
                "order": order,
                "own": TIMES[site_config.form],
            }
            for which, order in (("last", "rows"), ("first", "reversed(rows)"))
        ],
    ),
    "trim": Behavior(lambda rule: _trimmed(rule["number"])),
    "letter": Behavior(lambda rule: Strategy(probe=lambda probe: rule["prefix"] + probe)),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
