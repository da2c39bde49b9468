"""How counters may count their time: what each convention does to the days of a log."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hermes_lab.tasks.conventions import Convention, Literals, one_of, variants_of
from hermes_lab.tasks.data_analysis.event_logs.log import SiteConfig, Visit


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


def _of_windows(**more: Sequence[object]) -> Callable[[SiteConfig], Sequence[Literals]]:
    """Each window with each row of further literals, which are given as columns."""
    rows = [dict(zip(more, row, strict=True)) for row in zip(*more.values(), strict=True)]
    return lambda site_config: [
        {"column": site_config.window, "value": value, "secs": site_config.secs, **row}
        for value in site_config.windows
        for row in rows
    ]


def _lengths(*numbers: int) -> Callable[[SiteConfig], Sequence[Literals]]:
    return lambda site_config: [{"secs": site_config.secs, "number": number} for number in numbers]


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

CONVENTIONS: Mapping[str, Convention[SiteConfig, Strategy]] = {
    "clock": Convention(
        (
            "the days are those of the wall clock, {hours} hours ahead of the log",
            "the staff live {hours} hours ahead of the log, and a day is their day",
            "midnight comes {hours} hours earlier than the log says",
        ),
        "add {hours} hours to every time before you take its date",
        one_of("hours", 2, 3, 4, 5, 6),
        lambda rule: _shifted(rule["hours"]),
        {"change": "at += timedelta(hours=%(hours)d)"},
    ),
    "dawn": Convention(
        (
            "the day begins at {hours} in the morning, so the night belongs to the day before",
            "whatever comes before {hours} in the morning still belongs to yesterday",
            "a day lasts from {hours} to {hours} in the morning",
        ),
        "put everything before 0{hours}:00 on the day before",
        one_of("hours", 3, 4, 5, 6, 7),
        lambda rule: _shifted(-rule["hours"]),
        {"change": "at -= timedelta(days=at.hour < %(hours)d)"},
    ),
    "drop": Convention(
        (
            "visits with {column} {value} are not counted",
            "{column} {value} is no work of theirs and is left out",
            "nothing with {column} {value} goes into the figures",
        ),
        "leave out all lines with {column} {value}",
        _values,
        lambda rule: Strategy(select=lambda visits: (v for v in visits if v.cells[rule["column"]] != rule["value"])),
        {"select": 'rows = [row for row in rows if row["%(column)s"] != "%(value)s"]'},
    ),
    "series": Convention(
        (
            "numbers in {column} that begin with {digits} are tests by the staff",
            "who has a {column} from {digits} on in front belongs to the house and is not counted",
            "the {digits} series of {column} is not for customers",
        ),
        "leave out all lines whose {column} begins with {digits}",
        lambda site_config: [{"column": site_config.card, "digits": digits} for digits in site_config.series],
        lambda rule: Strategy(
            select=lambda visits: (v for v in visits if not v.cells[rule["column"]].startswith(rule["digits"]))
        ),
        {"select": 'rows = [row for row in rows if not row["%(column)s"].startswith("%(digits)s")]'},
    ),
    "replaced": Convention(
        (
            "a {column} that was called again counts once, with its {which} line",
            "of lines that share a {column} the {which} is valid",
            "one {column} is one visit, told by its {which} line",
        ),
        "count only the {which} line of each {column}",
        lambda site_config: [
            {"column": site_config.ticket, "which": "last", "order": "rows"},
            {"column": site_config.ticket, "which": "first", "order": "reversed(rows)"},
        ],
        lambda rule: _one_each(rule["which"], lambda visit: visit.cells[rule["column"]]),
        {"select": 'rows = list({row["%(column)s"]: row for row in %(order)s}.values())'},
    ),
    "once": Convention(
        (
            "the same {column} counts once a date, with its {which} line",
            "nobody counts twice on one date: the {which} line of a {column} does",
            "per date and {column} the {which} line is all that counts",
        ),
        "count only the {which} line of each {column} on each date",
        lambda site_config: [
            {"column": site_config.card, "time": site_config.time, "which": "first", "order": "reversed(rows)"},
            {"column": site_config.card, "time": site_config.time, "which": "last", "order": "rows"},
        ],
        lambda rule: _one_each(rule["which"], lambda visit: (visit.at.date(), visit.cells[rule["column"]])),
        {"select": 'rows = list({(row["%(time)s"][:10], row["%(column)s"]): row for row in %(order)s}.values())'},
    ),
    "started": Convention(
        (
            "every visit is paid in started units of {number} seconds",
            "time is counted in steps of {number} seconds, and a step that began is a full one",
            "a visit takes up whole slots of {number} seconds",
        ),
        "round the {secs} of every visit up to a multiple of {number}",
        _lengths(60, 120, 300, 600),
        lambda rule: Strategy(
            seconds=lambda visit: (visit.secs + rule["number"] - 1) // rule["number"] * rule["number"]
        ),
        {"change": "seconds = -(-seconds // %(number)d) * %(number)d"},
    ),
    "short": Convention(
        (
            "below {number} seconds somebody pressed the wrong button",
            "a visit takes {number} seconds at least, anything shorter is none",
            "shorter than {number} in {secs} means that nobody came",
        ),
        "leave out all lines with {secs} under {number}",
        _lengths(30, 40, 60, 90, 120),
        lambda rule: Strategy(select=lambda visits: (visit for visit in visits if visit.secs >= rule["number"])),
        {"select": 'rows = [row for row in rows if int(row["%(secs)s"]) >= %(number)d]'},
    ),
    "unit": Convention(
        (
            "{column} {value} has an old machine that writes {secs} in {unit}",
            "the {secs} of {column} {value} are {unit}, not seconds",
            "at {column} {value} they measure {unit}",
        ),
        "multiply {secs} by {factor} where {column} is {value}",
        _of_windows(unit=("minutes", "half minutes", "tens of seconds"), factor=(60, 30, 10)),
        lambda rule: _where(rule["column"], rule["value"], Strategy(seconds=lambda visit: visit.secs * rule["factor"])),
        {"change": 'seconds *= %(factor)d if row["%(column)s"] == "%(value)s" else 1'},
    ),
    "dates": Convention(
        (
            "dates are written as {form}",
            "their calendar knows {form} only",
            "a date there looks like {form}",
        ),
        "write every date as {form}",
        variants_of(
            "form code",
            ("DD.MM.YYYY", "%d.%m.%Y"),
            ("YYYYMMDD", "%Y%m%d"),
            ("DD/MM/YYYY", "%d/%m/%Y"),
            ("DD-MM-YYYY", "%d-%m-%Y"),
            ("YYYY.MM.DD", "%Y.%m.%d"),
            ("MM/DD/YYYY", "%m/%d/%Y"),
        ),
        lambda rule: Strategy(form=rule["form"]),
        {"form": "%(code)s"},
    ),
    "mark": Convention(
        (
            "each date carries the mark {prefix} of the house",
            "dates of theirs begin with {prefix}",
            "{prefix} stands before a date, to tell it from other houses",
        ),
        "write {prefix} in front of every date",
        lambda site_config: [{"prefix": prefix} for prefix in site_config.prefixes],
        lambda rule: Strategy(form=rule["prefix"] + "YYYY-MM-DD"),
        {"form": "%(prefix)s%%Y-%%m-%%d"},
    ),
    "zone": Convention(
        (
            "the people are in the time zone {zone}, and a day is their day",
            "days run from midnight to midnight in {zone}",
            "{zone} is the zone that their calendar goes by",
        ),
        "convert every time from UTC to {zone} before you take its date",
        one_of(
            "zone",
            *("Asia/Shanghai", "Asia/Tokyo", "Australia/Brisbane", "Pacific/Noumea"),
            *("Pacific/Auckland", "Pacific/Honolulu", "America/Anchorage", "Pacific/Pago_Pago"),
        ),
        lambda rule: _in_zone(rule["zone"]),
        {
            "imports": "from zoneinfo import ZoneInfo",
            "change": 'at = at.replace(tzinfo=timezone.utc).astimezone(ZoneInfo("%(zone)s"))',
        },
        unseen=True,
    ),
    "returns": Convention(
        (
            "who comes back within {minutes} minutes had forgotten something",
            "the same {column} again after less than {minutes} minutes is no new visit",
            "there is a grace of {minutes} minutes for each {column}",
        ),
        "leave out every visit that comes less than {minutes} minutes after the one before it of the same {column}",
        lambda site_config: [
            {"column": site_config.card, "time": site_config.time, "minutes": n} for n in (2, 3, 5, 10)
        ],
        lambda rule: _without_returns(rule["column"], rule["minutes"]),
        {
            "select": """\
