"""The family `labels`: labels for a depot's parcels are printed with a tool, following the depot's rules."""

from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Lines, LineTool, spread, twice_each, unsorted
from hermes_lab.tasks.rules import load_conventions
from hermes_lab.tasks.words import load_list

FIRST, LAST = load_list(__file__, "first"), load_list(__file__, "last")
STREETS, TOWNS = load_list(__file__, "streets"), load_list(__file__, "towns")


class Parcel(NamedTuple):
    """A row of the file."""

    name: str
    street: str
    code: str
    town: str
    kind: str
    kilos: int


def _label(parcel: Parcel, join: str = ", ") -> str:
    return join.join((parcel.name, parcel.street, f"{parcel.code} {parcel.town}"))


LINES = Lines(_label)
CONVENTIONS = load_conventions(
    __file__,
    {
        "only": LINES.those(lambda parcel, rule: parcel.kind == rule["kind"]),
        "skip": LINES.those(lambda parcel, rule: parcel.kind != rule["kind"]),
        "heavy": LINES.those(lambda parcel, rule: parcel.kilos >= rule["kilos"]),
        "light": LINES.those(lambda parcel, rule: parcel.kilos < rule["kilos"]),
        "sort": LINES.by(lambda parcel, rule: str(getattr(parcel, rule["column"]))),
        "reverse": LINES.all(lambda lines, rule: lines[::-1]),
        "caps": LINES.each(lambda parcel, rule: _label(parcel._replace(name=parcel.name.upper()))),
        "country": LINES.each(lambda parcel, rule: _label(parcel._replace(code=f"{rule['letters']}-{parcel.code}"))),
        "weight": LINES.each(lambda parcel, rule: f"{_label(parcel)}, {parcel.kilos} kg"),
        "join": LINES.each(lambda parcel, rule: _label(parcel, rule["mark"])),
        "copies": LINES.all(lambda lines, rule: [line for line in lines for _ in range(rule["number"])]),
        "number": LINES.all(lambda lines, rule: [f"{n}. {line}" for n, line in enumerate(lines, 1)]),
        "mark": LINES.all(lambda lines, rule: [f"{rule['word']} {line}" for line in lines]),
        "last": LINES.all(lambda lines, rule: [*lines, rule["word"]]),
    },
)


class Labels(LineTool[Parcel]):
    """Every kind and weight that a rule could be about is in every file."""

    def draw_rows(self, kinds: Sequence[str], draws: Draws) -> tuple[Parcel, ...] | None:
        """Seven to ten parcels, on both sides of every weight, in the order of no column."""
        number = draws.integer(7, 10)
        of_kinds = twice_each(draws, kinds, number)
        kilos = spread(draws, number, [draws.integer(1, 7), draws.integer(21, 30)], 1, 30)
        names = draws.sample([f"{first} {last}" for first in FIRST for last in LAST], number)
        codes = [str(code) for code in draws.sample(range(1000, 9999, 7), number)]
        streets = [f"{draws.choice(STREETS)} {draws.integer(1, 80)}" for _ in range(number)]
        towns = [draws.choice(TOWNS) for _ in range(number)]
        found = tuple(map(Parcel, names, streets, codes, towns, of_kinds, kilos))
        return found if unsorted(names, codes, towns, streets) else None


FAMILY = Labels(__file__, Parcel._fields, LINES, CONVENTIONS)
