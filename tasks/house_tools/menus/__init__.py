"""The family `menus`: the menu of the day is written with the house tool, as the kitchen wants it."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.house_tools._lines import Columns, LineTool, rules_of
from hermes_lab.tasks.house_tools.menus.rules import CUSTOMS, Dish, SiteConfig, plain
from hermes_lab.tasks.house_tools.menus.words import COURSES, KINDS, MAINS, REQUESTS


class Menus(LineTool[SiteConfig, Dish]):
    """Every course, price and heat that a custom could be about is in every file."""

    name = "menus"
    noun = "kitchen"
    summary = "write the menu of the day with the house tool, as the kitchen wants it"
    tool, verb, answer = "menus", "write", "menu.txt"
    customs = CUSTOMS
    rules = rules_of(f"./{tool} {verb}", CUSTOMS)
    flags = {name: custom.flags for name, custom in CUSTOMS.items()}  # noqa: RUF012
    requests = REQUESTS
    columns = Columns(Dish._fields, Path(__file__).parent)

    def file_of(self, entity: Entity) -> str:
        """A kitchen's dishes."""
        return f"{entity.slug('dishes')}.csv"

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """Three courses."""
        return SiteConfig(tuple(draws.sample(COURSES[entity.split], 3)))

    def rows(self, site_config: SiteConfig, draws: Draws) -> tuple[Dish, ...]:
        """Seven to ten dishes."""
        return _dishes(site_config, draws)

    def plain(self, rows: Sequence[Dish]) -> list[str]:
        """A line for each."""
        return plain(rows)


def _dishes(site_config: SiteConfig, draws: Draws) -> tuple[Dish, ...]:
    """Of every course at least two, cheap and dear, mild and hot; in the order of no column, and no course on top."""
    number = draws.integer(7, 10)
    courses = draws.shuffled(
        [*site_config.courses, *site_config.courses, *(draws.choice(site_config.courses) for _ in range(number - 6))]
    )
    prices = draws.shuffled(
        [draws.integer(4, 11), draws.integer(19, 30), *(draws.integer(4, 30) for _ in range(number - 2))]
    )
    heats = draws.shuffled([1, 4, *(draws.integer(1, 4) for _ in range(number - 2))])
    names = draws.sample([f"{kind} {main}" for kind in KINDS for main in MAINS], number)
    dishes = tuple(map(Dish, names, courses, prices, heats))
    return dishes if _in_no_order(dishes, site_config) else _dishes(site_config, draws)


def _in_no_order(dishes: Sequence[Dish], site_config: SiteConfig) -> bool:
    columns = [[dish.price for dish in dishes], [dish.heat for dish in dishes]]
    columns += [[int(dish.course != course) for dish in dishes] for course in site_config.courses]
    return all(column != sorted(column) for column in columns)


FAMILY = Menus()
