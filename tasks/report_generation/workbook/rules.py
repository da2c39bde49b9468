"""How divisions want their workbooks: what a custom changes, in the harness, in a script and in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from hermes_lab.tasks.conventions import Convention, Literals, one_of, variants_of

EPOCH = date(1899, 12, 30)
"""Day 0 of spreadsheets."""


class Source(NamedTuple):
    """A table of a division; its file is `stem`.csv."""

    stem: str
    title: str


@dataclass(frozen=True)
class SiteConfig:
    """What lasts at a division. Every division has all of it, so that none betrays a rule."""

    tables: tuple[Source, ...]
    """In the order of the layout, which is not that of their titles."""
    summary: str
    table: str
    document: str
    day: str
    kind: str
    count: str
    amount: str
    unit: str
    """Of the count."""
    currency: str
    kinds: tuple[str, ...]
    """Three, each of which is in every table."""
    totals: tuple[str, ...]
    """What a row of totals can be called."""


class Entry(NamedTuple):
    """A row of the data; money is in hundredths, and None where it is missing."""

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
    """How a workbook is made. The defaults are those of the layout."""

    summary_last: bool = False
    order: Callable[[str, Decimal], Decimal | str] | None = None
    """Sorts the sheets of tables by title and total."""
    tab: Callable[[int, str, str], str] = lambda number, title, year: title
    """The name of the sheet of a table, by its number in the layout from 1."""
    format: str = "#,##0.00"
    scale: int = 1
    unit: str = "{}"
    """Over the currency."""
    day: str = "%Y-%m-%d"
    """A form of text; empty: the number of a spreadsheet's day in `day_format`."""
    day_format: str = ""
    document: Callable[[str, str], str] = lambda document, year: document
    sign: Callable[[Entry], int] = lambda entry: 1
    counts: Callable[[Entry], bool] = lambda entry: True
    """Whether a row is part of totals and counts."""
    missing: str | float | None = None
    """What stands in place of a missing amount."""
    total: str = "Total"
    total_first: bool = False
    formula: str = ""
    """Of totals, over the range that they add up."""
    count: Callable[[Sequence[Entry]], int] = len
    whole: bool = False
    """Whether amounts are rounded to whole units first."""

    def value(self, entry: Entry) -> Decimal | None:
        """The amount of a row, as it is shown."""
        if entry.amount is None:
            return None
        value = Decimal(entry.amount) / 100 * self.sign(entry) / self.scale
        return value.quantize(Decimal(1), ROUND_HALF_UP) if self.whole else value


_ORDERS: Mapping[str, tuple[Custom, str]] = {
    "{summary} last, after the tables": (Custom(summary_last=True), "[*sheets, summary]"),
    "{summary} first, then the tables by title from A to Z": (
        Custom(order=lambda title, total: title),
        "[summary, *sorted(sheets)]",
    ),
    "{summary} first, then the tables by total, largest first": (
        Custom(order=lambda title, total: -total),
        "[summary, *sorted(sheets, key=lambda sheet: -totals[sheet[0]])]",
    ),
    "{summary} first, then the tables by total, smallest first": (
        Custom(order=lambda title, total: total),
        "[summary, *sorted(sheets, key=lambda sheet: totals[sheet[0]])]",
    ),
}
_TABS: Mapping[str, tuple[Callable[[int, str, str], str], str]] = {
    "01 {title}": (lambda n, title, year: f"{n:02d} {title}", 'f"{number:02d} {title}"'),
    "{title} {year}": (lambda n, title, year: f"{title} {year}", 'f"{title} {year}"'),
    "{capitals}": (lambda n, title, year: title.upper(), "title.upper()"),
    "T1 {title}": (lambda n, title, year: f"T{n} {title}", 'f"T{number} {title}"'),
    "{title} (1)": (lambda n, title, year: f"{title} ({n})", 'f"{title} ({number})"'),
}
_DOCUMENTS: Mapping[str, tuple[Callable[[str, str], str], str]] = {
    "D-00412": (lambda d, year: f"D-{d}", '"D-" + text'),
    "00000412": (lambda d, year: d.zfill(8), "text.zfill(8)"),
    "412": (lambda d, year: d.lstrip("0"), 'text.lstrip("0")'),
    "00412/{year}": (lambda d, year: f"{d}/{year}", 'f"{text}/{year}"'),
    "{year}-00412": (lambda d, year: f"{year}-{d}", 'f"{year}-{text}"'),
}
_COUNTS: Mapping[str, tuple[Callable[[Sequence[Entry]], int], str]] = {
    "different {documents}": (lambda rows: len({row.document for row in rows}), "len({row[0] for row in counted})"),
    "rows that have an {amount}": (
        lambda rows: sum(row.amount is not None for row in rows),
        "sum(row[3] is not None for row in counted)",
    ),
    "rows whose {document} stands in no other row of the table": (
        lambda rows: sum([row.document for row in rows].count(each.document) == 1 for each in rows),
        "sum([other[0] for other in counted].count(row[0]) == 1 for row in counted)",
    ),
}


