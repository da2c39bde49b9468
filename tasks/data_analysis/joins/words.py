"""The words of branches and their exports. No split shares one."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_lab.tasks.data_analysis._conventions import words


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


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        sales=words("sales orders"),
        articles=words("articles catalog"),
        customers=words("customers buyers"),
        areas=words("areas coverage"),
        date=words("date day"),
        article=words("article item"),
        customer=words("customer buyer"),
        quantity=words("quantity ordered"),
        price=words("price"),
        pack=words("pack carton"),
        since=words("since valid_from"),
        label=words("label title"),
        group=(words("class retail trade staff"), words("tier gold silver bronze")),
        merged=words("merged_into now"),
        area=words("area region"),
        share=words("share percent"),
        totals=words("totals revenue"),
        units=words("units sold"),
        goods=_lines(
            """
            Pencil, soft
            Paper A4
            Glue "Strong"
            Ruler 30 cm
            Ink, black
            Tape
            Eraser
            Folder, grey
            """
        ),
        people=_lines(
            """
            Miller & Sons
            Hill, Peter
            Lake Shop
            Brown "The Corner"
            Stone Ltd
            Young, Mary
            Bridge House
            Fox & Bird
            Old Mill
            """
        ),
        prefixes=words("A- G- P- X-"),
        note="""\
# Files of the sales system

- `{sales}.csv`: what was sold: `{date}`, `{article}`, `{customer}`, `{quantity}`
- `{articles}.csv`: a record for each time a price was set: `{article}`, `{label}`, `{price}`, `{pack}`, `{since}`
- `{customers}.csv`: `{customer}`, name, `{group}`, `{merged}`
- `{areas}.csv`: who belongs where: `{customer}`, `{area}`, `{share}`

The files come from two systems. One of them fills `{article}` up with zeros from the left, which mean nothing.
""",
    ),
    "validation": Vocabulary(
        sales=words("invoices"),
        articles=words("parts"),
        customers=words("clients"),
        areas=words("zones"),
        date=words("posted"),
        article=words("part"),
        customer=words("client"),
        quantity=words("number"),
        price=words("cost"),
        pack=words("bundle"),
        since=words("effective"),
        label=words("wording"),
        group=(words("grade major minor other"),),
        merged=words("successor"),
        area=words("zone"),
        share=words("portion"),
        totals=words("zone_sums"),
        units=words("volume"),
        goods=_lines(
            """
            Screw M4
            Bolt, long
            Nut "Plus"
            Washer
            Hook
            Chain, 2 m
            Spring
            Pin
            """
        ),
        people=_lines(
            """
            Carter Works
            Weber, Anna
            North Yard
            Silva "Sul"
            Moreau
            Keller, Jan
            Dock 9
            Rossi
            Quay Ltd
            """
        ),
        prefixes=words("C- J- Y-"),
        note="""\
{sales}.csv      {date}, {article}, {customer}, {quantity}
{articles}.csv   prices by {since} date: {article}, {label}, {price}, {pack}
{customers}.csv  {customer}, name, {group}, {merged}
{areas}.csv      {customer}, {area}, {share} (in hundredths)
Mind that {article} is sometimes zero-filled on the left and sometimes not.
""",
    ),
    "heldout": Vocabulary(
        sales=words("deliveries shipments"),
        articles=words("products assortment"),
        customers=words("accounts members"),
        areas=words("districts sectors"),
        date=words("shipped delivered"),
        article=words("product sku"),
        customer=words("account member"),
        quantity=words("qty pieces_out"),
        price=words("tariff"),
        pack=words("tray box"),
        since=words("starts begins"),
        label=words("text caption"),
        group=(words("segment public private internal"), words("rank senior middle junior")),
        merged=words("absorbed_by heir"),
        area=words("district sector"),
        share=words("weight quota"),
        totals=words("turnover sums"),
        units=words("shipped_total moved"),
        goods=_lines(
            """
            Lamp, small
            Bulb E27
            Socket "Duo"
            Cable 5 m
            Switch, white
            Fuse
            Dimmer
            Plug, flat
            """
        ),
        people=_lines(
            """
            Green Valley
            Novak, Petra
            Harbour & Co
            Lind "Lilla"
            East Gate
            Okoye, Ben
            Sun Street 4
            Tanaka
            Upper Farm
            """
        ),
        prefixes=words("D- E- U- Z-"),
        note="""\
