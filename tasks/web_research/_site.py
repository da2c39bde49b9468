"""Who publishes the pages of a place: a town of its own, so that no two places share an address, and the pages that
every site has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import NamedTuple, TypeVar
from zlib import crc32

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.names import NAMES
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
"""Four-digit numbers that rounding to tens, hundreds and thousands turns into different ones."""


class Standing(NamedTuple):
    """A page that every site has. `line` is its first sentence."""

    title: str
    url: str
    line: str
    changed: date
    page: Page


@dataclass(frozen=True)
class Publisher:
    """A site, in the words of its split."""

    town: str
    base: str
    split: str
    standing: tuple[Standing, ...]

    @property
    def changed_label(self) -> str:
        """How its pages call the day of their last change."""
        return _WORDS[self.split].changed

    def day(self, day: date) -> str:
        """A day, as its pages write it."""
        return _WORDS[self.split].day(day)

    def page(self, path: str, title: str, lines: Sequence[str], changed: date, *, listed: bool = True) -> Page:
        """A page with a heading, and the day of its last change at the end."""
        text = f"# {title}\n\n" + "\n".join(lines) + f"\n\n{self.changed_label}: {self.day(changed)}\n"
        return Page(url=self.url(path), title=f"{title} | {self.town}", text=text, listed=listed)

    def url(self, path: str) -> str:
        """The address of one of its pages."""
        return f"{self.base}/{path}"


class _Words(NamedTuple):
    first: tuple[str, ...]
    last: tuple[str, ...]
    changed: str
    day: Callable[[date], str]
    standing: tuple[tuple[str, str, str, str], ...]
    """Path, title, first sentence and the rest, over `{town}`."""


_WORDS: Mapping[str, _Words] = {
    "train": _Words(
        ("Nor", "Hart", "Ash", "Bram", "Wex", "Cold", "Lang", "Mar", "Stan", "Thorn"),
        ("wick", "ford", "bury", "ton", "ley"),
        "Last changed",
        lambda day: f"{day.day} {MONTHS[day.month - 1]} {day.year}",
        (
            ("about", "About this site", "This site is run by the town of {town}.", "It has been online since 2003."),
            ("contact", "Contact", "You reach us at the town hall of {town}.", "We answer within three working days."),
            ("terms", "Terms of use", "All texts of {town} may be quoted freely.", "Pictures belong to their makers."),
        ),
    ),
    "validation": _Words(
        ("Grim", "Sax", "Whit", "Kirk", "Holm", "Ald", "Ten", "Rav", "Scar", "Bex"),
        ("by", "thorpe", "mere", "combe", "hurst"),
        "Reviewed on",
        lambda day: f"{day.year}-{day.month:02d}-{day.day:02d}",
        (
            ("imprint", "Imprint", "Responsible for these pages is the clerk of {town}.", "Letters go to the clerk."),
            ("people", "Who we are", "A staff of nine looks after the pages of {town}.", "Each has a deputy."),
            ("copyright", "Copyright", "Nobody needs leave to cite {town} online.", "Maps are an exception."),
        ),
    ),
    "heldout": _Words(
        ("Val", "Mont", "Cler", "Beau", "Riv", "Font", "Pont", "Lor", "Mal", "Cas"),
        ("mar", "ville", "bourg", "san", "tera"),
        "Page state",
        lambda day: f"{MONTHS[day.month - 1][:3]} {day.day}, {day.year}",
        (
            ("masthead", "Masthead", "The {town} web desk edits what stands here.", "It sits on the second floor."),
            ("legal", "Legal notice", "Whoever uses data of {town} names the source.", "No liability is taken."),
            ("help", "Help with this site", "Readers of {town} online may ask for large print.", "It is free."),
        ),
    ),
}


def draw_publisher(entity: Entity, draws: Draws, kind: str) -> Publisher:
    """The site of a place's town."""
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
    """A day of those years."""
    return date(draws.integer(first_year, last_year), draws.integer(1, 12), draws.integer(1, 28))


def draw_some(draws: Draws, items: Sequence[T], count: int) -> list[T]:
    """`count` different ones of very many `items`: `Draws.sample` would shuffle them all."""
    found: dict[T, None] = {}
    while len(found) < count:
        found[draws.choice(items)] = None
    return list(found)


DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Search the web, then write answer.json: FORM. The value is a plain number; give a source for each "
        "page the value rests on, and as its quote LINE, word for word.",
        "I need answer.json as FORM, the value a plain number, and for each page you rely on one source that quotes "
        "LINE exactly as it stands there. It is all on the web.",
        "Look it up on the web and leave answer.json like FORM: a plain number as the value, and one source a page it "
        "comes from, which quotes LINE to the letter.",
        "Please put FORM into answer.json, with a plain number in the value. Each page the value comes from is a "
        "source, its quote being LINE without any change. A web search will find it.",
    ),
    "validation": (
        "Find it online. Your file answer.json looks like FORM; only the number in the value, one source for every "
        "page behind it, quoting LINE verbatim.",
        "Check the web and save answer.json (FORM), where value is nothing but the number and every page used is a "
        "source that repeats LINE as printed.",
    ),
    "heldout": (
        "The web knows. What I expect is answer.json with FORM in it: a bare figure as the value, and whichever pages "
        "it was taken from as sources, with LINE copied unaltered as the quote.",
        "You may use web search. Deliver answer.json shaped FORM; let the value be a bare figure, name all pages it "
        "was taken from under sources, and copy LINE into the quote of each.",
        "Research it on the web; answer.json should then have the shape FORM, a bare figure under value, and per page "
        "that supports it a source in which the quote copies LINE.",
    ),
}
FORM = '{"value": "...", "sources": [{"url": "...", "quote": "..."}]}'


def delivery(entity: Entity, draws: Draws, lines: Mapping[str, str]) -> str:
    """How the answer is wanted; `lines` names, in the words of each split, what is quoted."""
    return entity.phrase(draws, DELIVERIES).replace("FORM", FORM).replace("LINE", lines[entity.split])
