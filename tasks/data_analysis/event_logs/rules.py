"""How counters may count their time: what each convention does to the days of a log."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hermes_lab.tasks.data_analysis.event_logs.log import SiteConfig, Visit
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions


def _all(visits: Sequence[Visit]) -> Iterable[Visit]:
    return visits


def _as_logged(visit: Visit) -> datetime:
    return visit.at


def _length(visit: Visit) -> int:
    return visit.secs


@dataclass(frozen=True)
class Strategy:
    """How visits are counted; as it stands, the obvious way."""

    select: Callable[[Sequence[Visit]], Iterable[Visit]] = _all
    moment: Callable[[Visit], datetime] = _as_logged
    seconds: Callable[[Visit], int] = _length
    form: str = "YYYY-MM-DD"

    def days(self, visits: Sequence[Visit]) -> dict[str, float]:
        """Seconds by day."""
        found: dict[str, float] = {}
        for visit in self.select(visits):
            at = self.moment(visit)
            day = self.form.replace("YYYY", f"{at.year}").replace("MM", f"{at.month:02}").replace("DD", f"{at.day:02}")
            found[day] = found.get(day, 0) + self.seconds(visit)
        return found

    def visits(self, visits: Sequence[Visit]) -> int:
        """How many count."""
        return sum(1 for _ in self.select(visits))


def _values(site_config: SiteConfig) -> Sequence[Literals]:
    named = ((site_config.window, site_config.windows), (site_config.service, site_config.services))
    return [{"column": column, "value": value} for column, values in named for value in values]


def _shifted(hours: int) -> Strategy:
    return Strategy(moment=lambda visit: visit.at + timedelta(hours=hours))


def _in_zone(name: str) -> Strategy:
    zone = ZoneInfo(name)
    return Strategy(moment=lambda visit: visit.at.replace(tzinfo=UTC).astimezone(zone))


def _where(column: str, value: str, then: Strategy) -> Strategy:
    """`then` for visits whose `column` is `value`, the obvious way for the others."""
    return Strategy(
        moment=lambda visit: (then if visit.cells[column] == value else PLAIN).moment(visit),
        seconds=lambda visit: (then if visit.cells[column] == value else PLAIN).seconds(visit),
    )


def _one_each(which: str, key: Callable[[Visit], object]) -> Strategy:
    """The `first` or `last` of visits that share a key."""
    if which == "last":
        return Strategy(select=lambda visits: {key(visit): visit for visit in visits}.values())
    return Strategy(select=lambda visits: {key(visit): visit for visit in reversed(visits)}.values())


def _without_returns(column: str, minutes: int) -> Strategy:
    def select(visits: Sequence[Visit]) -> Iterable[Visit]:
        before: dict[str, datetime] = {}
        for visit in visits:
            came = before.get(visit.cells[column])
            before[visit.cells[column]] = visit.at
            if came is None or visit.at - came >= timedelta(minutes=minutes):
                yield visit

    return Strategy(select=select)


PLAIN = Strategy()

_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Callable[[Literals], Strategy]]] = {
    "clock": Behavior(lambda rule: _shifted(rule["hours"])),
    "dawn": Behavior(lambda rule: _shifted(-rule["hours"])),
    "drop": Behavior(
        lambda rule: Strategy(select=lambda visits: (v for v in visits if v.cells[rule["column"]] != rule["value"])),
        variants=_values,
    ),
    "series": Behavior(
        lambda rule: Strategy(
            select=lambda visits: (v for v in visits if not v.cells[rule["column"]].startswith(rule["digits"]))
        )
    ),
    "replaced": Behavior(lambda rule: _one_each(rule["which"], lambda visit: visit.cells[rule["column"]])),
    "once": Behavior(
        lambda rule: _one_each(rule["which"], lambda visit: (visit.at.date(), visit.cells[rule["column"]]))
    ),
    "started": Behavior(
        lambda rule: Strategy(
            seconds=lambda visit: (visit.secs + rule["number"] - 1) // rule["number"] * rule["number"]
        )
    ),
    "short": Behavior(
        lambda rule: Strategy(select=lambda visits: (visit for visit in visits if visit.secs >= rule["number"]))
    ),
    "unit": Behavior(
        lambda rule: _where(rule["column"], rule["value"], Strategy(seconds=lambda visit: visit.secs * rule["factor"]))
    ),
    "dates": Behavior(lambda rule: Strategy(form=rule["form"])),
    "mark": Behavior(lambda rule: Strategy(form=rule["prefix"] + "YYYY-MM-DD")),
    "zone": Behavior(lambda rule: _in_zone(rule["zone"])),
    "returns": Behavior(lambda rule: _without_returns(rule["column"], rule["minutes"])),
    "slow": Behavior(lambda rule: _where(rule["column"], rule["value"], _shifted(rule["hours"]))),
    "most": Behavior(lambda rule: Strategy(seconds=lambda visit: min(visit.secs, rule["number"]))),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
