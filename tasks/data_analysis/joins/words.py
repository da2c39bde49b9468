"""The words of branches and their exports. No split shares one."""

from dataclasses import dataclass

from hermes_lab.tasks.words import load_by_split, load_phrases


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split. Each tuple holds the names that a file, a column or a figure can have."""

    sales: tuple[str, ...]
    articles: tuple[str, ...]
    customers: tuple[str, ...]
    areas: tuple[str, ...]
    date: tuple[str, ...]
    article: tuple[str, ...]
    customer: tuple[str, ...]
    quantity: tuple[str, ...]
    price: tuple[str, ...]
    pack: tuple[str, ...]
    since: tuple[str, ...]
    label: tuple[str, ...]
    group: tuple[tuple[str, ...], ...]
    """A column and its values."""
    merged: tuple[str, ...]
    area: tuple[str, ...]
    share: tuple[str, ...]
    totals: tuple[str, ...]
    units: tuple[str, ...]
    goods: tuple[str, ...]
    people: tuple[str, ...]
    prefixes: tuple[str, ...]
    note: str
    """The description that comes with the files, over the names of files and columns."""


VOCABULARIES = load_by_split(__file__, Vocabulary)
REQUESTS = load_phrases(__file__, "requests")
TERMS = load_phrases(__file__, "terms")
DELIVERIES = load_phrases(__file__, "deliveries")
