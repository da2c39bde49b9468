"""The words of yearbooks; no two splits share one."""

from collections.abc import Mapping
from typing import NamedTuple


class Words(NamedTuple):
    """How a split's publishers count and correct themselves. Sentences are format strings."""

    topics: tuple[str, ...]
    areas: tuple[str, ...]
    editions: tuple[str, str, str]
    sheets: tuple[str, str]
    releasers: tuple[str, ...]
    year: str
    table: str
    """The title of a table, over `{topic}` and `{edition}`."""
    note: str
    """The footnote, over `{amount}`."""
    sheet: str
    sheet_title: str
    release: str
    release_title: str
    contents: str


WORDS: Mapping[str, Words] = {
    "train": Words(
        topics=("cyclists", "ferry passengers", "library loans", "sheep", "museum visitors", "parcels", "school meals"),
        areas=("Abbey", "Bridge", "Castle", "Docks", "Eastgate", "Foundry"),
        editions=("printed edition", "revised edition", "online edition"),
        sheets=("spring errata", "autumn errata"),
        releasers=("Tourist Board", "Chamber of Trade", "Council Office", "Mayor's Office"),
        year="Year",
        table="Yearbook: {topic}, {edition}",
        note="Footnote a: a recount has given {amount} here.",
        sheet="Under {topic}, {area}, {year}, read {amount}.",
        sheet_title="Yearbook, {sheet}",
        release="In {year} the district {area} counted {amount} {topic}, says the {releaser}.",
        release_title="{releaser} on {topic} in {area}",
        contents="Contents of the yearbook",
    ),
    "validation": Words(
        topics=("lorries", "hotel guests", "fishing trips", "goats", "concert tickets", "letters"),
        areas=("Northside", "Southside", "Hillside", "Lakeside", "Seaside"),
        editions=("first issue", "second issue", "web issue"),
        sheets=("January corrections", "June corrections"),
        releasers=("Harbour Trust", "Trade Guild", "Press Bureau"),
        year="Period",
        table="Almanac of numbers - {topic} ({edition})",
        note="Remark a: by a later survey {amount}.",
        sheet="{topic} / {area} / {year}: the number should be {amount}.",
        sheet_title="Almanac of numbers - {sheet}",
        release="As the {releaser} reports, {area} had {amount} {topic} in {year}.",
        release_title="News of the {releaser}: {topic}, {area}",
        contents="Almanac of numbers - overview",
    ),
    "heldout": Words(
        topics=("tram rides", "pilgrims", "wine casks", "beehives", "opera seats", "postcards", "olive presses"),
        areas=("Alta", "Baixa", "Cima", "Fonda", "Rossa"),
        editions=("provisional version", "final version", "digital version"),
        sheets=("winter amendments", "summer amendments"),
        releasers=("Prefect's Office", "Industry League", "Heritage Institute"),
        year="Annum",
        table="Compendium / {topic} / {edition}",
        note="Annotation a: {amount} after verification.",
        sheet="Concerning {topic} of {area} in {year}: replace by {amount}.",
        sheet_title="Compendium / {sheet}",
        release="{amount} {topic} were recorded at {area} during {year}, the {releaser} announces.",
        release_title="Communique, {releaser}: {topic} at {area}",
        contents="Compendium / survey of chapters",
    ),
}

LINES = {
    "train": "the whole line with the number",
    "validation": "the full line that has the number",
    "heldout": "the entire line carrying the number",
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "How many {topic} does the table of the {edition} of the {town} yearbook give for {area} in {year}? "
        "This is a question of {place}.",
        "{place} needs the number of {topic} in {area} in {year}, from the table in the {edition} of the "
        "{town} yearbook.",
        "For {place}: {topic}, {area}, {year}, by the table in the {edition} of the {town} yearbook.",
        "Look into the {town} yearbook, {edition}: which number of {topic} has the table for {area} and {year}? It is "
        "for {place}.",
        "{place} wants a number from the {town} yearbook ({edition}, table of {topic}): {area} in {year}.",
        "Please give {place} the number of {topic} that {area} had in {year}. The {town} yearbook has a table, take "
        "the {edition}.",
        "I need for {place} what the table of {topic} in the {town} yearbook, {edition}, tells for {area}, {year}.",
        "What stands for {area} and {year} in the table of {topic} of the {town} yearbook, {edition}? It is used by "
        "{place}.",
    ),
    "validation": (
        "The almanac of {town} tabulates {topic}. Which is the tabulated entry of the {edition} for {area}, {year}? We "
        "owe it to {place}.",
        "{place} would like the tabulated entry of {area} for {year} on {topic}, from the almanac of {town}, "
        "{edition}.",
        "Which tabulated entry has the almanac of {town} ({edition}) for {topic}, {area}, {year}? This goes to "
        "{place}.",
    ),
    "heldout": (
        "On behalf of {place}, retrieve the count of {topic} at {area} in {year} as tabulated in the {town} "
        "compendium, {edition}.",
        "{place} inquires about the count of {topic} in {year} at {area}, as tabulated; consult the {edition} of the "
        "{town} compendium.",
        "As tabulated in the {edition} of the {town} compendium, what was the count of {topic} at {area} in {year}? "
        "The inquiry comes from {place}.",
        "A count is required by {place}: {topic} of {area}, {year}, as tabulated by the {town} compendium, {edition}.",
        "Extract from the {town} compendium, {edition}, the count tabulated under {topic} for {area}, {year}, "
        "and pass it to {place}.",
    ),
}
