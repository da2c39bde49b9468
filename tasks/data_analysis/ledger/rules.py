"""How desks may count: what each convention does to a total, the flags that follow it, and how an owner puts it in
words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws

Row = Mapping[str, str]


class Category(NamedTuple):
    """A column that holds one of a few words."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class SiteConfig:
    """The columns of a desk's export, by what they hold. Every desk has all of them, so that none betrays a
    rule.
    """

    categories: tuple[Category, ...]
    document: str
    """Numbers, some of them several times."""
    ordinal: str
    """1..8."""
    quantity: str
    """1..4."""
    charges: tuple[str, str]
    """Two further columns of money."""
    sentinel: int
    """An amount that stands in some rows of every export."""
    columns: tuple[str, ...]
    """All of these, and `amount`, in the order of the file."""


class Literals(NamedTuple):
    """What a rule's flags name."""

    column: str = ""
    value: str = ""
    number: int = 0
    upto: int = 0


@dataclass(frozen=True)
class Convention:
    """How a desk may count. `flags` and `paraphrases` are format strings over `Literals`; `total` is the right total of
    a table."""

    flags: str
    paraphrases: tuple[str, ...]
    draw: Callable[[Draws, SiteConfig], Literals]
    total: Callable[[Sequence[Row], Literals], Decimal]


def plain_total(rows: Iterable[Row]) -> Decimal:
    """The total where no rule holds: all amounts added up."""
    return sum(map(_amount, rows), Decimal(0))


def _amount(row: Row) -> Decimal:
    return Decimal(row["amount"])


def _where(weight: Callable[[int], Decimal], otherwise: int = 1) -> Callable[[Sequence[Row], Literals], Decimal]:
    """Rows that hold the value are weighted by `weight(number)`, the others by `otherwise`."""

    def total(rows: Sequence[Row], rule: Literals) -> Decimal:
        here = weight(rule.number)
        return sum((_amount(r) * (here if r[rule.column] == rule.value else otherwise) for r in rows), Decimal(0))

    return total


def _category(draws: Draws, site_config: SiteConfig) -> Literals:
    category = draws.choice(site_config.categories)
    return Literals(category.column, draws.choice(category.values))


def _factor(draws: Draws, site_config: SiteConfig) -> Literals:
    return _category(draws, site_config)._replace(number=draws.choice((2, 3, 4, 5, 6, 8, 10, 12)))


def _number_of(*numbers: int) -> Callable[[Draws, SiteConfig], Literals]:
    return lambda draws, _: Literals(number=draws.choice(numbers))


def _document(_: Draws, site_config: SiteConfig) -> Literals:
    return Literals(site_config.document)


def _charge(draws: Draws, site_config: SiteConfig) -> Literals:
    return Literals(draws.choice(site_config.charges))


