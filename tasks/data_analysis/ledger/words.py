"""The words that worlds are made of: real, short and not shared between splits, because small models must copy them."""

from dataclasses import dataclass

from hermes_lab.tasks.data_analysis.ledger.rules import Category
from hermes_lab.tasks.words import load_by_split, load_list, load_phrases


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    categories: tuple[Category, ...]
    documents: tuple[str, ...]
    ordinals: tuple[str, ...]
    quantities: tuple[str, ...]
    charges: tuple[str, ...]


VOCABULARIES = load_by_split(__file__, Vocabulary)
REQUESTS = load_phrases(__file__, "requests")
DELIVERIES = load_phrases(__file__, "deliveries")
MONTHS = load_list(__file__, "months")
