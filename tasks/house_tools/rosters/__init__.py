"""The family `rosters`: the roster of a day is filled with the house tool, as the ward wants it."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.house_tools._lines import Columns, LineTool, rules_of
from hermes_lab.tasks.house_tools.rosters.rules import CUSTOMS, Shift, SiteConfig, plain
from hermes_lab.tasks.house_tools.rosters.words import NAMES, PHONES, REQUESTS, SURNAMES, TRADES


class Rosters(LineTool[SiteConfig, Shift]):
    """Every trade, hour and length that a custom could be about is in every file."""

    name = "rosters"
    noun = "ward"
    summary = "fill the roster of a day with the house tool, as the ward wants it"
    tool, verb, answer = "rosters", "fill", "roster.txt"
    customs = CUSTOMS
    rules = rules_of(f"./{tool} {verb}", CUSTOMS)
    flags = {name: custom.flags for name, custom in CUSTOMS.items()}  # noqa: RUF012
    requests = REQUESTS
    columns = Columns(Shift._fields, Path(__file__).parent)

    def file_of(self, entity: Entity) -> str:
        """A ward's shifts."""
        return f"{entity.slug('shifts')}.csv"

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """Three trades."""
        return SiteConfig(tuple(draws.sample(TRADES[entity.split], 3)))

    def rows(self, site_config: SiteConfig, draws: Draws) -> tuple[Shift, ...]:
        """Seven to ten shifts."""
        return _shifts(site_config, draws)

    def plain(self, rows: Sequence[Shift]) -> list[str]:
        """A line for each."""
        return plain(rows)


def _shifts(site_config: SiteConfig, draws: Draws) -> tuple[Shift, ...]:
    """Of every trade at least two, early and late, short and long; in the order of no column."""
    number = draws.integer(7, 10)
    trades = draws.shuffled(
        [*site_config.trades, *site_config.trades, *(draws.choice(site_config.trades) for _ in range(number - 6))]
    )
    starts = draws.shuffled([draws.integer(1, 7), 15, *(draws.integer(1, 15) for _ in range(number - 2))])
    hours = draws.shuffled([3, 8, *(draws.integer(3, 8) for _ in range(number - 2))])
    people = draws.sample([f"{name} {surname}" for name in NAMES for surname in SURNAMES], number)
    phones = draws.sample(PHONES, number)
    shifts = tuple(map(Shift, people, trades, starts, hours, phones))
    columns: list[list[str] | list[int]] = [people, starts, phones]
    return shifts if all(column != sorted(column) for column in columns) else _shifts(site_config, draws)


FAMILY = Rosters()