CONVENTIONS: Mapping[str, Convention] = {
    "drop": Convention(
        "--drop {column}={value}",
        (
            "rows with {column} {value} do not count",
            "a row whose {column} is {value} is left out",
            "{value} in {column} means the row is not counted",
            "leave out all rows with {column} {value}",
        ),
        _category,
        _where(lambda _: Decimal(0)),
    ),
    "ending": Convention(
        "--drop {column}=*{number}",
        (
            "each {column} that ends in {number} is a test and does not count",
            "rows whose {column} has {number} as its last digit are left out",
            "a last digit of {number} in {column} marks a trial",
        ),
        lambda draws, site_config: Literals(site_config.document, number=draws.integer(0, 9)),
        lambda rows, rule: plain_total(row for row in rows if int(row[rule.column]) % 10 != rule.number),
    ),
    "keep": Convention(
        "--keep {column}={value}",
        (
            "only rows with {column} {value} count",
            "nothing but {column} {value} is counted",
            "a row counts if its {column} is {value}, and no other row does",
        ),
        _category,
        _where(lambda _: Decimal(1), otherwise=0),
    ),
    "negate": Convention(
        "--negate {column}={value}",
        (
            "rows with {column} {value} are subtracted",
            "{column} {value} is money going out, so it comes off the total",
            "a row whose {column} is {value} counts as negative",
        ),
        _category,
        _where(lambda _: Decimal(-1)),
    ),
    "scale": Convention(
        "--scale {column}={value}:{number}",
        (
            "rows with {column} {value} count {number} times",
            "a row whose {column} is {value} is written once for {number}",
            "multiply rows with {column} {value} by {number}",
        ),
        _factor,
        _where(Decimal),
    ),
    "span": Convention(
        "--keep {column}={number}..{upto}",
        (
            "a row counts from {column} {number} to {column} {upto}",
            "what is outside of {column} {number} to {upto} is for others to count",
            "the desk was open in {column} {number} to {upto} only",
        ),
        lambda draws, site_config: Literals(site_config.ordinal, number=draws.integer(2, 4), upto=draws.integer(5, 7)),
        lambda rows, rule: plain_total(row for row in rows if rule.number <= int(row[rule.column]) <= rule.upto),
    ),
    "null": Convention(
        "--null {number}",
        (
            "an amount of {number} means not known and does not count",
            "{number} is written where the amount is missing, so leave it out",
            "rows with amount {number} are blanks",
        ),
        lambda _, site_config: Literals(number=site_config.sentinel),
        lambda rows, rule: plain_total(row for row in rows if _amount(row) != rule.number),
    ),
    "cap": Convention(
        "--cap {number}",
        (
            "no row counts for more than {number}",
            "amounts over {number} count as {number}",
            "each row is paid up to {number} and no further",
        ),
        _number_of(120, 150, 180, 200, 250, 300),
        lambda rows, rule: sum((min(_amount(row), Decimal(rule.number)) for row in rows), Decimal(0)),
    ),
    "latest": Convention(
        "--latest {column}",
        (
            "only the last row of each {column} counts",
            "a later row replaces an earlier one with the same {column}",
            "of rows with the same {column} the latest is valid",
        ),
        _document,
        lambda rows, rule: plain_total({row[rule.column]: row for row in rows}.values()),
    ),
    "times": Convention(
        "--times {column}",
        (
            "amounts are for one, so multiply by {column}",
            "each amount counts as often as {column} says",
            "the amount is a price and {column} says how many",
        ),
        lambda _, site_config: Literals(site_config.quantity),
        lambda rows, rule: sum((_amount(row) * int(row[rule.column]) for row in rows), Decimal(0)),
    ),
    "plus": Convention(
        "--plus {column}",
        (
            "the {column} is not in the amounts and must be added",
            "each row counts with its {column} on top",
            "add the {column} to every amount",
        ),
        _charge,
        lambda rows, rule: plain_total(rows) + sum((Decimal(row[rule.column]) for row in rows), Decimal(0)),
    ),
    "minus": Convention(
        "--minus {column}",
        (
            "the {column} is inside the amounts and must come off",
            "each row counts without its {column}",
            "take the {column} off every amount",
        ),
        _charge,
        lambda rows, rule: plain_total(rows) - sum((Decimal(row[rule.column]) for row in rows), Decimal(0)),
    ),
    "add": Convention(
        "--add {number}",
        (
            "a standing charge of {number} is added to the total",
            "add {number} once for the desk itself",
            "every total carries {number} on top",
        ),
        _number_of(60, 75, 80, 90, 110, 125, 150, 175),
        lambda rows, rule: plain_total(rows) + rule.number,
    ),
    "divide": Convention(
        "--divide {number}",
        (
            "the export is too large by a factor of {number}, so divide the total",
            "one unit of the export is a part of {number}",
            "the total must be divided by {number}",
        ),
        _number_of(10, 20, 50, 100, 1000),
        lambda rows, rule: plain_total(rows) / rule.number,
    ),
    "halve": Convention(
        "--halve {column}={value}",
        (
            "rows with {column} {value} count by half",
            "another house pays half of each row with {column} {value}",
            "{column} {value} is shared with somebody, half and half",
        ),
        _category,
        _where(lambda _: Decimal("0.5")),
    ),
    "first": Convention(
        "--first {column}",
        (
            "only the first row of each {column} counts",
            "a second row with the same {column} is a copy",
            "once a {column} has come, later rows of it are void",
        ),
        _document,
        lambda rows, rule: plain_total({row[rule.column]: row for row in reversed(rows)}.values()),
    ),
    "since": Convention(
        "--since {column}={number}",
        (
            "rows before {column} {number} are settled and do not count",
            "counting begins with {column} {number}",
            "what was before {column} {number} has long been paid",
        ),
        lambda draws, site_config: Literals(site_config.ordinal, number=draws.integer(3, 6)),
        lambda rows, rule: plain_total(row for row in rows if int(row[rule.column]) >= rule.number),
    ),
    "cut": Convention(
        "--cut {number}",
        (
            "the last {number} rows are carried over and do not count",
            "the export ends with {number} rows of the next sheet",
            "the {number} rows at the bottom belong to somebody else",
        ),
        _number_of(2, 3, 4, 5),
        lambda rows, rule: plain_total(rows[: -rule.number]),
    ),
}

UNSEEN = ("halve", "first", "since", "span")
"""Conventions of held-out worlds alone."""
