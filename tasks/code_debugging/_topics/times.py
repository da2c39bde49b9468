"""Topics about clocks, days and bookings."""

from collections.abc import Mapping

from hermes_lab.tasks.code_debugging._topics.topic import Args, Topic
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


TOPICS: Mapping[str, Topic] = {
    "step": Topic(
        names={
            "train": ("in_minutes", "duration"),
            "validation": ("time_spent",),
            "heldout": ("work_time", "span_of"),
        },
        parameters="clock",
        purpose="The minutes of a time such as 2:00.",
        broken_code=(
            '    hours, rest = clock.split(":")\n    return int(hours) * 100 + int(rest)',
            '    return int(clock.replace(":", ""))',
        ),
        plain_code='    hours, rest = clock.split(":")\n    return int(hours) * 60 + int(rest)',
        house_code=(
            '    hours, rest = clock.split(":")\n'
            "    total = int(hours) * 60 + int(rest)\n"
            "    return (total + RULE - 1) // RULE * RULE"
        ),
        complaints={
            "train": (
                "{call} should be {want}: an hour has sixty minutes.",
                "Hours are counted wrong. For {call} we want {want}.",
            ),
            "validation": ("The timesheets are too long, {call} must be {want}.",),
            "heldout": ("Whoever works by the hour gets too much, for {call} has to be {want} minutes.",),
        },
        paraphrases=(
            "time is counted in blocks of {rule} minutes, and a begun block is a whole one",
            "minutes go up to the next multiple of {rule}",
            "we book {rule} minutes at a time, so a rest is filled up",
        ),
        instruction="round the minutes up to a multiple of {rule}",
        rules=(5, 6, 10, 15),
        report=lambda draws, _: [f"{draws.integer(1, 9)}:{draws.choice((0, 30)):02d}"],
        call=_clock,
        plain=_minutes,
        house=lambda _, rule, clock: next(total for total in range(0, 1000, rule) if total >= _minutes(_, clock)),
    ),
    "cutoff": Topic(
        names={
            "train": ("day_number", "booked_day"),
            "validation": ("day_of",),
            "heldout": ("shift_day", "logged_day"),
        },
        parameters="stamp",
        purpose="The day of a stamp such as 31/12:45, which is a day of the year and a time.",
        broken_code=("    return int(stamp[:2])", '    return int(stamp.split("/")[0][-2:])'),
        plain_code='    return int(stamp.split("/")[0])',
        house_code=(
            '    day, clock = stamp.split("/")\n    return int(day) - 1 if int(clock[:2]) < RULE else int(day)'
        ),
        complaints={
            "train": (
                "{call} should be {want}, but days of three digits are cut.",
                "Since April the days are wrong: {call} must be {want}.",
            ),
            "validation": ("We get two digits where there are three. {call} should be {want}.",),
            "heldout": ("From day 100 on a digit goes missing; it is {want} that {call} has to give.",),
        },
        paraphrases=(
            "the day begins at {rule} o'clock, and what is earlier belongs to the day before",
            "hours before {rule} are still the night of the day before",
            "until {rule} in the morning we count the previous day",
        ),
        instruction="count a time before {rule} o'clock to the day before",
        rules=(3, 4, 5, 6, 7),
        report=lambda draws, _: [
            f"{draws.integer(1, 3)}{draws.integer(11, 64)}/{draws.integer(9, 22):02d}:{draws.integer(10, 59)}"
        ],
        call=_stamp,
        plain=lambda _, stamp: int(stamp.partition("/")[0]),
        house=lambda _, rule, stamp: int(stamp.partition("/")[0]) - (stamp.partition("/")[2] < f"{rule:02d}:00"),
    ),
    "gap": Topic(
        names={"heldout": ("clash", "collide", "in_the_way", "conflict")},
        parameters="one, other",
        purpose="Whether two bookings, each a start and an end in minutes, cannot both be had.",
        broken_code=("    return one[0] <= other[0] < one[1]", "    return other[0] in range(*one)"),
        plain_code="    return one[0] < other[1] and other[0] < one[1]",
        house_code="    return one[0] < other[1] + RULE and other[0] < one[1] + RULE",
        complaints={
            "heldout": (
                "{call} should be {want}: the second begins first and lasts into the other.",
                "Double bookings slip through. {call} has to be {want}.",
            )
        },
        paraphrases=(
            "between two bookings there have to be at least {rule} minutes, or they clash",
            "it takes {rule} minutes to get ready again, so less than that in between is a clash too",
            "we leave {rule} minutes free after each booking, and a shorter pause is too short",
        ),
        instruction="treat bookings less than {rule} minutes apart as a clash",
        rules=(10, 15, 20, 25),
        report=_from_within,
        call=_bookings,
        plain=lambda _, one, other: _apart(one, other) < 0,
        house=lambda _, rule, one, other: _apart(one, other) < rule,
    ),
}
