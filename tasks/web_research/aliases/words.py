"""The words of articles about firms; no two splits share one."""

from collections.abc import Mapping
from typing import NamedTuple


class Words(NamedTuple):
    """How a split's reference works write about firms. Sentences are format strings."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    trades: tuple[str, ...]
    roles: tuple[str, ...]
    seats: tuple[str, ...]
    born: str
    """When a firm had the name, over `{name}`, `{trade}`, `{begin}` and `{end}`."""
    still: str
    """The same of a name that is in use."""
    capital: str
    """The line with the capital, over `{name}` and `{amount}`."""
    before: str
    after: str
    role: str
    branch: str
    branch_title: str
    remarks: tuple[str, ...]


WORDS: Mapping[str, Words] = {
    "train": Words(
        first=(
            "Halden",
            "Orrin",
            "Pell",
            "Tarn",
            "Wick",
            "Quill",
            "Sorrel",
            "Fenn",
            "Garth",
            "Loxley",
            "Merrow",
            "Ridd",
        ),
        second=("Rope", "Glass", "Paper", "Salt", "Brick", "Wool", "Lamp", "Tile", "Cork", "Soap", "Clock", "Paint"),
        trades=("Works", "Mills", "Company", "Factory", "Stores"),
        roles=("Owner", "Auditor", "Insurer", "Supplier"),
        seats=("Easton", "Millbrook", "Kingsport", "Highfield", "Redcliff"),
        born="{name} was what the firm was called from {begin} to {end}.",
        still="{name} is what the firm has been called since {begin}.",
        capital="{name} has a share capital of {amount} crowns on record.",
        before="Earlier name: [{name}]({url})",
        after="Later name: [{name}]({url})",
        role="{role}: [{name}]({url})",
        branch="Branch in {seat}: [{name}]({url})",
        branch_title="{name}, {seat} branch",
        remarks=(
            "The works stood by the river until a fire.",
            "Its goods won a medal at a trade fair.",
            "A strike closed it for one winter.",
            "The founder's house is a museum now.",
        ),
    ),
    "validation": Words(
        first=("Brandt", "Eskil", "Holst", "Krag", "Lund", "Moltke", "Nygaard", "Ravn", "Sander", "Toft"),
        second=("Iron", "Timber", "Amber", "Pottery", "Flax", "Barley", "Copper", "Linen", "Tar", "Chalk"),
        trades=("Union", "Yard", "Depot", "Trust"),
        roles=("Patron", "Lender", "Warden"),
        seats=("Vestby", "Langholm", "Osterlund", "Nordhavn"),
        born="Between {begin} and {end} the business went by {name}.",
        still="Since {begin} the business goes by {name}.",
        capital="In the name of {name}, {amount} marks of capital are registered.",
        before="Preceded by [{name}]({url})",
        after="Followed by [{name}]({url})",
        role="{role} at the time: [{name}]({url})",
        branch="Outpost at {seat}: [{name}]({url})",
        branch_title="{name} at {seat}",
        remarks=(
            "Most of its papers burnt in the war.",
            "A street is named after it.",
            "It sold to the navy for decades.",
        ),
    ),
    "heldout": Words(
        first=("Arnaud", "Belcourt", "Darcy", "Estrada", "Fabre", "Gaspard", "Isola", "Jourdan", "Ledoux", "Marchetti"),
        second=("Silk", "Olive", "Velvet", "Perfume", "Coral", "Saffron", "Marble", "Ribbon", "Citrus", "Enamel"),
        trades=("Society", "Atelier", "Consortium", "Emporium"),
        roles=("Trustee", "Guarantor", "Distributor"),
        seats=("Portanova", "Belrive", "Castelmar", "Montserat"),
        born="The enterprise bore the name {name} in the years {begin} through {end}.",
        still="From {begin} until today the enterprise bears the name {name}.",
        capital="{name} was endowed with {amount} florins of capital.",
        before="Predecessor name: [{name}]({url})",
        after="Successor name: [{name}]({url})",
        role="Its {role} was [{name}]({url})",
        branch="Subsidiary of {seat}: [{name}]({url})",
        branch_title="{name} of {seat}",
        remarks=(
            "Royal warrants adorned its letterhead.",
            "An exhibition in the capital made it famous.",
            "Its archive is kept by the university.",
        ),
    ),
}

LINES = {
    "train": "the sentence with the capital",
    "validation": "its line about the capital",
    "heldout": "the statement of capital on it",
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "What share capital is on record for {name}, in the {town} book of firms? This is a question of {place}.",
        "{place} needs the share capital of {name}, as the {town} book of firms tells it.",
        "Look {name} up in the {town} book of firms, and give {place} its share capital.",
        "For {place}: the share capital of {name}, from the {town} book of firms.",
        "How many crowns of share capital does the {town} book of firms tell for {name}? I ask for {place}.",
        "The {town} book of firms knows {name}; {place} wants its share capital.",
        "Please find the share capital of {name} for {place}; the {town} book of firms has it.",
        "There is a firm by the name of {name} in the {town} book of firms; {place} has to know its share capital.",
    ),
    "validation": (
        "According to the business lexicon of {town}, how many marks of capital had {name}? We owe it to {place}.",
        "{place} would like the capital in marks that the business lexicon of {town} gives for {name}.",
        "Which capital does {name} have in the business lexicon of {town}? This goes to {place}.",
    ),
    "heldout": (
        "On behalf of {place}, determine the florins of capital of {name} per the {town} enterprise directory.",
        "{place} inquires about {name}: its endowment, as held in the {town} enterprise directory.",
        "The {town} enterprise directory has an article on {name}; the endowment in it is required by {place}.",
        "Which endowment, in florins, does the {town} enterprise directory ascribe to {name}? The "
        "inquiry comes from {place}.",
        "Consult the {town} enterprise directory for {place} and note with what capital {name} was endowed.",
    ),
}
