"""How the rules of divisions change their workbooks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from hermes_lab.tasks.rules import Behavior, Convention, Literals, load_conventions

EPOCH = date(1899, 12, 30)
"""Day 0 of spreadsheets."""


class Source(NamedTuple):
    """A table of a division; its file is `stem`.csv."""

    stem: str
    title: str


@dataclass(frozen=True)
class SiteConfig:
    """What stays the same at a division. Every division has all of it, so that it does not reveal the rule."""

    summary: str
    """Name of the first sheet."""
    table: str
    count: str
    """Labels on that sheet."""
    unit: str
    """Unit of the count."""
    tables: tuple[Source, ...]
    """In the order of the layout, which is not alphabetical."""
    document: str
    day: str
    kind: str
    """Labels on the sheets of tables."""
    kinds: tuple[str, ...]
    """Three; every table has rows of each."""
    amount: str
    """Label on all sheets."""
    currency: str
    totals: tuple[str, ...]
    """Names for the row of totals."""


class Entry(NamedTuple):
    """A row of the data. Money is in hundredths, None if it is missing."""

    document: str
    day: str
    kind: str
    amount: int | None


class Table(NamedTuple):
    """The data of a sheet."""

    source: Source
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Custom:
    """How a workbook is made. The defaults follow the layout."""

    summary_last: bool = False
    order: Callable[[str, Decimal], Decimal | str] | None = None
    """The sort key of a table's sheet, from title and total."""
    tab: Callable[[int, str, str], str] = lambda number, title, year: title
    """The name of a table's sheet, from its number in the layout (from 1), title and year."""
    format: str = "#,##0.00"
    scale: int = 1
    unit: str = "{}"
    """A format string over the currency."""
    day: str = "%Y-%m-%d"
    """A `strftime` format; empty: a spreadsheet day with the number format `day_format`."""
    day_format: str = ""
    document: Callable[[str, str], str] = lambda document, year: document
    sign: Callable[[Entry], int] = lambda entry: 1
    counts: Callable[[Entry], bool] = lambda entry: True
    """Whether a row is included in totals and counts."""
    missing: str | float | None = None
    """The value of a missing amount."""
    total: str = "Total"
    total_first: bool = False
    formula: str = ""
    """The formula of totals: a format string over the summed range."""
    count: Callable[[Sequence[Entry]], int] = len
    whole: bool = False
    """Whether amounts are rounded to whole units before they are added."""

    def value(self, entry: Entry) -> Decimal | None:
        """The displayed amount of a row."""
        if entry.amount is None:
            return None
        value = Decimal(entry.amount) / 100 * self.sign(entry) / self.scale
        return value.quantize(Decimal(1), ROUND_HALF_UP) if self.whole else value


_ORDERS = {
    "{summary} last, after the tables": Custom(summary_last=True),
    "{summary} first, then the tables by title from A to Z": Custom(order=lambda title, total: title),
    "{summary} first, then the tables by total, largest first": Custom(order=lambda title, total: -total),
    "{summary} first, then the tables by total, smallest first": Custom(order=lambda title, total: total),
}
_TABS: Mapping[str, Callable[[int, str, str], str]] = {
    "01 {title}": lambda n, title, year: f"{n:02d} {title}",
    "{title} {year}": lambda n, title, year: f"{title} {year}",
    "{capitals}": lambda n, title, year: title.upper(),
    "T1 {title}": lambda n, title, year: f"T{n} {title}",
    "{title} (1)": lambda n, title, year: f"{title} ({n})",
}
_DOCUMENTS: Mapping[str, Callable[[str, str], str]] = {
    "D-00412": lambda d, year: f"D-{d}",
    "00000412": lambda d, year: d.zfill(8),
    "412": lambda d, year: d.lstrip("0"),
    "00412/{year}": lambda d, year: f"{d}/{year}",
    "{year}-00412": lambda d, year: f"{year}-{d}",
}
_COUNTS: Mapping[str, Callable[[Sequence[Entry]], int]] = {
    "different {documents}": lambda rows: len({row.document for row in rows}),
    "rows that have an {amount}": lambda rows: sum(row.amount is not None for row in rows),
    "rows whose {document} is in no other row of the table": (
        lambda rows: sum([row.document for row in rows].count(each.document) == 1 for each in rows)
    ),
}


def _tab(site_config: SiteConfig, rule: Literals) -> Literals:
    title = site_config.tables[0].title
    return {"title": title, "example": rule["form"].format(title=title, capitals=title.upper(), year="2024")}


def _count(site_config: SiteConfig, rule: Literals) -> Literals:
    documents = f"{site_config.document.lower()}s"
    return {"words": rule["key"].format(documents=documents, **vars(site_config))}


def _unit(site_config: SiteConfig, rule: Literals) -> Literals:
    return {"unit": rule["form"].format(site_config.currency)}


CONVENTIONS: Mapping[str, Convention[SiteConfig, Callable[[Literals], Custom]]] = load_conventions(
    __file__,
    {
        "order": Behavior(
            lambda rule: _ORDERS[rule["key"]],
            derive=lambda site_config, rule: {"words": rule["key"].format(summary=site_config.summary)},
        ),
        "tab": Behavior(lambda rule: Custom(tab=_TABS[rule["form"]]), derive=_tab),
        "format": Behavior(lambda rule: Custom(format=rule["form"])),
        "thousands": Behavior(lambda rule: Custom(scale=1000, unit=rule["form"]), derive=_unit),
        "unit": Behavior(lambda rule: Custom(unit=rule["form"]), derive=_unit),
        "day": Behavior(lambda rule: Custom(day=rule["form"], day_format=rule["day_format"])),
        "document": Behavior(lambda rule: Custom(document=_DOCUMENTS[rule["form"]])),
        "negate": Behavior(lambda rule: Custom(sign=lambda entry: -1 if entry.kind == rule["kind"] else 1)),
        "exclude": Behavior(lambda rule: Custom(counts=lambda entry: entry.kind != rule["kind"])),
        "missing": Behavior(lambda rule: Custom(missing=rule["value"])),
        "total": Behavior(lambda rule: Custom(total=rule["total"], total_first=True)),
        "formula": Behavior(lambda rule: Custom(formula=rule["form"])),
        "count": Behavior(lambda rule: Custom(count=_COUNTS[rule["key"]]), derive=_count),
        "whole": Behavior(lambda rule: Custom(whole=True)),
    },
)
