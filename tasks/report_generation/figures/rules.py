"""How the rules of departments change their figures."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.tasks.rules import Behavior, Convention, Literals, load_conventions

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
ROMAN = ("I", "II", "III", "IV")


class Series(NamedTuple):
    """The data series of a figure; its file is `stem`.csv."""

    stem: str
    title: str
    unit: str


@dataclass(frozen=True)
class SiteConfig:
    """What stays the same at a department. Every department has all of it, so that it does not reveal the rule."""

    title: str
    month: str
    """Label of the first column; the second column is labeled with the unit."""
    series: tuple[Series, ...]
    """In the order of the sheet, which is not alphabetical."""
    classes: tuple[str, str, str, str]
    """Classes of the spans with number, caption, source and hash."""
    highlights: tuple[str, ...]
    gaps: tuple[str, ...]


class Table(NamedTuple):
    """The data of a figure: months with numbers or None. `text` is the content of the file."""

    series: Series
    rows: tuple[tuple[str, int | None], ...]
    text: str

    @property
    def total(self) -> int:
        """The sum of all numbers."""
        return sum(value for _, value in self.rows if value is not None)


@dataclass(frozen=True)
class Custom:
    """How figures are made. The defaults follow the sheet."""

    word: str = "Figure"
    numeral: Callable[[int], str] = str
    caption: str = "{title} ({unit})"
    source: str = "{stem}.csv"
    hashed: Callable[[Table], str] = lambda table: table.text
    algorithm: str = "sha256"
    digest: Callable[[str], str] = lambda digits: digits[:12]
    order: Callable[[Table], int | str] | None = None
    full: int = 0
    """The number at full height; 0: the largest number of the table."""
    month: Callable[[str, str], str] = lambda year, month: f"{year}-{month}"
    gap: str = ""
    """The class of bars for empty cells; empty: such cells have no bar."""
    carry: int = 0
    """The offset in rows of the number that fills an empty cell; 0: none does."""
    highlight: Callable[[list[int]], int] | None = None
    """The index of the highlighted bar, from the heights of all."""
    mark: str = ""
    """The class of the highlighted bar."""


_DIGESTS: Mapping[str, Callable[[str], str]] = {
    "sha256:0123456789ab": lambda d: f"sha256:{d[:12]}",
    "#0123456789ab": lambda d: f"#{d[:12]}",
    "0123456789AB": lambda d: d[:12].upper(),
    "0123-4567-89ab": lambda d: f"{d[:4]}-{d[4:8]}-{d[8:12]}",
}
_CUTS: Mapping[str, Callable[[str], str]] = {
    "the last 12": lambda d: d[-12:],
    "the first 8": lambda d: d[:8],
    "the first 20": lambda d: d[:20],
    "all 64": lambda d: d,
}
_HASHED: Mapping[str, Callable[[Table], str]] = {
    "the file without its first line": lambda t: t.text.partition("\n")[2],
    "the file without any line break": lambda t: t.text.replace("\n", ""),
    "the file's name, a line break and then the file": lambda t: f"{t.series.stem}.csv\n{t.text}",
    "the file with every comma turned into a semicolon": lambda t: t.text.replace(",", ";"),
}
_NUMERALS: Mapping[str, Callable[[int], str]] = {
    "letters, A first": lambda n: "ABCD"[n - 1],
    "small letters, a first": lambda n: "abcd"[n - 1],
    "Roman numerals, I first": lambda n: ROMAN[n - 1],
    "two digits, 01 first": lambda n: f"{n:02d}",
    "whole numbers, 0 first": lambda n: str(n - 1),
    "number and count, 1/4 first": lambda n: f"{n}/4",
}
_ORDERS: Mapping[str, Callable[[Table], int | str]] = {
    "by title, A to Z": lambda t: t.series.title,
    "by the total of their numbers, largest first": lambda t: -t.total,
    "by the total of their numbers, smallest first": lambda t: t.total,
}
_MONTHS: Mapping[str, Callable[[str, str], str]] = {
    "Mar 2024": lambda y, m: f"{MONTHS[int(m) - 1]} {y}",
    "03/2024": lambda y, m: f"{m}/{y}",
    "03.24": lambda y, m: f"{m}.{y[2:]}",
    "2024M03": lambda y, m: f"{y}M{m}",
    "202403": lambda y, m: f"{y}{m}",
}
_HIGHLIGHTS: Mapping[str, tuple[Callable[[list[int]], int], str]] = {
    "highest": (lambda heights: heights.index(max(heights)), "max(known)"),
    "lowest": (lambda heights: heights.index(min(heights)), "min(known)"),
    "last": (lambda heights: len(heights) - 1, "known[-1]"),
}


def _highlights(site_config: SiteConfig) -> Sequence[Literals]:
    return [
        {"which": which, "mark": mark, "code": code}
        for which, (_, code) in _HIGHLIGHTS.items()
        for mark in site_config.highlights
    ]


CONVENTIONS: Mapping[str, Convention[SiteConfig, Callable[[Literals], Custom]]] = load_conventions(
    __file__,
    {
        "algorithm": Behavior(lambda rule: Custom(algorithm=rule["code"])),
        "cut": Behavior(lambda rule: Custom(digest=_CUTS[rule["which"]])),
        "digest": Behavior(lambda rule: Custom(digest=_DIGESTS[rule["form"]])),
        "hashed": Behavior(lambda rule: Custom(hashed=_HASHED[rule["what"]])),
        "word": Behavior(lambda rule: Custom(word=rule["word"])),
        "numeral": Behavior(lambda rule: Custom(numeral=_NUMERALS[rule["words"]])),
        "source": Behavior(lambda rule: Custom(source=rule["form"])),
        "unit": Behavior(lambda rule: Custom(caption=rule["form"])),
        "order": Behavior(lambda rule: Custom(order=_ORDERS[rule["words"]])),
        "full": Behavior(lambda rule: Custom(full=rule["number"])),
        "month": Behavior(lambda rule: Custom(month=_MONTHS[rule["example"]])),
        "gap": Behavior(lambda rule: Custom(gap=rule["gap"])),
        "carry": Behavior(lambda rule: Custom(carry=rule["rows"])),
        "highlight": Behavior(
            lambda rule: Custom(highlight=_HIGHLIGHTS[rule["which"]][0], mark=rule["mark"]), _highlights
        ),
    },
)


def digits_of(table: Table, custom: Custom) -> str:
    """The hash of a table's file, as it is printed."""
    return custom.digest(hashlib.new(custom.algorithm, custom.hashed(table).encode()).hexdigest())
