"""How kitchens want their menus: what each custom does to the lines, its flag, and how an owner says it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Custom, Literals, between, one_of


class Dish(NamedTuple):
    """A row of the file."""

    dish: str
    course: str
    price: int
    heat: int


@dataclass(frozen=True)
class SiteConfig:
    """The courses of a kitchen: every one is in every file."""

    courses: tuple[str, ...]


def plain(dishes: Sequence[Dish]) -> list[str]:
    """The menu where no custom holds."""
    return [f"{dish.dish} {dish.price}" for dish in dishes]


def _those(which: Callable[[Dish, Literals], bool]) -> Callable[[Sequence[Dish], Literals], list[str]]:
    return lambda dishes, rule: plain([dish for dish in dishes if which(dish, rule)])


def _each(line: Callable[[Dish, Literals], str]) -> Callable[[Sequence[Dish], Literals], list[str]]:
    return lambda dishes, rule: [line(dish, rule) for dish in dishes]


def _course(draws: Draws, site_config: SiteConfig) -> Literals:
    return {"course": draws.choice(site_config.courses)}


CUSTOMS: Mapping[str, Custom[Dish]] = {
    "omit": Custom(
        "--omit {course}",
        (
            "{course} are told by the waiter and not written",
            "the card shows no {course}",
            "guests ask for {course}, so these stay off the card",
        ),
        _those(lambda dish, rule: dish.course != rule["course"]),
        _course,
    ),
    "lead": Custom(
        "--lead {course}",
        (
            "{course} open the card",
            "a card that does not open with {course} is torn up",
            "what we are known for is {course}, so these are on top",
        ),
        lambda dishes, rule: plain(sorted(dishes, key=lambda dish: dish.course != rule["course"])),
        _course,
    ),
    "ceiling": Custom(
        "--ceiling {price}",
        (
            "nothing here costs more than {price}",
            "a dish over {price} is for the evening",
            "students pay {price} at most, so dearer dishes go",
        ),
        _those(lambda dish, rule: dish.price <= rule["price"]),
        between("price", 12, 18),
    ),
    "mild": Custom(
        "--mild {heat}",
        (
            "a heat above {heat} is too much for our guests",
            "dishes hotter than {heat} go",
            "our guests bear a heat of {heat} and no more",
        ),
        _those(lambda dish, rule: dish.heat <= rule["heat"]),
        between("heat", 2, 3),
        unseen=True,
    ),
    "rank": Custom(
        "--rank {column}",
        (
            "dishes are ranked by {column}, from small to great",
            "the lowest {column} is on top",
            "our card climbs in {column}",
        ),
        lambda dishes, rule: plain(sorted(dishes, key=lambda dish: int(getattr(dish, rule["column"])))),
        one_of("column", "price heat"),
    ),
    "extra": Custom(
        "--extra {number}",
        (
            "service is {number} on top of each price",
            "prices in the list lack {number} for service",
            "each dish costs {number} more than the list says",
        ),
        _each(lambda dish, rule: f"{dish.dish} {dish.price + rule['number']}"),
        between("number", 2, 9),
    ),
    "money": Custom(
        "--money {letters}",
        (
            "{letters} stands before each price",
            "our guests come from abroad, so prices say {letters} first",
            "a price without {letters} before it is void",
        ),
        _each(lambda dish, rule: f"{dish.dish} {rule['letters']} {dish.price}"),
        one_of("letters", "EUR USD GBP CHF SEK NOK DKK PLN CZK"),
    ),
    "title": Custom(
        "--title",
        (
            "each word of a dish has a large first letter",
            "dishes are written large, like names of people",
            "small first letters look cheap on our card",
        ),
        _each(lambda dish, rule: f"{dish.dish.title()} {dish.price}"),
    ),
    "course": Custom(
        "--course",
        (
            "the course stands between dish and price",
            "a waiter must read the course on each line",
            "lines without their course confuse the kitchen",
        ),
        _each(lambda dish, rule: f"{dish.dish} {dish.course} {dish.price}"),
        unseen=True,
    ),
    "bullet": Custom(
        "--bullet {sign}",
        (
            "each line of the card begins with {sign} at once",
            "the sign {sign} is set right before each dish",
            "our printer wants {sign} in front of a dish, without a space",
        ),
        _each(lambda dish, rule: f"{rule['sign']}{dish.dish} {dish.price}"),
        one_of("sign", "+ = @ % / ^"),
    ),
    "gap": Custom(
        "--gap {sign}",
        (
            "between dish and price there is {sign} and no space",
            "{sign} parts a dish from its price",
            "prices are glued to dishes by {sign}",
        ),
        _each(lambda dish, rule: f"{dish.dish}{rule['sign']}{dish.price}"),
        one_of("sign", ": = .. ... _ /"),
    ),
    "stars": Custom(
        "--stars",
        (
            "a line ends with as many stars as its dish is hot",
            "heat is shown by stars",
            "guests count the stars to know how hot it gets",
        ),
        _each(lambda dish, rule: f"{dish.dish} {dish.price}{'*' * dish.heat}"),
    ),
    "top": Custom(
        "--top {word}",
        (
            "the card is headed {word}",
            "{word} stands alone on the first line",
            "over all dishes there is the word {word}",
        ),
        lambda dishes, rule: [rule["word"], *plain(dishes)],
        one_of("word", "TODAY LUNCH MENU WELCOME FRESH DAILY SPECIALS"),
        unseen=True,
    ),
}