CONTENTS
{sales}.csv -- goods that went out ({date}, {article}, {customer}, {quantity})
{articles}.csv -- price list with its history ({article}, {label}, {price}, {pack}, {since})
{customers}.csv -- who they are ({customer}, name, {group}, {merged})
{areas}.csv -- assignment, several lines possible ({customer}, {area}, {share})
Left zeros of {article} got lost in some files; the numbers are equal without them.
""",
    ),
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "What did {place} earn in each {area}? Its exports are in the folder {folder}.",
        "Please work out the sales of {place} by {area} from the files in {folder}.",
        "In {folder} are the tables of {place}. I need the revenue for every {area}.",
        "The board wants to see the money that {place} made, one figure for each {area}. Join the files in {folder}.",
        "Last month's tables of {place} have arrived in {folder}; sum up the sales by {area}.",
        "We pay the agents of {place} by {area}. Find the revenue of each in the tables of {folder}.",
        "{folder} holds four tables from {place}. Which {area} brought in how much?",
        "For the report on {place} we still lack the sales of every {area} (tables in {folder}).",
        "Join the tables in {folder} for {place} and add up the revenue for each {area}.",
    ),
    "validation": (
        "Could you break the invoices of {place} down to a {area} level? Look into {folder}.",
        "A breakdown after {area} is due for {place}, made of what lies in {folder}.",
        "Using {folder}, allocate what {place} invoiced to any {area} concerned.",
    ),
    "heldout": (
        "How did the turnover of {place} spread geographically, {area} after {area}? You have {folder} to go by.",
        "I must tell the chair of {place} what a {area} is worth. Evaluate {folder} for me.",
        "There is a dump of the database of {place} below {folder}; compute the turnover per {area}.",
        "Compute, out of {folder}, which turnover {place} had with its accounts, split along {area}.",
        "Negotiations at {place} begin tomorrow, and nobody knows the turnover per {area}; evaluate {folder}, please.",
    ),
}
TERMS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "A sale is worth its `{quantity}` times the newest `{price}` of its {article}, and counts in full in every "
        "{area} of its {customer}.",
        "Value each sale at the newest `{price}` of the {article} times `{quantity}`, and book it in full in every "
        "{area} that the {customer} belongs to.",
        "Take the newest `{price}` of each {article} for all its sales, times `{quantity}`; where a {customer} has "
        "more than one {area}, each of them gets the full sum.",
    ),
    "validation": (
        "Multiply `{quantity}` by the `{price}` that became effective most recently; whenever a {customer} appears "
        "in two zones, credit both of them with everything.",
    ),
    "heldout": (
        "The current `{price}`, meaning the one with the highest `{since}`, applies throughout and is multiplied by "
        "`{quantity}`. Somebody assigned twice is credited twice, undivided.",
        "Everything is at current prices (highest `{since}`) times `{quantity}`. Two assignments of one {customer} "
        "are both credited undivided.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        'Write answer.json as {{"{totals}": {{{area}: amount}}, "{units}": number of pieces}}, with each {area} as '
        "the files have it, and the pieces of each sale taken once.",
        'The result goes to answer.json: {{"{totals}": {{{area}: amount, ...}}, "{units}": all pieces, each sale '
        "once}}, every {area} written as in the files.",
        'I read it from answer.json: under "{totals}" the amount of each {area} by its number in the files, under '
        '"{units}" the pieces of all sales together.',
        'Leave answer.json with "{totals}", an object from {area} (as in the files) to amount, and "{units}", the '
        "sum of the pieces of all sales.",
    ),
    "validation": (
        'Store {{"{totals}": {{"55": 1234.5}}, "{units}": 89}} in answer.json, zones like in {areas}.csv, plus the '
        "grand sum of `{quantity}`.",
        'Expected in answer.json: "{totals}" maps a code from {areas}.csv to money; "{units}" is the grand sum '
        "of `{quantity}`.",
    ),
    "heldout": (
        'Make an answer.json of the shape {{"{totals}": {{"55": 1234.5}}, "{units}": 89}}: codes taken over from '
        "{areas}.csv, and the overall `{quantity}` without double counting.",
        'It should end up in answer.json, where "{totals}" gives money by code ({areas}.csv) and "{units}" the '
        "overall `{quantity}`, without double counting.",
        'Fill answer.json with two things: "{totals}" (code from {areas}.csv to money) and "{units}" '
        "(overall `{quantity}`, nothing twice).",
    ),
}
