"""How the rules of boards change which figures stand, and how they are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from hermes_lab.tasks.rules import Behavior, Convention, Literals, load_conventions

WITHDRAWN = "-"
ROMAN = ("I", "II", "III", "IV")


@dataclass(frozen=True)
class SiteConfig:
    """What stays the same at a board. Every board has all of it, so that it does not reveal the rule."""

    lines: tuple[str, ...]
    reasons: tuple[str, ...]
    """Four; every task has a restatement for each."""
    line: str
    quarter: str
    first: str
    standing: str
    change: str
    """Labels of the columns in both files."""
    reason: str
    heading: str
    restated: str
    currency: str
    withdrawn: tuple[str, ...]


class Entry(NamedTuple):
    """What a filing states about a figure. An amount of None is a dash."""

    amount: int | None
    reason: str
    age: int
    """Quarters between the original filing and this one."""


class Figure(NamedTuple):
    """A figure: its line, its quarter (2024-Q3), and its entries in the filings, the original first."""

    line: str
    quarter: str
    entries: tuple[Entry, ...]

    @property
    def first(self) -> int:
        """The amount in the original filing."""
        return self.entries[0].amount or 0


def _latest(first: int, amounts: Sequence[int]) -> int:
    return amounts[-1] if amounts else first


def _share(whole: int, step: str, unit: str) -> Callable[[int, int], str]:
    def change(first: int, standing: int) -> str:
        share = Decimal(whole * (standing - first)) / first
        return f"{share.quantize(Decimal(step), ROUND_HALF_UP):+}{unit}"

    return change


@dataclass(frozen=True)
class Custom:
    """How figures are restated. The defaults follow the notes."""

    counts: Callable[[int, Entry], bool] = lambda first, entry: True
    """Whether a restatement counts, from the first figure and the entry."""
    pick: Callable[[int, Sequence[int]], int] = _latest
    """The standing amount, from the first one and the restatements that count."""
    withdrawn: str = ""
    """The text for figures whose last entry is a dash; empty: they are not treated specially."""
    amount: Callable[[int], str] = str
    """How an amount in thousands is written."""
    signed: Callable[[int], str] = lambda change: f"{change:+d}"
    change: Callable[[int, int], str] | None = None
    """The change from the first and the standing figure; None: their difference, written by `signed`."""
    mark: str = "{}"
    """A format string over a standing figure that differs from the first."""
    still: str = "0"
    """The change of figures that stand as filed."""
    quarter: Callable[[str, int], str] = lambda year, number: f"{year}-Q{number}"
    order: Callable[[int, int], tuple[int, int]] = lambda quarter, line: (quarter, line)
    """The sort key, from the indices of quarter and line."""
    listed: int = 0
    """Smaller changes, in percent of the first figure, are not listed."""


_PICKS: Mapping[str, Callable[[int, Sequence[int]], int]] = {
    "the first restatement": lambda first, amounts: amounts[0] if amounts else first,
    "the largest of all its amounts": lambda first, amounts: max((first, *amounts)),
    "the smallest of all its amounts": lambda first, amounts: min((first, *amounts)),
}
_UNITS = {
    "millions with three decimals": Custom(
        amount=lambda n: f"{Decimal(n) / 1000:.3f}", signed=lambda n: f"{Decimal(n) / 1000:+.3f}"
    ),
    "whole units, with no thousands left off": Custom(
        amount=lambda n: str(n * 1000), signed=lambda n: f"{n * 1000:+d}"
    ),
    "hundreds, without decimals": Custom(amount=lambda n: str(n * 10), signed=lambda n: f"{n * 10:+d}"),
}
_QUARTERS: Mapping[str, Callable[[str, int], str]] = {
    "Q3 2024": lambda y, q: f"Q{q} {y}",
    "3Q24": lambda y, q: f"{q}Q{y[2:]}",
    "2024/3": lambda y, q: f"{y}/{q}",
    "III/2024": lambda y, q: f"{ROMAN[q - 1]}/{y}",
    "20243": lambda y, q: f"{y}{q}",
}
_ORDERS: Mapping[str, Callable[[int, int], tuple[int, int]]] = {
    "by quarter from the newest, then by line": lambda quarter, line: (-quarter, line),
    "by line, then by quarter from the oldest": lambda quarter, line: (line, quarter),
    "by line, then by quarter from the newest": lambda quarter, line: (line, -quarter),
}
_CHANGES: Mapping[str, Callable[[int, int], str]] = {
    "percent of the first figure with one decimal": _share(100, "0.1", "%"),
    "percent of the first figure with two decimals": _share(100, "0.01", "%"),
    "whole basis points of the first figure": _share(10_000, "1", " bp"),
}


CONVENTIONS: Mapping[str, Convention[SiteConfig, Callable[[Literals], Custom]]] = load_conventions(
    __file__,
    {
        "threshold": Behavior(
            lambda rule: Custom(counts=lambda first, entry: abs((entry.amount or 0) - first) >= rule["limit"])
        ),
        "reason": Behavior(lambda rule: Custom(counts=lambda first, entry: entry.reason != rule["word"])),
        "age": Behavior(lambda rule: Custom(counts=lambda first, entry: entry.age <= rule["quarters"])),
        "pick": Behavior(lambda rule: Custom(pick=_PICKS[rule["words"]])),
        "mark": Behavior(lambda rule: Custom(mark=rule["form"])),
        "share": Behavior(lambda rule: Custom(change=_CHANGES[rule["words"]])),
        "reverse": Behavior(
            lambda rule: Custom(signed=(lambda n: f"{-n:+d}") if "+d" in rule["code"] else (lambda n: str(abs(n)))),
            derive=lambda site_config, rule: {"words": rule["words"].format(**vars(site_config))},
        ),
        "still": Behavior(lambda rule: Custom(still=rule["text"])),
        "quarter": Behavior(lambda rule: Custom(quarter=_QUARTERS[rule["example"]])),
        "order": Behavior(lambda rule: Custom(order=_ORDERS[rule["words"]])),
        "unit": Behavior(lambda rule: _UNITS[rule["words"]]),
        "withdrawn": Behavior(lambda rule: Custom(withdrawn=rule["word"])),
        "listed": Behavior(lambda rule: Custom(listed=rule["percent"])),
    },
)
