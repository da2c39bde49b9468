"""The words of notices; no two splits share one."""

from collections.abc import Mapping
from typing import NamedTuple


class Words(NamedTuple):
    """How a split's publishers write notices. Sentences are format strings."""

    notice: str
    published: str
    effective: str
    registered: str
    office: str
    channel: str
    offices: tuple[str, ...]
    channels: tuple[str, ...]
    subjects: tuple[str, ...]
    fee: str
    """The line with the fee, over `{number}`, `{subject}` and `{amount}`."""
    remarks: tuple[str, ...]
    contents: str
    withdrawn: str


WORDS: Mapping[str, Words] = {
    "train": Words(
        notice="Notice",
        published="Published",
        effective="In effect from",
        registered="Entered in the file",
        office="Issued by",
        channel="Printed in",
        offices=("Treasurer", "Harbour Office", "Works Department", "Town Clerk", "Estates Office", "Licensing Board"),
        channels=("the Gazette", "the Courier", "the Bulletin", "the Monthly Sheet"),
        subjects=(
            "mooring fee",
            "market stall fee",
            "dog licence fee",
            "chimney sweep fee",
            "hall hire fee",
            "street closure fee",
            "fishing permit fee",
            "grave plot fee",
            "busking permit fee",
        ),
        fee="Notice {number} sets the {subject} at EUR {amount} a year.",
        remarks=(
            "It was read out at the counter for two weeks.",
            "Objections may be raised in writing.",
            "The form is handed out on the ground floor.",
            "Payment by instalments has to be asked for.",
        ),
        contents="Notices of {town}",
        withdrawn="This notice has been taken off the site.",
    ),
    "validation": Words(
        notice="Circular",
        published="Released",
        effective="Applies from",
        registered="Logged",
        office="Author",
        channel="Posted on",
        offices=("Finance Section", "Ports Section", "Roads Section", "Leisure Section", "Lands Section"),
        channels=("the notice board", "the lamp posts", "the church door", "the website"),
        subjects=(
            "sewer charge",
            "kiosk charge",
            "boat ramp charge",
            "archive copy charge",
            "allotment charge",
            "well water charge",
        ),
        fee="By circular {number} the {subject} comes to EUR {amount} per annum.",
        remarks=(
            "A summary was given on local radio.",
            "Questions are taken on Tuesdays.",
            "Households were told by letter.",
        ),
        contents="All circulars for {town}",
        withdrawn="The circular that was here is no longer available.",
    ),
    "heldout": Words(
        notice="Ordinance",
        published="Announced",
        effective="Takes force",
        registered="Deposited",
        office="Competent body",
        channel="Medium",
        offices=("Prefecture", "Mayor's Cabinet", "Urban Bureau", "Port Captaincy", "Fiscal Service"),
        channels=("Official Journal", "Regional Herald", "Town Crier", "Digital Register"),
        subjects=(
            "terrace tax",
            "tourist bed tax",
            "signboard tax",
            "carriage tax",
            "vending tax",
            "scaffolding tax",
            "lock passage tax",
        ),
        fee="Under ordinance {number} EUR {amount} are due each year as {subject}.",
        remarks=(
            "The prefect has countersigned it.",
            "An appeal does not suspend it.",
            "Copies are kept by the notary.",
        ),
        contents="{town}: list of ordinances",
        withdrawn="The ordinance you look for was retracted from publication.",
    ),
}

LINES = {
    "train": "the line that names the amount",
    "validation": "the sentence with the amount",
    "heldout": "the sentence stating the amount",
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "What is the {subject} in {town}, going by the latest notice? This is a question of {place}.",
        "For {place}: find the {subject} in the latest notice of {town}.",
        "{place} needs to know the {subject} of {town} as the latest notice has it.",
        "Look up for {place} which {subject} the latest notice of {town} names.",
        "How much does the latest notice of {town} ask as {subject}? It is for {place}.",
        "I promised {place} the {subject} in {town}. Take it from the latest notice.",
        "There is a question from {place}: how high is the {subject} in the latest notice of {town}?",
        "Could you tell {place} what {town} takes as {subject} by its latest notice?",
        "{place} plans its budget and wants the {subject} of {town}, latest notice.",
    ),
    "validation": (
        "The newest circular of {town} on the {subject}: which amount does it give? We owe it to {place}.",
        "{place} would like the amount of the {subject} in {town}, from the newest circular.",
        "Which amount stands for the {subject} in the newest circular that {town} has? This goes to {place}.",
    ),
    "heldout": (
        "On behalf of {place}, determine the {subject} of {town} under the most recent ordinance.",
        "The most recent ordinance of {town} fixes some {subject}; {place} requires the sum.",
        "Somebody at {place} inquires about the sum due as {subject} in {town}, most recent ordinance.",
        "A sum is wanted by {place}: the {subject}, as the most recent ordinance of {town} states it.",
        "Ascertain, since {place} inquires, what sum the most recent ordinance of {town} levies as {subject}.",
    ),
}