before, kept = {}, []
for row in rows:
    at = datetime.fromisoformat(row["%(time)s"].rstrip("Z"))
    came = before.get(row["%(column)s"])
    before[row["%(column)s"]] = at
    if came is None or at - came >= timedelta(minutes=%(minutes)d):
        kept.append(row)
rows = kept"""
        },
        unseen=True,
    ),
    "slow": Convention(
        (
            "the clock at {column} {value} is slow by {hours} h",
            "{column} {value} logs {hours} h too early",
            "nobody has set the clock of {column} {value}, which lags by {hours} h",
        ),
        "add {hours} h to the times of {column} {value} before you take their dates",
        _of_windows(hours=(1, 2, 3)),
        lambda rule: _where(rule["column"], rule["value"], _shifted(rule["hours"])),
        {"change": 'at += timedelta(hours=%(hours)d if row["%(column)s"] == "%(value)s" else 0)'},
        unseen=True,
    ),
    "most": Convention(
        (
            "no visit counts for more than {number} seconds",
            "a visit is worth {number} seconds at most, however long it took",
            "beyond {number} seconds somebody forgot to press the button",
        ),
        "count {number} for every visit with more {secs} than that",
        _lengths(600, 900, 1200, 1500),
        lambda rule: Strategy(seconds=lambda visit: min(visit.secs, rule["number"])),
        {"change": "seconds = min(seconds, %(number)d)"},
        unseen=True,
    ),
}
