"""The family `menus`: the menu of the day is written with a tool, following the kitchen's rules."""

from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Lines, LineTool, spread, twice_each, unsorted
from hermes_lab.tasks.rules import load_conventions
from hermes_lab.tasks.words import load_list

PREPARATIONS, MAINS = load_list(__file__, "preparations"), load_list(__file__, "mains")


class Dish(NamedTuple):
    """A row of the file."""

    dish: str
    course: str
    price: int
    heat: int


def _line(dish: Dish) -> str:
    return f"{dish.dish} {dish.price}"


LINES = Lines(_line)
CONVENTIONS = load_conventions(
    __file__,
    {
        "omit": LINES.those(lambda dish, rule: dish.course != rule["course"]),
        "lead": LINES.by(lambda dish, rule: dish.course != rule["course"]),
        "ceiling": LINES.those(lambda dish, rule: dish.price <= rule["price"]),
        "mild": LINES.those(lambda dish, rule: dish.heat <= rule["heat"]),
        "rank": LINES.by(lambda dish, rule: int(getattr(dish, rule["column"]))),
        "extra": LINES.each(lambda dish, rule: f"{dish.dish} {dish.price + rule['number']}"),
        "money": LINES.each(lambda dish, rule: f"{dish.dish} {rule['letters']} {dish.price}"),
        "title": LINES.each(lambda dish, rule: f"{dish.dish.title()} {dish.price}"),
        "course": LINES.each(lambda dish, rule: f"{dish.dish} {dish.course} {dish.price}"),
        "bullet": LINES.all(lambda lines, rule: [f"{rule['sign']}{line}" for line in lines]),
        "gap": LINES.each(lambda dish, rule: f"{dish.dish}{rule['sign']}{dish.price}"),
        "stars": LINES.each(lambda dish, rule: f"{_line(dish)}{'*' * dish.heat}"),
        "top": LINES.all(lambda lines, rule: [rule["word"], *lines]),
    },
)


class Menus(LineTool[Dish]):
    """Every course, price and heat that a rule could be about is in every file."""

    def draw_rows(self, kinds: Sequence[str], draws: Draws) -> tuple[Dish, ...] | None:
        """Seven to ten dishes, cheap and dear, mild and hot, in the order of no column, and no course on top."""
        number = draws.integer(7, 10)
        courses = twice_each(draws, kinds, number)
        prices = spread(draws, number, [draws.integer(4, 11), draws.integer(19, 30)], 4, 30)
        heats = spread(draws, number, [1, 4], 1, 4)
        names = draws.sample([f"{how} {main}" for how in PREPARATIONS for main in MAINS], number)
        on_top = [[course != kind for course in courses] for kind in kinds]
        return tuple(map(Dish, names, courses, prices, heats)) if unsorted(prices, heats, *on_top) else None


FAMILY = Menus(__file__, Dish._fields, LINES, CONVENTIONS)
