"""How wards want their rosters: what each custom does to them, its flag, and how an owner says it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.house_tools._lines import Custom, Literals, between, one_of


class Shift(NamedTuple):
    """A row of the file: who works from which hour on, for how many hours."""

    person: str
    trade: str
    start: int
    hours: int
    phone: int


@dataclass(frozen=True)
class SiteConfig:
    """The trades of a ward: every one is in every file."""

    trades: tuple[str, ...]


def plain(shifts: Sequence[Shift]) -> list[str]:
    """The roster where no custom holds."""
    return [line(shift) for shift in shifts]


def line(shift: Shift) -> str:
    """One shift."""
    return f"{shift.start}h {shift.person}"


def _those(which: Callable[[Shift, Literals], bool]) -> Callable[[Sequence[Shift], Literals], list[str]]:
    return lambda shifts, rule: plain([shift for shift in shifts if which(shift, rule)])


def _each(change: Callable[[Shift, Literals], str]) -> Callable[[Sequence[Shift], Literals], list[str]]:
    return lambda shifts, rule: [change(shift, rule) for shift in shifts]


def _trade(draws: Draws, site_config: SiteConfig) -> Literals:
    return {"trade": draws.choice(site_config.trades)}


CUSTOMS: Mapping[str, Custom[Shift]] = {
    "without": Custom(
        "--without {trade}",
        (
            "{trade} have a roster of their own",
            "{trade} are not ours to plan",
            "the roster is for all but {trade}",
        ),
        _those(lambda shift, rule: shift.trade != rule["trade"]),
        _trade,
    ),
    "just": Custom(
        "--just {trade}",
        (
            "the board has room for {trade} alone",
            "of all people only {trade} read the roster",
            "nobody but {trade} is planned here",
        ),
        _those(lambda shift, rule: shift.trade == rule["trade"]),
        _trade,
        unseen=True,
    ),
    "since": Custom(
        "--since {hour}",
        (
            "what starts before {hour} was planned yesterday",
            "the roster begins at hour {hour}",
            "shifts that start earlier than {hour} are over by then",
        ),
        _those(lambda shift, rule: shift.start >= rule["hour"]),
        between("hour", 8, 14),
    ),
    "long": Custom(
        "--long {hours}",
        (
            "shifts of fewer than {hours} hours need no line",
            "a shift counts from {hours} hours on",
            "below {hours} hours it is a visit and no shift",
        ),
        _those(lambda shift, rule: shift.hours >= rule["hours"]),
        between("hours", 4, 7),
    ),
    "order": Custom(
        "--order {column}",
        (
            "the roster goes by {column}",
            "lines are in the order of {column}",
            "our people look themselves up by {column}",
        ),
        lambda shifts, rule: plain(sorted(shifts, key=lambda shift: getattr(shift, rule["column"]))),
        one_of("column", "person start phone"),
    ),
    "ends": Custom(
        "--ends",
        (
            "the hour at which a shift ends is told as well",
            "a line says from when to when",
            "a roster without the ends of shifts led to gaps",
        ),
        _each(lambda shift, rule: f"{shift.start}-{shift.start + shift.hours}h {shift.person}"),
    ),
    "later": Custom(
        "--later {minutes}",
        (
            "everybody comes {minutes} minutes after the hour",
            "shifts are moved by {minutes} minutes",
            "the bus is late, so it is {minutes} past for all",
        ),
        _each(lambda shift, rule: f"{shift.start}h{rule['minutes']} {shift.person}"),
        between("minutes", 11, 48),
    ),
    "phones": Custom(
        "--phones",
        (
            "a phone number ends each line",
            "we call people in the night, so their phones are on it",
            "a name without a phone helps nobody here",
        ),
        _each(lambda shift, rule: f"{line(shift)} {shift.phone}"),
        unseen=True,
    ),
    "short": Custom(
        "--short",
        (
            "first names do, for all know each other",
            "surnames are private here",
            "people go by their first names on the board",
        ),
        _each(lambda shift, rule: f"{shift.start}h {shift.person.split()[0]}"),
    ),
    "trades": Custom(
        "--trades",
        (
            "the trade stands behind a name",
            "it must be seen what each person does",
            "names alone do not tell a trade, so it is added",
        ),
        _each(lambda shift, rule: f"{line(shift)} ({shift.trade})"),
    ),
    "post": Custom(
        "--post {word}",
        (
            "each line begins with the post {word}",
            "everybody stands at {word}, and lines say so first",
            "{word} is put in front of the hour",
        ),
        _each(lambda shift, rule: f"{rule['word']} {line(shift)}"),
        one_of("word", "GATE NORTH SOUTH EAST WEST DOOR TOWER BRIDGE"),
    ),
    "spare": Custom(
        "--spare {number}",
        (
            "{number} free lines stay at the end, each a hyphen",
            "below the last shift there are {number} hyphens, a line each",
            "{number} places are kept for helpers",
        ),
        lambda shifts, rule: [*plain(shifts), *["-"] * rule["number"]],
        between("number", 2, 6),
    ),
    "sign": Custom(
        "--sign {word}",
        (
            "whoever planned it signs below: {word}",
            "the last line is the name {word}",
            "without {word} under it nobody trusts a roster",
        ),
        lambda shifts, rule: [*plain(shifts), rule["word"]],
        one_of("word", "Olsen Petri Quinn Rossi Stein Tamm Ueda Vogel"),
        unseen=True,
    ),
}
