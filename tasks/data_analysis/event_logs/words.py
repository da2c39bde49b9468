"""The words of counters and their logs. No split shares one."""

from dataclasses import dataclass

from hermes_lab.tasks.words import load_by_split, load_phrases


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


VOCABULARIES = load_by_split(__file__, Vocabulary)
REQUESTS = load_phrases(__file__, "requests")
TERMS = load_phrases(__file__, "terms")
DELIVERIES = load_phrases(__file__, "deliveries")
