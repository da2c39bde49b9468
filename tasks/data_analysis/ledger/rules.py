"""How desks may count: what each convention does to a total."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.rules import Behavior, Literals, fixed, load_conventions

Row = Mapping[str, str]


class Category(NamedTuple):
    """A column that holds one of a few words."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class SiteConfig:
    """The columns of a desk's export, by what they hold. Every desk has all of them, so none gives a rule away."""

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


Total = Callable[[Sequence[Row], Literals], Decimal]


def plain_total(rows: Iterable[Row]) -> Decimal:
    """The total where no rule holds: all amounts added up."""
    return sum(map(_amount, rows), Decimal(0))


def _amount(row: Row) -> Decimal:
    return Decimal(row["amount"])


def _each(amount: Callable[[Row, Literals], Decimal]) -> Total:
    """Every row counts with another amount."""
    return lambda rows, rule: sum((amount(row, rule) for row in rows), Decimal(0))


def _those(counts: Callable[[Row, Literals], bool]) -> Total:
    """Only some rows count."""
    return lambda rows, rule: plain_total(row for row in rows if counts(row, rule))


def _where(weight: Callable[[Literals], Decimal]) -> Total:
    """Rows that hold the rule's value are weighted, the others are not."""
    return _each(lambda row, rule: _amount(row) * (weight(rule) if row[rule["column"]] == rule["value"] else 1))


def _category(draws: Draws, site_config: SiteConfig) -> Literals:
    category = draws.choice(site_config.categories)
    return {"column": category.column, "value": draws.choice(category.values)}


def _factor(draws: Draws, site_config: SiteConfig) -> Literals:
    return {**_category(draws, site_config), "number": draws.choice((2, 3, 4, 5, 6, 8, 10, 12))}


def _span(draws: Draws, site_config: SiteConfig) -> Literals:
    return {"column": site_config.ordinal, "number": draws.integer(2, 4), "upto": draws.integer(5, 7)}


_DOCUMENT = fixed(column="document")
_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Total]] = {
    "drop": Behavior(_those(lambda row, rule: row[rule["column"]] != rule["value"]), draw=_category),
    "ending": Behavior(_those(lambda row, rule: int(row[rule["column"]]) % 10 != rule["number"])),
    "keep": Behavior(_those(lambda row, rule: row[rule["column"]] == rule["value"]), draw=_category),
    "negate": Behavior(_where(lambda rule: Decimal(-1)), draw=_category),
    "scale": Behavior(_where(lambda rule: Decimal(rule["number"])), draw=_factor),
    "span": Behavior(_those(lambda row, rule: rule["number"] <= int(row[rule["column"]]) <= rule["upto"]), draw=_span),
    "null": Behavior(_those(lambda row, rule: _amount(row) != rule["number"]), draw=fixed(number="sentinel")),
    "cap": Behavior(_each(lambda row, rule: min(_amount(row), Decimal(rule["number"])))),
    "latest": Behavior(
        lambda rows, rule: plain_total({row[rule["column"]]: row for row in rows}.values()), draw=_DOCUMENT
    ),
    "times": Behavior(_each(lambda row, rule: _amount(row) * int(row[rule["column"]])), draw=fixed(column="quantity")),
    "plus": Behavior(_each(lambda row, rule: _amount(row) + Decimal(row[rule["column"]]))),
    "minus": Behavior(_each(lambda row, rule: _amount(row) - Decimal(row[rule["column"]]))),
    "add": Behavior(lambda rows, rule: plain_total(rows) + rule["number"]),
    "divide": Behavior(lambda rows, rule: plain_total(rows) / rule["number"]),
    "halve": Behavior(_where(lambda rule: Decimal("0.5")), draw=_category),
    "first": Behavior(
        lambda rows, rule: plain_total({row[rule["column"]]: row for row in reversed(rows)}.values()), draw=_DOCUMENT
    ),
    "since": Behavior(_those(lambda row, rule: int(row[rule["column"]]) >= rule["number"])),
    "cut": Behavior(lambda rows, rule: plain_total(rows[: -rule["number"]])),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
