"""Topics about clocks, days and bookings."""

from hermes_lab.tasks.code_debugging._topics.topic import Args, Behaviour, topics_of
from hermes_lab.tasks.draws import Draws


def _clock(draws: Draws, _: None, __: int) -> Args:
    return [f"{draws.integer(0, 9)}:{draws.choice((0, 30, draws.integer(1, 59))):02d}"]


def _minutes(_: None, clock: str) -> int:
    return sum(int(part) * unit for part, unit in zip(clock.split(":"), (60, 1), strict=True))


def _stamp(draws: Draws, _: None, rule: int) -> Args:
    hour = draws.choice((draws.integer(0, rule - 1), draws.integer(rule, 23)))
    return [f"{draws.integer(2, 365)}/{hour:02d}:{draws.integer(0, 59):02d}"]


def _bookings(draws: Draws, _: None, rule: int) -> Args:
    """Two bookings in any order that overlap, or are parted by at least a minute but not by just `rule`."""
    start, length, other = draws.integer(300, 900), draws.integer(30, 120), draws.integer(30, 120)
    gaps = (-draws.integer(5, 30), draws.integer(1, rule - 1), draws.integer(rule + 1, 90))
    second = start + length + draws.choice(gaps)
    return draws.shuffled([[start, start + length], [second, second + other]])


def _apart(one: list[int], other: list[int]) -> int:
    """Minutes between two bookings; negative where they overlap."""
    return max(one[0], other[0]) - min(one[1], other[1])


def _from_within(draws: Draws, _: None) -> Args:
    """A booking, and an earlier one that lasts into it."""
    start, before = draws.integer(300, 900), draws.integer(5, 60)
    return [[start, start + draws.integer(60, 120)], [start - before, start + draws.integer(5, 50)]]


TOPICS = topics_of(
    __file__,
    {
        "step": Behaviour(
            report=lambda draws, _: [f"{draws.integer(1, 9)}:{draws.choice((0, 30)):02d}"],
            call=_clock,
            plain=_minutes,
            house=lambda _, rule, clock: next(total for total in range(0, 1000, rule) if total >= _minutes(_, clock)),
        ),
        "cutoff": Behaviour(
            report=lambda draws, _: [
                f"{draws.integer(1, 3)}{draws.integer(11, 64)}/{draws.integer(9, 22):02d}:{draws.integer(10, 59)}"
            ],
            call=_stamp,
            plain=lambda _, stamp: int(stamp.partition("/")[0]),
            house=lambda _, rule, stamp: int(stamp.partition("/")[0]) - (stamp.partition("/")[2] < f"{rule:02d}:00"),
        ),
        "gap": Behaviour(
            report=_from_within,
            call=_bookings,
            plain=lambda _, one, other: _apart(one, other) < 0,
            house=lambda _, rule, one, other: _apart(one, other) < rule,
        ),
    },
)
