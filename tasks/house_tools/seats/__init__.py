"""The family `seats`: guests are seated with a tool, following the hall's rules."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import LineBehavior, Lines, LineTool, spread, twice_each, unsorted
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions
from hermes_lab.tasks.words import load_list

FIRST, LAST, TOWNS = (load_list(__file__, key) for key in ("first", "last", "towns"))


class Guest(NamedTuple):
    """A row of the file."""

    name: str
    group: str
    age: int
    town: str


class SeatLines(Lines[Guest]):
    """Lines that begin with the number of a seat."""

    def __init__(self) -> None:
        super().__init__(lambda guest: guest.name)

    def plain(self, rows: Iterable[Guest]) -> list[str]:
        """The guests on the seats from 1 on."""
        return self.seated(rows, count(1))

    def seated(self, rows: Iterable[Guest], numbers: Iterable[int], form: str = "{number}: {guest.name}") -> list[str]:
        """A line for each guest, with the numbers in their order."""
        return [form.format(number=number, guest=guest) for guest, number in zip(rows, numbers, strict=False)]

    def numbered(self, numbers: Callable[[Literals], Iterable[int]]) -> LineBehavior[Guest]:
        """Other numbers of seats."""
        return Behavior(lambda rows, rule: self.seated(rows, numbers(rule)))

    def named(self, name: Callable[[Guest], str]) -> LineBehavior[Guest]:
        """Other names of guests."""
        return Behavior(lambda rows, rule: self.plain(guest._replace(name=name(guest)) for guest in rows))


LINES = SeatLines()
CONVENTIONS = load_conventions(
    __file__,
    {
        "without": LINES.those(lambda guest, rule: guest.group != rule["group"]),
        "adults": LINES.those(lambda guest, rule: guest.age >= rule["age"]),
        "by": LINES.by(lambda guest, rule: str(getattr(guest, rule["column"]))),
        "front": LINES.by(lambda guest, rule: guest.group != rule["group"]),
        "back": LINES.by(lambda guest, rule: guest.group == rule["group"]),
        "begin": LINES.numbered(lambda rule: count(rule["number"])),
        "step": LINES.numbered(lambda rule: count(1, rule["number"])),
        "free": LINES.numbered(lambda rule: (number for number in count(1) if number != rule["number"])),
        "surnames": LINES.named(lambda guest: guest.name.split()[-1]),
        "groups": LINES.named(lambda guest: f"{guest.name} ({guest.group})"),
        "row": LINES.all(lambda lines, rule: [f"{rule['letter']}{line}" for line in lines]),
        "colon": LINES.all(lambda lines, rule: [line.replace(":", rule["sign"], 1) for line in lines]),
        "most": LINES.all(lambda lines, rule: lines[: rule["number"]]),
    },
)


class Seats(LineTool[Guest]):
    """Every group and age that a rule could be about is in every file."""

    def draw_rows(self, kinds: Sequence[str], draws: Draws) -> tuple[Guest, ...] | None:
        """Eight to eleven guests, some of every age, in the order of no column, and no group at an end."""
        number = draws.integer(8, 11)
        groups = twice_each(draws, kinds, number)
        ages = spread(draws, number, [draws.integer(5, 11), draws.integer(22, 80)], 5, 80)
        names = draws.sample([f"{first} {last}" for first in FIRST for last in LAST], number)
        towns = [draws.choice(TOWNS) for _ in range(number)]
        ends = [[(group == kind) is end for group in groups] for kind in kinds for end in (True, False)]
        return tuple(map(Guest, names, groups, ages, towns)) if unsorted(names, towns, *ends) else None


FAMILY = Seats(__file__, Guest._fields, LINES, CONVENTIONS)
