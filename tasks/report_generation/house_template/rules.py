"""What clients are used to: how a custom changes the report, in the harness, in a script and in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from hermes_lab.tasks.conventions import Convention, Literals, one_of, variants_of

Row = tuple[str, ...]


@dataclass(frozen=True)
class SiteConfig:
    """What lasts at a client. Every client has all of it, so that none betrays a rule."""

    title: str
    as_of: str
    overview: str
    section: str
    item: str
    booked: str
    state: str
    planned: str
    actual: str
    difference: str
    currency: str
    states: tuple[str, ...]
    """Three, each of which some item of every report has."""
    sections: tuple[str, ...]
    rest: tuple[str, ...]
    all: tuple[str, ...]


class Item(NamedTuple):
    """A line of the data. Money is in hundredths."""

    section: str
    name: str
    booked: str
    state: str
    planned: int
    actual: int


@dataclass(frozen=True)
class Custom:
    """How a report is made. The defaults are those of the style sheet."""

    negative: str = "-{}"
    group: str = ","
    decimals: int = 2
    scale: int = 1
    unit: str = "{}"
    """Over the currency."""
    day: str = "%Y-%m-%d"
    zero: str = ""
    heading: Callable[[int, str], str] = lambda number, name: name
    """Of the second level, by its number from 1."""
    order: Callable[[Item], int | str] | None = None
    keep: Callable[[Item], bool] = lambda item: True
    name: Callable[[Item], str] = lambda item: item.name
    small: int = 0
    """Items of which less was spent, in hundredths, are put together."""
    rest: str = ""
    difference: Callable[[int, int], int] = lambda planned, actual: actual - planned
    total: str = "Total"
    total_first: bool = False

    def money(self, hundredths: int) -> str:
        """An amount as it is printed."""
        if self.zero and not hundredths:
            return self.zero
        value = Decimal(abs(hundredths)) / 100 / self.scale
        text = f"{value.quantize(Decimal(1).scaleb(-self.decimals), ROUND_HALF_UP):,}".replace(",", self.group)
        return self.negative.format(text) if hundredths < 0 else text

    def date(self, day: str) -> str:
        """A day, given as 2024-03-27, as it is printed."""
        return date.fromisoformat(day).strftime(self.day)


Rules = Convention[SiteConfig, Custom]
_ORDERS: Mapping[str, tuple[Callable[[Item], int | str], str]] = {
    "by name from A to Z": (lambda item: item.name, 'item["name"]'),
    "by {actual}, largest first": (lambda item: -item.actual, '-item["actual"]'),
    "by {planned}, smallest first": (lambda item: item.planned, 'item["planned"]'),
    "by {booked}, oldest first": (lambda item: item.booked, 'item["day"]'),
}
_NUMBERS: Mapping[str, Callable[[int], str]] = {
    "1. ": lambda n: f"{n}. ",
    "1) ": lambda n: f"{n}) ",
    "A. ": lambda n: f"{'ABCDEFG'[n - 1]}. ",
    "§ 1 ": lambda n: f"§ {n} ",
    "01 ": lambda n: f"{n:02d} ",
}
_NUMBER_CODE = {
    "1. ": 'f"{number}. {name}"',
    "1) ": 'f"{number}) {name}"',
    "A. ": """f"{'ABCDEFG'[number - 1]}. {name}\"""",
    "§ 1 ": 'f"§ {number} {name}"',
    "01 ": 'f"{number:02d} {name}"',
}


def _orders(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {
            "order": name,
            "words": name.format(actual=site_config.actual, planned=site_config.planned, booked=site_config.booked),
            "key": code,
        }
        for name, (_, code) in _ORDERS.items()
    ]


def _headings(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {
            "form": form,
            "first": f"{number(1)}{site_config.overview}",
            "second": f"{number(2)}{site_config.sections[0]}",
            "code": _NUMBER_CODE[form],
        }
        for form, number in _NUMBERS.items()
    ]


def _states(site_config: SiteConfig) -> Sequence[Literals]:
    return [{"column": site_config.state, "state": state} for state in site_config.states]


