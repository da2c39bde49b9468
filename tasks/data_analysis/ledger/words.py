"""The words that worlds are made of: real, short, and not shared between the splits, because small models
must copy them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_lab.tasks.data_analysis.ledger.rules import Category


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

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

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Report the total of {file}, the export of {place} of {date}.",
        "What does the export of {date} of {place} ({file}) add up to?",
        "We need the total of {file}, which {place} exported on {date}.",
        "On {date} {place} sent its export as {file}. Work out the total.",
        "Please total what {place} exported on {date}: {file}.",
        "{file} is an export by {place} of {date}: find its total.",
        "How much is it for {place} on {date}? The export is {file}.",
        "Close the books of {place} for {date}: total {file}.",
        "I am waiting for the total of {place} of {date}. See {file}.",
        "Add up {file} for {place} ({date}).",
    ),
    "validation": (
        "The sum of {file} is missing in our report on {place} for {date}.",
        "Can you sum up {file}? It came from {place} on {date}.",
        "{date}, {place}: how large is {file} all in all?",
    ),
    "heldout": (
        "Somebody has to tell the auditors what {file} of {date} comes to; it is from {place}.",
        "I have {file} here, dated {date}, by {place}. Let me know its overall amount.",
        "Before noon I must know the overall amount in {file} ({place}, {date}).",
        "For {place}, take the file of {date}, {file}, and tell me the overall amount.",
        "{place} handed in {file} on {date}; nobody has checked yet what it comes to.",
        "Tell me, for a letter to {place}, the overall amount of {file}, received {date}.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        'Use ./ledger and leave {"total": number} in answer.json.',
        'Leave answer.json with {"total": number}; ./ledger does the sums.',
        'The result goes to answer.json as {"total": number}, made with ./ledger.',
        'With ./ledger, write answer.json holding {"total": number}.',
        'Put {"total": number} into answer.json, ./ledger can write it.',
        'answer.json should say {"total": number}. The tool is ./ledger.',
    ),
    "validation": (
        'I expect {"total": number} as answer.json; try ./ledger.',
        'Our tool ./ledger writes {"total": number} to answer.json.',
    ),
    "heldout": (
        './ledger is there for it, and answer.json is where {"total": number} belongs.',
        'Make answer.json from it by ./ledger, in the form {"total": number}.',
        'It has to end up in answer.json, {"total": number}, by means of ./ledger.',
    ),
}
MONTHS = _words("January February March April May June July August September October November December")
