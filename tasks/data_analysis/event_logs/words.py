"""The words of counters and their logs. No split shares one."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_lab.tasks.data_analysis._conventions import words


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split: names of fields, and what can stand in them."""

    times: tuple[str, ...]
    events: tuple[tuple[str, str, str, str], ...]
    """The field, and what it holds for a visit, an opening and a closing."""
    tickets: tuple[str, ...]
    cards: tuple[str, ...]
    windows: tuple[tuple[str, tuple[str, ...]], ...]
    services: tuple[tuple[str, tuple[str, ...]], ...]
    lengths: tuple[str, ...]
    days: tuple[str, ...]
    visits: tuple[str, ...]
    prefixes: tuple[str, ...]
    note: str
    """The description that comes with a log, over the names of the fields."""


def _field(text: str) -> tuple[str, tuple[str, ...]]:
    name, *values = text.split()
    return name, tuple(values)


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        times=words("at time when"),
        events=(("event", "served", "opened", "closed"), ("action", "visit", "login", "logout")),
        tickets=words("ticket slip"),
        cards=words("card badge"),
        windows=(_field("window north south east"), _field("lane red blue green")),
        services=(_field("service renewal payment pickup advice"), _field("topic claim booking return query")),
        lengths=words("secs duration"),
        days=words("days per_day"),
        visits=words("visits count"),
        prefixes=words("K4- N2- R7- T9- W3-"),
        note="""\
# The queue system's log

One line for each event, in the order of time. Times are UTC.

- `{time}`: when it happened
- `{event}`: `{done}` when somebody was attended to, `{opened}` and `{closed}` when staff came and went
- `{ticket}`: the number that was called
- `{card}`: who came
- `{window}`: where
- `{service}`: what for
- `{secs}`: how long it took, in seconds
""",
    ),
    "validation": Vocabulary(
        times=words("stamp moment"),
        events=(("kind", "finished", "staffed", "vacated"),),
        tickets=words("coupon"),
        cards=words("pass"),
        windows=(_field("booth alpha beta gamma"),),
        services=(_field("errand deposit signature exchange"),),
        lengths=words("took"),
        days=words("daily"),
        visits=words("cases"),
        prefixes=words("B5- D8- V6-"),
        note="""\
Fields of an entry ({time} is in UTC):
  {event}    {done}, or {opened} / {closed} at a change of shift
  {ticket}   drawn at the door
  {card}     of the person
  {window}, {service}
  {secs}     seconds
""",
    ),
    "heldout": Vocabulary(
        times=words("ts logged"),
        events=(("what", "handled", "begun", "left"), ("state", "done", "manned", "idle")),
        tickets=words("token chit"),
        cards=words("member tag"),
        windows=(_field("position upper middle lower"), _field("hatch oak elm ash")),
        services=(_field("purpose licence refund inquiry handover"), _field("request copy seal transfer check")),
        lengths=words("elapsed spent"),
        days=words("by_date dates"),
        visits=words("people total"),
        prefixes=words("F6- H1- M8- S2-"),
        note="""\
ABOUT THIS LOG
The machine writes an entry as things happen; its clock runs on UTC.
{event} = {done}: a person was seen to. {opened}, {closed}: about the staff.
{ticket} / {card}: the paper slip and the person it was given to.
{window} / {service}: place and reason.
{secs}: seconds from call to goodbye.
""",
    ),
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "How busy was {place} on each day? Its log is {file}.",
        "Please go through {file}, the log of {place}, and add up the seconds of each day.",
        "We plan the staff of {place} and need to know from {file} how much time every day took.",
        "{file} is what the queue system of {place} logged. Sum up its days.",
        "The monthly review of {place} lacks the daily times. They are in {file}.",
        "Turn the log of {place}, {file}, into times per day.",
        "Somebody asks how long {place} was at work day by day; find out from {file}.",
        "Here is {file} from {place}. Work out how many seconds fell on which day.",
        "I want a daily summary of {place}. Take it from the log {file}.",
    ),
    "validation": (
        "A table of daily effort is missing for {place}; derive it from {file}.",
        "Could you condense {file}, recorded by {place}, to one figure a date?",
        "With the recording of {place} in {file}, say what each date amounts to.",
    ),
    "heldout": (
        "The head of {place} wonders which dates were heavy. Evaluate {file} for that.",
        "I got {file} out of the machine at {place}; boil it down, please, date after date.",
        "Before we hire for {place}, evaluate its record {file}.",
        "{file} was recorded at {place}. Give me the workload, split along the calendar.",
        "Management would like to see the workload of {place}. You find the raw record in {file}.",
    ),
}
TERMS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Every line with {event} {done} is one visit of `{secs}` seconds on the date in `{time}`.",
        "A visit is a line whose {event} is {done}; it lasts `{secs}` and belongs to its date in `{time}`.",
        "Only {event} {done} stands for a visit, its length is in `{secs}`, its date in `{time}`.",
    ),
    "validation": ("Sum `{secs}` of all entries marked {done} in `{event}`, grouped after the date part of `{time}`.",),
    "heldout": (
        "What matters are entries where {event} says {done}: `{secs}`, put together by calendar date (see `{time}`).",
        "Group by the calendar date of `{time}` and total `{secs}`, using those entries whose {event} reads {done}.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        'Write answer.json as {{"{days}": {{date: seconds}}, "{visits}": number of visits}}, dates as in the log.',
        'The result goes to answer.json: {{"{days}": {{date: seconds, ...}}, "{visits}": how many visits in all}} '
        "with the dates of the log.",
        'Leave answer.json with "{days}", an object of date and seconds, and "{visits}", the number of all visits; '
        "dates look like those in the log.",
        'I read it from answer.json: in "{days}" the seconds under each date (like in the log), in "{visits}" '
        "the number of visits.",
    ),
    "validation": (
        'Store {{"{days}": {{"2031-12-24": 4200, ...}}, "{visits}": 17}} in answer.json, the second being their count.',
        'Expected in answer.json: "{days}" maps ISO dates to seconds, "{visits}" is the count of entries used.',
    ),
    "heldout": (
        'Make an answer.json of the shape {{"{days}": {{"2031-12-24": 4200}}, "{visits}": 17}}, the latter being the '
        "quantity of entries behind it.",
        'It should end up in answer.json, where "{days}" holds each YYYY-MM-DD with its sum and "{visits}" the '
        "quantity of entries.",
        'Fill answer.json with two things: "{days}" (YYYY-MM-DD to sum) and "{visits}" (entries evaluated).',
    ),
}
