"""The family `signs`: the signs of an exhibition are made with the house tool, as the wing wants them."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Site
from hermes_lab.tasks.house_tools._lines import Columns, LineTool, rules_of
from hermes_lab.tasks.house_tools.signs.rules import CUSTOMS, Shape, Work, plain
from hermes_lab.tasks.house_tools.signs.words import KINDS, MAKERS, MARKS, REQUESTS, TITLES


class Signs(LineTool[Shape, Work]):
    """Every kind and year that a custom could be about is in every file."""

    name = "signs"
    noun = "wing"
    summary = "make the signs of an exhibition with the house tool, as the wing wants them"
    tool, verb, answer = "signs", "make", "signs.txt"
    customs = CUSTOMS
    rules = rules_of(f"./{tool} {verb}", CUSTOMS)
    flags = {name: custom.flags for name, custom in CUSTOMS.items()}  # noqa: RUF012
    requests = REQUESTS
    columns = Columns(Work._fields, Path(__file__).parent)

    def file_of(self, site: Site) -> str:
        """A wing's works."""
        return f"{site.slug('works')}.csv"

    def shape(self, site: Site, kind: str, draws: Draws) -> Shape:
        """Three kinds of works."""
        return Shape(tuple(draws.sample(KINDS[site.split], 3)))

    def rows(self, shape: Shape, draws: Draws) -> tuple[Work, ...]:
        """Seven to ten works."""
        return _works(shape, draws)

    def plain(self, rows: Sequence[Work]) -> list[str]:
        """A sign for each."""
        return plain(rows)


def _works(shape: Shape, draws: Draws) -> tuple[Work, ...]:
    """Of every kind at least two, old and young; in the order of no column."""
    number = draws.integer(7, 10)
    kinds = draws.shuffled([*shape.kinds, *shape.kinds, *(draws.choice(shape.kinds) for _ in range(number - 6))])
    years = draws.shuffled(
        [draws.integer(1600, 1700), draws.integer(1880, 1950), *(draws.integer(1600, 1950) for _ in range(number - 2))]
    )
    titles = draws.sample([f"{mark} {title}" for mark in MARKS for title in TITLES], number)
    makers = draws.sample(MAKERS, number)
    rooms = draws.sample(range(1, 40), number)
    works = tuple(map(Work, titles, makers, kinds, years, rooms))
    columns: list[list[str] | list[int]] = [titles, years, rooms]
    return works if all(column != sorted(column) for column in columns) else _works(shape, draws)


FAMILY = Signs()