def _orders(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {"words": words.format(summary=site_config.summary), "key": words, "code": _ORDERS[words][1]}
        for words in _ORDERS
    ]


def _tabs(site_config: SiteConfig) -> Sequence[Literals]:
    title = site_config.tables[0].title
    return [
        {
            "form": form,
            "title": title,
            "example": form.format(title=title, capitals=title.upper(), year="2024"),
            "code": code,
            "summary": site_config.summary,
        }
        for form, (_, code) in _TABS.items()
    ]


def _documents(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {"form": form, "label": site_config.document, "example": form.format(year="2024"), "code": code}
        for form, (_, code) in _DOCUMENTS.items()
    ]


def _kinds(site_config: SiteConfig) -> Sequence[Literals]:
    return [{"column": site_config.kind, "kind": kind} for kind in site_config.kinds]


def _units(*forms: str) -> Callable[[SiteConfig], Sequence[Literals]]:
    return lambda site_config: [
        {"unit": form.format(site_config.currency), "form": form, "currency": site_config.currency} for form in forms
    ]


def _counts(site_config: SiteConfig) -> Sequence[Literals]:
    named = {
        "documents": f"{site_config.document.lower()}s",
        "document": site_config.document,
        "amount": site_config.amount,
    }
    return [
        {"words": words.format(**named), "key": words, "count": site_config.count, "code": code}
        for words, (_, code) in _COUNTS.items()
    ]


