"""Publishers of web pages. Each site has its own town, so that no two sites share a URL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import NamedTuple, TypeVar
from zlib import crc32

from hermes_lab.tasks.data_family import Words, words_by_split
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.names import NAMES
from hermes_lab.tasks.words import load_phrases
from hermes_lab.types import Page

T = TypeVar("T")
_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(map(str.capitalize, _MONTHS.split()))
FIGURES = tuple(
    thousands * 1000 + hundreds * 100 + tens * 10 + units
    for thousands in range(1, 10)
    for hundreds in range(2, 8)
    for tens in range(2, 8)
    for units in (2, 3, 4, 6, 7, 8)
)
"""Four-digit numbers whose roundings to tens, hundreds and thousands all differ."""


class Standing(NamedTuple):
    """A page that every publisher has. `line` is its first sentence."""

    title: str
    url: str
    line: str
    changed: date
    page: Page


@dataclass(frozen=True)
class Publisher:
    """A website, in the words of its split."""

    town: str
    base: str
    split: str
    standing: tuple[Standing, ...]

    @property
    def changed_label(self) -> str:
        """The label of the date of last change on its pages."""
        return str(_WORDS[self.split].changed)

    def day(self, day: date) -> str:
        """A date in the format of its pages."""
        return _DAYS[self.split](day)

    def page(self, path: str, title: str, lines: Sequence[str], changed: date, *, listed: bool = True) -> Page:
        """A page with a heading, and the date of its last change at the end."""
        text = f"# {title}\n\n" + "\n".join(lines) + f"\n\n{self.changed_label}: {self.day(changed)}\n"
        return Page(url=self.url(path), title=f"{title} | {self.town}", text=text, listed=listed)

    def url(self, path: str) -> str:
        """The URL of a page."""
        return f"{self.base}/{path}"


@dataclass(frozen=True)
class Published:
    """The configuration of a site: its publisher, and the words of the family in its split."""

    publisher: Publisher
    words: Words


_WORDS = words_by_split(__file__)
_DELIVERIES = load_phrases(__file__, "deliveries")
_DAYS: Mapping[str, Callable[[date], str]] = {
    "train": lambda day: f"{day.day} {MONTHS[day.month - 1]} {day.year}",
    "validation": lambda day: f"{day.year}-{day.month:02d}-{day.day:02d}",
    "heldout": lambda day: f"{MONTHS[day.month - 1][:3]} {day.day}, {day.year}",
}


def draw_publisher(entity: Entity, draws: Draws, kind: str) -> Publisher:
    """The website of an entity's town."""
    words = _WORDS[entity.split]
    number = _numbers(entity.split).get(entity.name, crc32(entity.name.encode()))
    town = words.first[number % 10] + words.last[number // 10 % 5]
    bare = Publisher(town, f"https://{kind}.{town.lower()}.example", entity.split, ())
    standing = []
    for path, title, first, rest in words.standing:
        line, changed = first.format(town=town), draw_day(draws, 2015, 2019)
        page = bare.page(path, title, (line, rest), changed)
        standing.append(Standing(title, page.url, line, changed, page))
    return Publisher(town, bare.base, entity.split, tuple(standing))


@cache
def _numbers(split: str) -> dict[str, int]:
    return {name.word: number for number, name in enumerate(NAMES[split])}


def draw_day(draws: Draws, first_year: int, last_year: int) -> date:
    """A random date in those years."""
    return date(draws.integer(first_year, last_year), draws.integer(1, 12), draws.integer(1, 28))


def draw_some(draws: Draws, items: Sequence[T], count: int) -> list[T]:
    """`count` distinct ones of many `items`, without shuffling all of them as `Draws.sample` does."""
    found: dict[T, None] = {}
    while len(found) < count:
        found[draws.choice(items)] = None
    return list(found)


FORM = '{"value": "...", "sources": [{"url": "...", "quote": "..."}]}'


def delivery(entity: Entity, draws: Draws, lines: Mapping[str, str]) -> str:
    """The instructions for delivering the answer; `lines` says what to quote, by split."""
    return entity.phrase(draws, _DELIVERIES).replace("FORM", FORM).replace("LINE", lines[entity.split])
