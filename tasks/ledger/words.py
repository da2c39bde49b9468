"""The words that worlds are made of: real, short, and not shared between the splits, because small models
must copy them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.ledger.rules import Category


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    desks: tuple[str, ...]
    categories: tuple[Category, ...]
    documents: tuple[str, ...]
    ordinals: tuple[str, ...]
    quantities: tuple[str, ...]
    charges: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _categories(**values: str) -> tuple[Category, ...]:
    return tuple(Category(column, _words(words)) for column, words in values.items())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        desks=_words(
            """
            fleet travel kitchen garden library printing parking laundry security cleaning catering
            training housing  shipping storage heating lighting plumbing painting roofing music
            theater sports tennis football swimming  harbor airport station market bakery butcher
            dairy grocery pharmacy clinic dental school nursery college  museum gallery archive studio
            radio cinema forest farm orchard winery stable bridge tunnel railway ferry  taxi courier
            postal tools paper
            """
        ),
        categories=_categories(
            status="held posted pending void final draft",
            kind="refund sale gift transfer rebate loan",
            unit="box piece crate dozen bottle sack",
            region="north south east west",
            source="phone mail shop web agent",
            team="red blue green yellow orange",
            level="basic standard premium trial",
            method="cash card check coupon",
            season="spring summer autumn winter",
            shift="early late night noon",
            route="air sea road rail",
            grade="gold silver bronze iron",
        ),
        documents=_words("document receipt ticket invoice order"),
        ordinals=_words("week month period page"),
        quantities=_words("quantity copies hours pieces"),
        charges=_words("tax fee discount postage tip deposit"),
    ),
    "validation": Vocabulary(
        desks=_words("canteen lobby mining fishing hotel hostel camping skiing energy water waste timber"),
        categories=_categories(
            stage="started paused finished blocked",
            type="loss return purchase bonus",
            size="small medium large giant",
            channel="direct partner dealer internal",
        ),
        documents=_words("bill note"),
        ordinals=_words("quarter round"),
        quantities=_words("guests nights"),
        charges=_words("toll duty levy"),
    ),
    "heldout": Vocabulary(
        desks=_words(
            """
            workshop brewery castle temple island mountain village office factory research legal press
            design events  rental repair
            """
        ),
        categories=_categories(
            state="frozen active expired waiting",
            sort="credit charge advance penalty",
            pack="single double bundle carton",
            branch="upper lower inner outer",
            origin="local foreign import export",
            mode="manual automatic remote shared",
        ),
        documents=_words("contract permit claim"),
        ordinals=_words("batch phase section"),
        quantities=_words("persons trips visits"),
        charges=_words("insurance commission freight rent"),
    ),
}

REQUESTS = (
    "Report the total of the {desk} desk's export of {date}, {file}.",
    "What does the {desk} desk's export of {date} ({file}) add up to?",
    "We need the total of {file}, the {desk} desk's export of {date}.",
    "The {desk} desk sent its export of {date} as {file}. Work out the total.",
    "Please total the {desk} desk's export of {date} in {file}.",
    "{file} is what the {desk} desk exported on {date}: find its total.",
    "How much is it for the {desk} desk on {date}? The export is {file}.",
    "Close the {desk} desk's books of {date}: total {file}.",
    "I am waiting for the {desk} desk's total of {date}. See {file}.",
    "Add up {file} for the {desk} desk ({date}).",
)
DELIVERIES = (
    'Use ./ledger and leave {"total": number} in answer.json.',
    'Leave answer.json with {"total": number}; ./ledger does the sums.',
    'The result goes to answer.json as {"total": number}, made with ./ledger.',
    'With ./ledger, write answer.json holding {"total": number}.',
    'Put {"total": number} into answer.json, ./ledger can write it.',
    'answer.json should say {"total": number}. The tool is ./ledger.',
)
MONTHS = _words("January February March April May June July August September October November December")
