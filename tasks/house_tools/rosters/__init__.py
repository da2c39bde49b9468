"""The family `rosters`: the roster of a day is filled with a tool, following the ward's rules."""

from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Lines, LineTool, spread, twice_each, unsorted
from hermes_lab.tasks.rules import load_conventions
from hermes_lab.tasks.words import load_list

NAMES, SURNAMES = load_list(__file__, "names"), load_list(__file__, "surnames")
PHONES = range(2000, 9000, 13)


class Shift(NamedTuple):
    """A row of the file: who works from which hour on, for how many hours."""

    person: str
    trade: str
    start: int
    hours: int
    phone: int


def _line(shift: Shift) -> str:
    return f"{shift.start}h {shift.person}"


LINES = Lines(_line)
CONVENTIONS = load_conventions(
    __file__,
    {
        "without": LINES.those(lambda shift, rule: shift.trade != rule["trade"]),
        "just": LINES.those(lambda shift, rule: shift.trade == rule["trade"]),
        "since": LINES.those(lambda shift, rule: shift.start >= rule["hour"]),
        "long": LINES.those(lambda shift, rule: shift.hours >= rule["hours"]),
        "order": LINES.by(lambda shift, rule: getattr(shift, rule["column"])),
        "ends": LINES.each(lambda shift, rule: f"{shift.start}-{shift.start + shift.hours}h {shift.person}"),
        "later": LINES.each(lambda shift, rule: f"{shift.start}h{rule['minutes']} {shift.person}"),
        "phones": LINES.each(lambda shift, rule: f"{_line(shift)} {shift.phone}"),
        "short": LINES.each(lambda shift, rule: f"{shift.start}h {shift.person.split()[0]}"),
        "trades": LINES.each(lambda shift, rule: f"{_line(shift)} ({shift.trade})"),
        "post": LINES.all(lambda lines, rule: [f"{rule['word']} {line}" for line in lines]),
        "spare": LINES.all(lambda lines, rule: [*lines, *["-"] * rule["number"]]),
        "sign": LINES.all(lambda lines, rule: [*lines, rule["word"]]),
    },
)


class Rosters(LineTool[Shift]):
    """Every trade, hour and length that a rule could be about is in every file."""

    def draw_rows(self, kinds: Sequence[str], draws: Draws) -> tuple[Shift, ...] | None:
        """Seven to ten shifts, early and late, short and long, in the order of no column."""
        number = draws.integer(7, 10)
        trades = twice_each(draws, kinds, number)
        starts = spread(draws, number, [draws.integer(1, 7), 15], 1, 15)
        hours = spread(draws, number, [3, 8], 3, 8)
        people = draws.sample([f"{name} {surname}" for name in NAMES for surname in SURNAMES], number)
        phones = draws.sample(PHONES, number)
        return tuple(map(Shift, people, trades, starts, hours, phones)) if unsorted(people, starts, phones) else None


FAMILY = Rosters(__file__, Shift._fields, LINES, CONVENTIONS)
