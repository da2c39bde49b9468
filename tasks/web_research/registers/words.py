"""The words of registers; no two splits share one."""

from collections.abc import Mapping
from typing import NamedTuple


class Words(NamedTuple):
    """How a split's publishers keep registers. Sentences are format strings."""

    registers: tuple[str, ...]
    columns: tuple[str, str, str, str, str, str]
    """Number, holder, class, status, year, fee."""
    classes: tuple[str, ...]
    statuses: tuple[str, ...]
    first: tuple[str, ...]
    last: tuple[str, ...]
    annexes: tuple[str, ...]
    dates: tuple[str, str]
    cover: str
    """A line of the cover page, over `{date}` and `{total}`."""
    page: str
    onward: str
    moved: str
    """What stands where the last page should be, over `{url}`."""
    annex: str
    """The link to an annex, over `{name}` and `{url}`."""
    foreword: str
    title: str


WORDS: Mapping[str, Words] = {
    "train": Words(
        registers=("berths", "stalls", "taxi permits", "allotments", "kiosks", "fishing rights", "bakers", "carriers"),
        columns=("No.", "Holder", "Class", "Status", "Since", "Fee"),
        classes=("small", "medium", "large", "special", "seasonal"),
        statuses=("valid", "suspended", "disputed", "renewed", "on trial"),
        first=("Adams", "Baker", "Clarke", "Dyer", "Evans", "Foster", "Grant", "Hughes", "Ives", "Jarvis"),
        last=("and Sons", "Brothers", "Ltd", "and Co", "Partners"),
        annexes=("Lapsed entries", "Transferred entries", "Pending entries", "Honorary entries"),
        dates=("1 January", "1 July"),
        cover="The fees of this register were put at {total} as of {date}.",
        page="Page {number} of {count}",
        onward="Next page: [page {number}]({url})",
        moved="We could not find this page. The last part of the register was moved to [another address]({url}).",
        annex="See also: [{name}]({url})",
        foreword="The register is kept by the clerk and is open to everyone.",
        title="Register of {subject}",
    ),
    "validation": Words(
        registers=("moorings", "pedlars", "ferrymen", "wells", "kennels", "billboards"),
        columns=("Key", "Name", "Kind", "Condition", "Entered", "Levy"),
        classes=("first", "second", "third", "other"),
        statuses=("confirmed", "contested", "paused", "extended"),
        first=(
            "Olsen",
            "Petersen",
            "Quist",
            "Rasmussen",
            "Strand",
            "Thomsen",
            "Ulrik",
            "Vester",
            "Winther",
            "Ytter",
            "Zander",
        ),
        last=("Trading", "Works", "Family", "House"),
        annexes=("Struck off", "Handed over", "Awaiting a decision"),
        dates=("Easter", "Michaelmas"),
        cover="By {date} the levies added up to {total}.",
        page="Sheet {number}, {count} in all",
        onward="Go on to [sheet {number}]({url})",
        moved="Nothing is here any more; try the [new place]({url}) of this sheet.",
        annex="Supplement: [{name}]({url})",
        foreword="Entries are made in the order of application.",
        title="{subject}: the whole register",
    ),
    "heldout": Words(
        registers=("vineyard plots", "quay cranes", "street musicians", "beehives", "mills", "oyster beds", "guides"),
        columns=("Ref", "Licensee", "Tier", "State", "Granted", "Dues"),
        classes=("basic", "plus", "premium", "heritage"),
        statuses=("in good standing", "under review", "deferred", "prolonged"),
        first=("Moreau", "Lefort", "Giraud", "Bonnet", "Salles", "Carpent", "Duval", "Ferrand", "Noiret"),
        last=("et Fils", "SARL", "Associates", "Freres", "Holdings"),
        annexes=("Revoked licences", "Inherited licences", "Provisional licences"),
        dates=("the spring count", "the autumn count"),
        cover="At {date}, dues of {total} were on record.",
        page="Folio {number} / {count}",
        onward="Continue with [folio {number}]({url})",
        moved="Sorry, the folio was relocated. It now resides [here]({url}).",
        annex="Addendum: [{name}]({url})",
        foreword="Inscription in this register is compulsory for licensees.",
        title="Public register, {subject}",
    ),
}

LINES = {
    "train": "the first row on it that counts, as a whole",
    "validation": "the whole of the first counted row there",
    "heldout": "the complete first row included from that page",
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "What do the fees of all entries in the register of {subject} of {town} add up to? It is for {place}.",
        "{place} needs the sum of the fees in the register of {subject} of {town}, over all of its pages.",
        "Add up the fees on every page of the register of {subject} in {town}, for {place}.",
        "For {place}: total the fees in the register of {subject} that {town} keeps, page by page.",
        "How much do the entries of all pages of the register of {subject} in {town} pay together? I ask for {place}.",
        "{place} would like the total fees from the register of {subject} of {town}, with no page missing.",
        "I have to give {place} one number: all fees in the register of {subject}, {town}, every page.",
        "Go through all pages of the register of {subject} of {town} and sum the fees for {place}.",
    ),
    "validation": (
        "{town} has a register of {subject}. Work out the whole of its levies, each sheet included; {place} waits.",
        "The levies of every sheet in the register of {subject}, {town}: {place} wants them as one figure.",
        "Count the levies together that the sheets of the register of {subject} in {town} list. The sum is "
        "meant for {place}.",
    ),
    "heldout": (
        "On behalf of {place}, compute the overall dues in the register of {subject} of {town}, folio after folio.",
        "{place} inquires about the overall dues of the {subject} registered at {town}; leave out no folio.",
        "Which overall amount of dues does {town} record in its register of {subject}, all folios taken together? "
        "The inquiry comes from {place}.",
        "Sum every folio's dues in the {subject} register that {town} runs. The requester is {place}.",
        "All dues across the folios of {town}, register of {subject}: kindly establish the amount for {place}.",
    ),
}
