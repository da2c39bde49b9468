"""The family `signs`: the signs of an exhibition are made with a tool, following the wing's rules."""

from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Lines, LineTool, spread, twice_each, unsorted
from hermes_lab.tasks.rules import load_conventions
from hermes_lab.tasks.words import load_list

MARKS, TITLES, MAKERS = (load_list(__file__, key) for key in ("marks", "titles", "makers"))


class Work(NamedTuple):
    """A row of the file."""

    title: str
    maker: str
    kind: str
    year: int
    room: int


def _sign(work: Work) -> str:
    return f"{work.title} by {work.maker}"


LINES = Lines(_sign)
CONVENTIONS = load_conventions(
    __file__,
    {
        "hide": LINES.those(lambda work, rule: work.kind != rule["kind"]),
        "after": LINES.those(lambda work, rule: work.year > rule["year"]),
        "until": LINES.those(lambda work, rule: work.year <= rule["year"]),
        "walk": LINES.by(lambda work, rule: getattr(work, rule["column"])),
        "quotes": LINES.each(lambda work, rule: f'"{work.title}" by {work.maker}'),
        "years": LINES.each(lambda work, rule: f"{_sign(work)} ({work.year})"),
        "rooms": LINES.each(lambda work, rule: f"{work.room} {_sign(work)}"),
        "loud": LINES.each(lambda work, rule: f"{work.title} by {work.maker.upper()}"),
        "anonymous": LINES.each(lambda work, rule: work.title),
        "lender": LINES.all(lambda lines, rule: [f"{line}, {rule['word']}" for line in lines]),
        "twin": LINES.all(lambda lines, rule: [line for line in lines for _ in range(rule["number"])]),
        "from": LINES.all(lambda lines, rule: [f"{n}. {line}" for n, line in enumerate(lines, rule["number"])]),
        "over": LINES.all(lambda lines, rule: [rule["word"], *lines]),
    },
)


class Signs(LineTool[Work]):
    """Every kind and year that a rule could be about is in every file."""

    def draw_rows(self, kinds: Sequence[str], draws: Draws) -> tuple[Work, ...] | None:
        """Seven to ten works, old and young, in the order of no column."""
        number = draws.integer(7, 10)
        of_kinds = twice_each(draws, kinds, number)
        years = spread(draws, number, [draws.integer(1600, 1700), draws.integer(1880, 1950)], 1600, 1950)
        titles = draws.sample([f"{mark} {title}" for mark in MARKS for title in TITLES], number)
        makers, rooms = draws.sample(MAKERS, number), draws.sample(range(1, 40), number)
        return tuple(map(Work, titles, makers, of_kinds, years, rooms)) if unsorted(titles, years, rooms) else None


FAMILY = Signs(__file__, Work._fields, LINES, CONVENTIONS)