CONVENTIONS: Mapping[str, Convention[SiteConfig, Custom]] = {
    "order": Convention(
        ("the sheets stand so: {words}", "they look for {words}", "the order of the sheets is {words}"),
        "order the sheets with {words}",
        _orders,
        lambda rule: _ORDERS[rule["key"]][0],
        {"order": "sheets = %(code)s"},
    ),
    "tab": Convention(
        ("the tab of a table reads like {example}", "tabs look like {example}", "they find a table by a tab {example}"),
        "name the sheet of {title} (year 2024) {example}, the others likewise; titles in {summary} stay as they are",
        _tabs,
        lambda rule: Custom(tab=_TABS[rule["form"]][0]),
        {"tab": "%(code)s"},
    ),
    "format": Convention(
        (
            'amounts have the number format "{form}"',
            'they use the format "{form}" for money',
            '"{form}" is their format',
        ),
        'give every amount the number format "{form}"',
        one_of("form", "0.00", "#,##0.00;(#,##0.00)", "#,##0", "# ##0.00", "#,##0.00;[Red]-#,##0.00"),
        lambda rule: Custom(format=rule["form"]),
        {"format": "%(form)s"},
    ),
    "thousands": Convention(
        (
            "money is given in thousands, and the units row says {unit}",
            "the unit of every amount is {unit}, a thousand {currency}",
            "they read {unit} and not {currency}",
        ),
        "divide every amount by 1000 without rounding it, and write {unit} in the units rows",
        _units("k{}", "T{}", "{} '000", "1000 {}"),
        lambda rule: Custom(scale=1000, unit=rule["form"]),
        {"value": "Decimal(amount) / 1000", "unit": "%(unit)s"},
    ),
    "unit": Convention(
        ("the unit of money is written {unit}", "a units row says {unit}", "{unit} is what they read as the unit"),
        'write "{unit}" for {currency} in every units row',
        _units("in {}", "[{}]", "({})", "/ {}"),
        lambda rule: Custom(unit=rule["form"]),
        {"unit": "%(unit)s"},
    ),
    "day": Convention(
        ("days are {words}", "they enter a day as {words}", "a day has the form of {words}"),
        "write the day 2024-03-27 as {example}",
        variants_of(
            "words form day_format example code",
            ("a text, day.month.year", "%d.%m.%Y", "", "the text 27.03.2024", 'date.strftime("%d.%m.%Y")'),
            ("a text of eight digits", "%Y%m%d", "", "the text 20240327", 'date.strftime("%Y%m%d")'),
            ("a text, month/day/year", "%m/%d/%Y", "", "the text 03/27/2024", 'date.strftime("%m/%d/%Y")'),
            (
                "spreadsheet days, the year first",
                "",
                "yyyy-mm-dd",
                "the number 45378 (days since 1899-12-30) with the number format yyyy-mm-dd",
                'Cell((date - datetime(1899, 12, 30)).days, "yyyy-mm-dd")',
            ),
            (
                "spreadsheet days, the day first",
                "",
                "dd/mm/yyyy",
                "the number 45378 (days since 1899-12-30) with the number format dd/mm/yyyy",
                'Cell((date - datetime(1899, 12, 30)).days, "dd/mm/yyyy")',
            ),
        ),
        lambda rule: Custom(day=rule["form"], day_format=rule["day_format"]),
        {"day": "date = datetime.fromisoformat(text)\n    return %(code)s"},
    ),
    "document": Convention(
        ("a {label} looks like {example}", "they know a {label} as {example}", "{example} is the form of a {label}"),
        "write the {label} 00412 of 2024 as the text {example}",
        _documents,
        lambda rule: Custom(document=_DOCUMENTS[rule["form"]][0]),
        {"document": "return %(code)s"},
    ),
    "negate": Convention(
        (
            "amounts with {column} {kind} are negative",
            "{kind} is money that goes back, so it is negative",
            "what is {kind} comes off",
        ),
        "write amounts with {column} {kind} as negative numbers, and add them up so",
        _kinds,
        lambda rule: Custom(sign=lambda entry: -1 if entry.kind == rule["kind"] else 1),
        {"value": "Decimal(amount) * (-1 if kind == %(kind)r else 1)"},
    ),
    "exclude": Convention(
        (
            "rows with {column} {kind} are shown but not counted",
            "what is {kind} is no part of totals and counts",
            "{kind} rows are for information only",
        ),
        "show rows with {column} {kind} as ever, but leave them out of all totals and counts",
        _kinds,
        lambda rule: Custom(counts=lambda entry: entry.kind != rule["kind"]),
        {"counts": "row[2] != %(kind)r"},
    ),
    "missing": Convention(
        (
            "no amount may be empty; a missing one is {words}",
            "for a missing amount they expect {words}",
            "an empty amount is {words}",
        ),
        "put {words} in place of a missing amount",
        variants_of(
            "words value code",
            ("the number 0 (in the format of amounts)", 0.0, 'Cell(0, "#,##0.00")'),
            ("the text n/a", "n/a", '"n/a"'),
            ("the text open", "open", '"open"'),
            ("the text ?", "?", '"?"'),
        ),
        lambda rule: Custom(missing=rule["value"]),
        {"missing": "%(code)s"},
    ),
    "total": Convention(
        (
            "totals come first and are called {total}",
            "a sheet begins with its totals, {total}",
            "they read {total} before the rows",
        ),
        "call the row of totals {total} and put it right below the units row of every sheet",
        lambda site_config: [{"total": word} for word in site_config.totals],
        lambda rule: Custom(total=rule["total"], total_first=True),
        {"total": "%(total)s", "sheet": "return [head, units, total, *rows]"},
    ),
    "formula": Convention(
        (
            "totals are formulas with {function}",
            "they want to see how a total comes about, by {function}",
            "every total is worked out by {function}",
        ),
        "write every total in the row of totals, of counts too, as a formula like {example} next to its value",
        variants_of(
            "form function example",
            ("SUM({})", "SUM", "SUM(D3:D9)"),
            ("SUBTOTAL(9,{})", "SUBTOTAL, number 9", "SUBTOTAL(9,D3:D9)"),
            ("SUBTOTAL(109,{})", "SUBTOTAL, number 109", "SUBTOTAL(109,D3:D9)"),
        ),
        lambda rule: Custom(formula=rule["form"]),
        {"formula": '%(form)r.format(f"{column}3:{column}{len(rows) + 2}")'},
        unseen=True,
    ),
    "count": Convention(
        ("the {count} are {words}", "what they count is {words}", "{words} make the {count}"),
        "count {words} as {count} of a table",
        _counts,
        lambda rule: Custom(count=_COUNTS[rule["key"]][0]),
        {"count": "%(code)s"},
        unseen=True,
    ),
    "whole": Convention(
        (
            "amounts are rounded to {words} before they are added up",
            "they book {words} only",
            "a workbook holds {words}, also of single rows",
        ),
        "round each amount half up to {words}, and add up the rounded ones",
        variants_of("words", ("whole units",)),
        lambda rule: Custom(whole=True),
        {"value": 'Decimal(amount).quantize(Decimal("1"), ROUND_HALF_UP)'},
        unseen=True,
    ),
}
