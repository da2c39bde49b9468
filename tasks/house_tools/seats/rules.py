"""How halls seat their guests: what each custom does to the plan, its flag, and how an owner says it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Custom, Literals, between, one_of


class Guest(NamedTuple):
    """A row of the file."""

    name: str
    group: str
    age: int
    town: str


@dataclass(frozen=True)
class SiteConfig:
    """The groups that come to a hall: every one is in every file."""

    groups: tuple[str, ...]


def plain(guests: Sequence[Guest]) -> list[str]:
    """The plan where no custom holds."""
    return seated(guests, range(1, len(guests) + 1))


def seated(guests: Iterable[Guest], numbers: Iterable[int], form: str = "{number}: {name}") -> list[str]:
    """A line a guest, with the numbers in their order."""
    return [
        form.format(number=number, name=guest.name, last=guest.name.split()[-1], group=guest.group)
        for guest, number in zip(guests, numbers, strict=False)
    ]


def _numbered(numbers: Callable[[Literals], Iterable[int]]) -> Callable[[Sequence[Guest], Literals], list[str]]:
    return lambda guests, rule: seated(guests, numbers(rule))


def _written(form: str) -> Callable[[Sequence[Guest], Literals], list[str]]:
    """`form` has the rule's literals in angle brackets."""

    def lines(guests: Sequence[Guest], rule: Literals) -> list[str]:
        filled = form
        for name, value in rule.items():
            filled = filled.replace(f"<{name}>", str(value))
        return seated(guests, range(1, 1000), filled)

    return lines


def _group(draws: Draws, site_config: SiteConfig) -> Literals:
    return {"group": draws.choice(site_config.groups)}


CUSTOMS: Mapping[str, Custom[Guest]] = {
    "without": Custom(
        "--without {group}",
        (
            "the {group} have a room of their own and no seat here",
            "no seats are kept for the {group}",
            "whoever is with the {group} stands",
        ),
        lambda guests, rule: plain([guest for guest in guests if guest.group != rule["group"]]),
        _group,
    ),
    "adults": Custom(
        "--adults {age}",
        (
            "nobody below {age} is seated here",
            "guests have to be {age} or older",
            "one is let in from the age of {age} on",
        ),
        lambda guests, rule: plain([guest for guest in guests if guest.age >= rule["age"]]),
        between("age", 12, 21),
        unseen=True,
    ),
    "by": Custom(
        "--by {column}",
        (
            "guests sit by {column}",
            "our ushers want guests in the order of the {column} column",
            "{column} decides who sits first",
        ),
        lambda guests, rule: plain(sorted(guests, key=lambda guest: str(getattr(guest, rule["column"])))),
        one_of("column", "name town"),
    ),
    "front": Custom(
        "--front {group}",
        (
            "the {group} sit in front",
            "seats are given to the {group} before anybody else",
            "first come the {group}, as they paid for the hall",
        ),
        lambda guests, rule: plain(sorted(guests, key=lambda guest: guest.group != rule["group"])),
        _group,
    ),
    "back": Custom(
        "--back {group}",
        (
            "the {group} sit at the back",
            "seats are given to the {group} after everybody else",
            "last come the {group}, who leave early",
        ),
        lambda guests, rule: plain(sorted(guests, key=lambda guest: guest.group == rule["group"])),
        _group,
    ),
    "begin": Custom(
        "--begin {number}",
        (
            "seats before {number} are for the band",
            "number {number} is our first seat",
            "seats are counted from {number} on",
        ),
        _numbered(lambda rule: range(rule["number"], 1000)),
        between("number", 4, 40),
    ),
    "step": Custom(
        "--step {number}",
        (
            "from one guest to the next it is {number} seats",
            "seat numbers go up by {number}",
            "guests sit {number} seats apart",
        ),
        _numbered(lambda rule: range(1, 10_000, rule["number"])),
        between("number", 2, 9),
    ),
    "free": Custom(
        "--free {number}",
        (
            "seat {number} is broken",
            "nobody may sit on {number}",
            "seat {number} is the doctor's",
        ),
        _numbered(lambda rule: (number for number in range(1, 1000) if number != rule["number"])),
        between("number", 2, 6),
    ),
    "surnames": Custom(
        "--surnames",
        (
            "cards on seats bear surnames alone",
            "first names stay off the cards",
            "a guest is known by the last name here",
        ),
        _written("{number}: {last}"),
    ),
    "groups": Custom(
        "--groups",
        (
            "the group stands behind each name, in brackets",
            "ushers must see a guest's group on the card",
            "a card without the group is thrown away",
        ),
        _written("{number}: {name} ({group})"),
        unseen=True,
    ),
    "row": Custom(
        "--row {letter}",
        (
            "all of them sit in row {letter}, which stands before the number",
            "seat numbers begin with {letter} here",
            "guests are in row {letter}, so each number has it in front",
        ),
        _written("<letter>{number}: {name}"),
        one_of("letter", "B C D E F G H K L M P R S T"),
    ),
    "colon": Custom(
        "--colon {sign}",
        (
            "behind a number there is {sign} and no colon",
            "numbers end with {sign} here",
            "the printer of cards wants {sign} behind each number",
        ),
        _written("{number}<sign> {name}"),
        one_of("sign", "= / + % @ -"),
    ),
    "most": Custom(
        "--most {number}",
        (
            "{number} guests fill the hall",
            "no more than {number} guests are let in",
            "the fire officer allows {number} guests",
        ),
        lambda guests, rule: plain(guests)[: rule["number"]],
        between("number", 3, 6),
        unseen=True,
    ),
}
