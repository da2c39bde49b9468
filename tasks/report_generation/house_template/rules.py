"""How the rules of clients change their reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from hermes_lab.tasks.rules import Behavior, Convention, Literals, load_conventions

Row = tuple[str, ...]


@dataclass(frozen=True)
class SiteConfig:
    """What stays the same at a client. Every client has all of it, so that it does not reveal the rule."""

    title: str
    as_of: str
    overview: str
    currency: str
    sections: tuple[str, ...]
    section: str
    item: str
    booked: str
    state: str
    """Labels of the columns of text."""
    states: tuple[str, ...]
    """Three; every section has an item in each."""
    planned: str
    actual: str
    difference: str
    """Labels of the columns of money."""
    rest: tuple[str, ...]
    """Names for the row that combines small items."""
    all: tuple[str, ...]
    """Names for the row of totals."""


class Item(NamedTuple):
    """A row of the data. Money is in hundredths."""

    section: str
    name: str
    booked: str
    state: str
    planned: int
    actual: int


@dataclass(frozen=True)
class Custom:
    """How a report is made. The defaults follow the style sheet."""

    negative: str = "-{}"
    group: str = ","
    decimals: int = 2
    scale: int = 1
    unit: str = "{}"
    """A format string over the currency."""
    day: str = "%Y-%m-%d"
    zero: str = ""
    heading: Callable[[int, str], str] = lambda number, name: name
    """A second-level heading, by its number from 1 and its name."""
    order: Callable[[Item], int | str] | None = None
    keep: Callable[[Item], bool] = lambda item: True
    name: Callable[[Item], str] = lambda item: item.name
    small: int = 0
    """Items with a smaller actual amount, in hundredths, are combined into one row."""
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


_ORDERS: Mapping[str, Callable[[Item], int | str]] = {
    "by name from A to Z": lambda item: item.name,
    "by {actual}, largest first": lambda item: -item.actual,
    "by {planned}, smallest first": lambda item: item.planned,
    "by {booked}, oldest first": lambda item: item.booked,
}
_NUMBERS: Mapping[str, Callable[[int], str]] = {
    "1. ": lambda n: f"{n}. ",
    "1) ": lambda n: f"{n}) ",
    "A. ": lambda n: f"{'ABCDEFG'[n - 1]}. ",
    "§ 1 ": lambda n: f"§ {n} ",
    "01 ": lambda n: f"{n:02d} ",
}
_DIFFERENCES: Mapping[str, Callable[[int, int], int]] = {
    "planned - actual": lambda planned, actual: planned - actual,
    "abs(actual - planned)": lambda planned, actual: abs(actual - planned),
    "actual - 2 * planned": lambda planned, actual: actual - 2 * planned,
}


def _headings(site_config: SiteConfig, rule: Literals) -> Literals:
    number = _NUMBERS[rule["form"]]
    return {"first": f"{number(1)}{site_config.overview}", "second": f"{number(2)}{site_config.sections[0]}"}


def _small(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {"actual": site_config.actual, "limit": limit, "rest": rest}
        for limit in (100, 200)
        for rest in site_config.rest
    ]


CONVENTIONS: Mapping[str, Convention[SiteConfig, Callable[[Literals], Custom]]] = load_conventions(
    __file__,
    {
        "negative": Behavior(lambda rule: Custom(negative=rule["form"])),
        "group": Behavior(lambda rule: Custom(group=rule["by"])),
        "places": Behavior(lambda rule: Custom(decimals=rule["places"])),
        "thousands": Behavior(
            lambda rule: Custom(scale=1000, unit=rule["form"]),
            derive=lambda site_config, rule: {"unit": rule["form"].format(site_config.currency)},
        ),
        "day": Behavior(lambda rule: Custom(day=rule["form"])),
        "order": Behavior(
            lambda rule: Custom(order=_ORDERS[rule["order"]]),
            derive=lambda site_config, rule: {"words": rule["order"].format(**vars(site_config))},
        ),
        "heading": Behavior(
            lambda rule: Custom(heading=lambda number, name: _NUMBERS[rule["form"]](number) + name), derive=_headings
        ),
        "zero": Behavior(lambda rule: Custom(zero=rule["zero"])),
        "mark": Behavior(
            lambda rule: Custom(
                name=lambda item: f"{item.name} {rule['mark']}" if item.state == rule["state"] else item.name
            )
        ),
        "difference": Behavior(
            lambda rule: Custom(difference=_DIFFERENCES[rule["code"]]),
            derive=lambda site_config, rule: {"words": rule["words"].format(**vars(site_config))},
        ),
        "leave_out": Behavior(lambda rule: Custom(keep=lambda item: item.state != rule["state"])),
        "small": Behavior(lambda rule: Custom(small=rule["limit"] * 100, rest=rule["rest"]), _small),
        "total": Behavior(lambda rule: Custom(total=rule["total"], total_first=True)),
    },
)
