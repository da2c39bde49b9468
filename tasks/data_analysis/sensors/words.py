"""The words of plants and their loggers. No split shares one."""

from dataclasses import dataclass

from hermes_lab.tasks.words import load_by_split, load_phrases


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split. Each tuple holds the names that a column, a figure or a word in a cell can have."""

    time: tuple[str, ...]
    probe: tuple[str, ...]
    value: tuple[str, ...]
    corrections: tuple[tuple[str, ...], ...]
    """Two further columns of measured values."""
    firmware: tuple[str, ...]
    status: tuple[tuple[str, ...], ...]
    """A column and its values."""
    span: tuple[str, ...]
    page: tuple[str, ...]
    """What stands in place of a probe where a page is added up."""
    means: tuple[str, ...]
    count: tuple[str, ...]
    peak: tuple[str, ...]
    prefixes: tuple[str, ...]
    head: str
    """The block before the columns, over `serial` and `date`."""
    foot: str
    note: str
    """The description that comes with an export, over the names of the columns."""


VOCABULARIES = load_by_split(__file__, Vocabulary)
REQUESTS = load_phrases(__file__, "requests")
TERMS = load_phrases(__file__, "terms")
DELIVERIES = load_phrases(__file__, "deliveries")