def _marks(site_config: SiteConfig) -> Sequence[Literals]:
    return [{**each, "mark": mark} for each in _states(site_config) for mark in ("*", "(p)", "[!]", "†")]


def _differences(site_config: SiteConfig) -> Sequence[Literals]:
    names = {"planned": site_config.planned, "actual": site_config.actual, "difference": site_config.difference}
    return [
        {**names, "words": f"{site_config.planned} less {site_config.actual}", "code": "planned - actual"},
        {
            **names,
            "words": f"{site_config.actual} less {site_config.planned} without a sign",
            "code": "abs(actual - planned)",
        },
        {**names, "words": f"{site_config.actual} less twice {site_config.planned}", "code": "actual - 2 * planned"},
    ]


_DIFFERENCES: Mapping[str, Callable[[int, int], int]] = {
    "planned - actual": lambda planned, actual: planned - actual,
    "abs(actual - planned)": lambda planned, actual: abs(actual - planned),
    "actual - 2 * planned": lambda planned, actual: actual - 2 * planned,
}


CONVENTIONS: Mapping[str, Rules] = {
    "negative": Convention(
        (
            "negative amounts are written {words}",
            "an amount below zero stands {words}",
            "they want to see anything negative {words}",
        ),
        "write -1,234.50 as {example}",
        lambda _: [
            {"form": form, "words": words, "example": form.format("1,234.50")}
            for form, words in (
                ("({})", "in parentheses"),
                ("[{}]", "in square brackets"),
                ("{}-", "with the minus behind it"),
                ("{} CR", "with CR behind it"),
                ("minus {}", "with the word minus"),
            )
        ],
        lambda rule: Custom(negative=rule["form"]),
        {"sign": "return %(form)r.format(text) if value < 0 else text"},
    ),
    "group": Convention(
        ("thousands are set apart by {words}", "they put {words} between thousands", "a number looks like {example}"),
        "write 12,345.60 as {example}",
        variants_of(
            "by words example",
            ("'", "an apostrophe", "12'345.60"),
            (" ", "a space", "12 345.60"),
            ("_", "an underscore", "12_345.60"),
            ("", "nothing", "12345.60"),
        ),
        lambda rule: Custom(group=rule["by"]),
        {"text": 'text = f"{abs(value):,.2f}".replace(",", %(by)r)'},
    ),
    "places": Convention(
        (
            "amounts have {words}",
            "they print money with {words}, rounded half up",
            "what is printed is rounded to {words}",
        ),
        "add up exactly, then print every amount with {words}, rounded half up, like {example}",
        variants_of(
            "places words example",
            (0, "no decimals", "12,346"),
            (1, "one decimal", "12,345.6"),
            (3, "three decimals", "12,345.600"),
        ),
        lambda rule: Custom(decimals=rule["places"]),
        {"text": "text = f\"{abs(value).quantize(Decimal('1e-%(places)d'), ROUND_HALF_UP):,}\""},
    ),
    "thousands": Convention(
        (
            "money is given in thousands, and the units row says {unit}",
            "the unit of every amount is {unit}, a thousand {currency}",
            "they read {unit} and not {currency}",
        ),
        "divide every printed amount by 1000, round half up to two decimals, and write {unit} in the units row",
        lambda site_config: [
            {"unit": form.format(site_config.currency), "form": form, "currency": site_config.currency}
            for form in ("k{}", "T{}", "{} '000", "1000 {}")
        ],
        lambda rule: Custom(scale=1000, unit=rule["form"]),
        {
            "text": "text = f\"{(abs(value) / 1000).quantize(Decimal('0.01'), ROUND_HALF_UP):,}\"",
            "unit": "%(unit)s",
        },
    ),
    "day": Convention(
        ("days are written {words}", "they read a date as {words}", "the form of a date is {words}"),
        "write 2024-03-27 as {example}",
        lambda _: [
            {"form": form, "words": words, "example": date(2024, 3, 27).strftime(form)}
            for form, words in (
                ("%d.%m.%Y", "day.month.year"),
                ("%d/%m/%Y", "day/month/year"),
                ("%m/%d/%Y", "month/day/year"),
                ("%Y/%m/%d", "year/month/day"),
                ("%Y%m%d", "in eight digits"),
                ("%d %b %Y", "with the month in three letters"),
            )
        ],
        lambda rule: Custom(day=rule["form"]),
        {"day": "return date.fromisoformat(text).strftime(%(form)r)"},
    ),
    "order": Convention(
        (
            "items are sorted {words}",
            "within a section they stand {words}",
            "the order of the data does not matter, items go {words}",
        ),
        "sort the items of each section {words}, with the total last as ever",
        _orders,
        lambda rule: Custom(order=_ORDERS[rule["order"]][0]),
        {"chosen": "chosen.sort(key=lambda item: %(key)s)"},
    ),
    "heading": Convention(
        (
            'second-level headings are numbered, beginning with "{first}"',
            "every ## heading has its number, as in {first}",
            'they find sections by number, as in "{second}"',
        ),
        'number the ## headings like "{first}" and "{second}"',
        _headings,
        lambda rule: Custom(heading=lambda number, name: _NUMBERS[rule["form"]](number) + name),
        {"heading": "return %(code)s"},
    ),
    "zero": Convention(
        (
            'an amount of zero is written "{zero}"',
            'they do not read 0.00, only "{zero}"',
            '"{zero}" stands for nothing',
        ),
        'write "{zero}" in place of every 0.00',
        one_of("zero", "nil", "n/a", "--", "none", "0"),
        lambda rule: Custom(zero=rule["zero"]),
        {"sign": 'return %(zero)r if not value else f"-{text}" if value < 0 else text'},
    ),
    "mark": Convention(
        (
            "items whose {column} is {state} carry the mark {mark}",
            "{mark} stands behind every item that is {state}",
            "{state} items must be marked {mark}",
        ),
        "write a space and {mark} after the name of each item whose {column} is {state}",
        _marks,
        lambda rule: Custom(
            name=lambda item: f"{item.name} {rule['mark']}" if item.state == rule["state"] else item.name
        ),
        {"name": 'name = item["name"] + (" %(mark)s" if item["state"] == %(state)r else "")'},
    ),
    "difference": Convention(
        ("{difference} is {words}", "they reckon {difference} as {words}", "in the column {difference} stands {words}"),
        "work out {difference} as {words} in every row, totals included",
        _differences,
        lambda rule: Custom(difference=_DIFFERENCES[rule["code"]]),
        {"difference": "%(code)s"},
    ),
    "leave_out": Convention(
        (
            "items whose {column} is {state} are not reported",
            "what is {state} stays out of the report",
            "{state} items count nowhere",
        ),
        "leave every item whose {column} is {state} out of the tables and of all totals",
        _states,
        lambda rule: Custom(keep=lambda item: item.state != rule["state"]),
        {"items": 'items = [item for item in items if item["state"] != %(state)r]'},
        unseen=True,
    ),
    "small": Convention(
        (
            "items with less than {limit} in {actual} are put together as {rest}",
            "nothing under {limit} in {actual} has a row of its own but that of {rest}",
            "small items, below {limit} in {actual}, make one row, {rest}",
        ),
        "put the items of a section with {actual} under {limit} together in one last row called {rest} (no day, just "
        "the sums), right before the total",
        lambda site_config: [
            {"actual": site_config.actual, "limit": limit, "rest": rest}
            for limit in (100, 200)
            for rest in site_config.rest
        ],
        lambda rule: Custom(small=rule["limit"] * 100, rest=rule["rest"]),
        {
            "rows": """\
small = [item for item in chosen if item["actual"] < %(limit)d]
    rows = [row(item) for item in chosen if item["actual"] >= %(limit)d]
    rows.append(line(%(rest)r, "", *amounts(small)))""",
        },
        unseen=True,
    ),
    "total": Convention(
        (
            "the row of totals comes first and is called {total}",
            "a table begins with its totals, called {total}",
            "they read {total} before the items",
        ),
        "call the row of totals {total} and put it right below the units row of every table",
        lambda site_config: [{"total": word} for word in site_config.all],
        lambda rule: Custom(total=rule["total"], total_first=True),
        {"table": 'return "\\n".join([*head, line("%(total)s", *[""] * (plain - 1), *amounts(items)), *rows])'},
        unseen=True,
    ),
}
