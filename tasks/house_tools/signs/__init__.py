"""The family `signs`: the signs of an exhibition are made with the house tool, as the wing wants them."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.house_tools._lines import Columns, LineTool, rules_of
from hermes_lab.tasks.house_tools.signs.rules import CUSTOMS, SiteConfig, Work, plain
from hermes_lab.tasks.house_tools.signs.words import KINDS, MAKERS, MARKS, REQUESTS, TITLES


class Signs(LineTool[SiteConfig, Work]):
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

    def file_of(self, entity: Entity) -> str:
        """A wing's works."""
        return f"{entity.slug('works')}.csv"

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """Three kinds of works."""
        return SiteConfig(tuple(draws.sample(KINDS[entity.split], 3)))

    def rows(self, site_config: SiteConfig, draws: Draws) -> tuple[Work, ...]:
        """Seven to ten works."""
        return _works(site_config, draws)

    def plain(self, rows: Sequence[Work]) -> list[str]:
        """A sign for each."""
        return plain(rows)


def _works(site_config: SiteConfig, draws: Draws) -> tuple[Work, ...]:
    """Of every kind at least two, old and young; in the order of no column."""
    number = draws.integer(7, 10)
    kinds = draws.shuffled(
        [*site_config.kinds, *site_config.kinds, *(draws.choice(site_config.kinds) for _ in range(number - 6))]
    )
    years = draws.shuffled(
        [draws.integer(1600, 1700), draws.integer(1880, 1950), *(draws.integer(1600, 1950) for _ in range(number - 2))]
    )
    titles = draws.sample([f"{mark} {title}" for mark in MARKS for title in TITLES], number)
    makers = draws.sample(MAKERS, number)
    rooms = draws.sample(range(1, 40), number)
    works = tuple(map(Work, titles, makers, kinds, years, rooms))
    columns: list[list[str] | list[int]] = [titles, years, rooms]
    return works if all(column != sorted(column) for column in columns) else _works(site_config, draws)


FAMILY = Signs()
