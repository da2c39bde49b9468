"""The family `seats`: the guests of an evening are seated with the house tool, as the hall wants them."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.house_tools._lines import Columns, LineTool, rules_of
from hermes_lab.tasks.house_tools.seats.rules import CUSTOMS, Guest, SiteConfig, plain
from hermes_lab.tasks.house_tools.seats.words import FIRST, GROUPS, LAST, REQUESTS, TOWNS


class Seats(LineTool[SiteConfig, Guest]):
    """Every group and age that a custom could be about is in every file."""

    name = "seats"
    noun = "hall"
    summary = "seat the guests of an evening with the house tool, as the hall wants them"
    tool, verb, answer = "seats", "plan", "seats.txt"
    customs = CUSTOMS
    rules = rules_of(f"./{tool} {verb}", CUSTOMS)
    flags = {name: custom.flags for name, custom in CUSTOMS.items()}  # noqa: RUF012
    requests = REQUESTS
    columns = Columns(Guest._fields, Path(__file__).parent)

    def file_of(self, entity: Entity) -> str:
        """A hall's guests."""
        return f"{entity.slug('guests')}.csv"

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """Three groups of guests."""
        return SiteConfig(tuple(draws.sample(GROUPS[entity.split], 3)))

    def rows(self, site_config: SiteConfig, draws: Draws) -> tuple[Guest, ...]:
        """Eight to eleven guests."""
        return _guests(site_config, draws)

    def plain(self, rows: Sequence[Guest]) -> list[str]:
        """A seat for each."""
        return plain(rows)


def _guests(site_config: SiteConfig, draws: Draws) -> tuple[Guest, ...]:
    """Of every group at least two, of every age some; in the order of no column, and no group at an end."""
    number = draws.integer(8, 11)
    groups = draws.shuffled(
        [*site_config.groups, *site_config.groups, *(draws.choice(site_config.groups) for _ in range(number - 6))]
    )
    ages = draws.shuffled(
        [draws.integer(5, 11), draws.integer(22, 80), *(draws.integer(5, 80) for _ in range(number - 2))]
    )
    names = draws.sample([f"{first} {last}" for first in FIRST for last in LAST], number)
    guests = tuple(
        Guest(name, group, age, draws.choice(TOWNS)) for name, group, age in zip(names, groups, ages, strict=True)
    )
    return guests if _in_no_order(guests, site_config) else _guests(site_config, draws)


def _in_no_order(guests: Sequence[Guest], site_config: SiteConfig) -> bool:
    columns = [[guest.name for guest in guests], [guest.town for guest in guests]]
    groups = [guest.group for guest in guests]
    for group in site_config.groups:
        columns += [[str(here != group) for here in groups], [str(here == group) for here in groups]]
    return all(column != sorted(column) for column in columns)


FAMILY = Seats()
