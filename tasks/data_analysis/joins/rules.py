"""How branches may count their sales: what each convention does to the totals of the areas."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from hermes_lab.tasks.conventions import Convention, Literals, one_of, variants_of
from hermes_lab.tasks.data_analysis.joins.tables import Books, Customer, Record, Sale, SiteConfig


class Line(NamedTuple):
    """A sale with its customer and its price records, oldest first."""

    sale: Sale
    customer: Customer
    records: tuple[Record, ...]


def _newest(line: Line) -> Record:
    return line.records[-1]


def _in_full(line: Line, _: Books) -> Sequence[tuple[str, Decimal]]:
    return [(area, Decimal(1)) for area, _share in line.customer.areas]


def _by_share(line: Line, _: Books) -> Sequence[tuple[str, Decimal]]:
    return [(area, Decimal(share) / 100) for area, share in line.customer.areas]


def _equally(line: Line, _: Books) -> Sequence[tuple[str, Decimal]]:
    return [(area, Decimal(1) / len(line.customer.areas)) for area, _share in line.customer.areas]


def _of_successor(line: Line, books: Books) -> Sequence[tuple[str, Decimal]]:
    heir = books.customers[line.customer.merged or line.customer.number]
    return [(area, Decimal(1)) for area, _ in heir.areas]


@dataclass(frozen=True)
class Strategy:
    """How sales are counted; as it stands, the obvious way."""

    counts: Callable[[Line], bool] = lambda line: True
    record: Callable[[Line], Record] = _newest
    pieces: Callable[[Line], int] = lambda line: line.sale.quantity
    amount: Callable[[Line, Decimal], Decimal] = lambda line, amount: amount
    areas: Callable[[Line, Books], Sequence[tuple[str, Decimal]]] = _in_full
    code: Callable[[str], str] = str

    def count(self, books: Books) -> tuple[dict[str, float], int]:
        """The totals of the areas, and the pieces of all sales."""
        totals: dict[str, Decimal] = defaultdict(Decimal)
        pieces = 0
        for sale in books.sales:
            line = Line(sale, books.customers[sale.customer], books.articles[sale.article])
            if self.counts(line):
                many = self.pieces(line)
                amount = self.amount(line, many * self.record(line).price)
                pieces += many
                for area, part in self.areas(line, books):
                    totals[self.code(area)] += amount * part
        return {area: float(total) for area, total in totals.items()}, pieces


def _groups(site_config: SiteConfig) -> Sequence[Literals]:
    return [{"column": site_config.group, "value": value} for value in site_config.groups]


def _on_the_day(line: Line) -> Record:
    return [record for record in line.records if record.since <= line.sale.date][-1]


def _rated(value: str, percent: int) -> Strategy:
    return Strategy(amount=lambda line, amount: amount * percent / 100 if line.customer.group == value else amount)


PLAIN = Strategy()

CONVENTIONS: Mapping[str, Convention[SiteConfig, Strategy]] = {
    "dated": Convention(
        (
            "a sale keeps the {price} of its own {date}",
            "a new {price} changes nothing about sales made before its {since}",
            "what the {price} is depends on the {date} of the sale",
        ),
        "take for each sale the latest {price} whose {since} is not after its {date}",
        lambda site_config: [{"price": site_config.price, "since": site_config.since, "date": site_config.date}],
        lambda rule: Strategy(record=_on_the_day),
        {
            "record": 'max((r for r in records if r["%(since)s"] <= sale["%(date)s"]), key=lambda r: r["%(since)s"])',
        },
    ),
    "oldest": Convention(
        (
            "the first {price} that was ever set is guaranteed for good",
            "customers were promised the oldest {price}",
            "later rises of the {price} are for others, not for them",
        ),
        "take for every sale the {price} with the earliest {since}",
        lambda site_config: [{"price": site_config.price, "since": site_config.since}],
        lambda rule: Strategy(record=lambda line: line.records[0]),
        {"record": 'min(records, key=lambda r: r["%(since)s"])'},
    ),
    "pack": Convention(
        (
            "{quantity} tells how many of a whole {pack} were sold",
            "they sell by the {pack} alone, so {quantity} is no number of single pieces",
            "{price} is for one piece, but {quantity} is in units of {pack}",
        ),
        "multiply every {quantity} by the {pack} of its price record",
        lambda site_config: [{"quantity": site_config.quantity, "pack": site_config.pack, "price": site_config.price}],
        lambda rule: Strategy(pieces=lambda line: line.sale.quantity * line.records[-1].pack),
        {"pieces": 'pieces *= int(record["%(pack)s"])'},
    ),
    "merged": Convention(
        (
            "whoever has an entry in {merged} is now that other one",
            "the sales of those with {merged} go where their successor belongs",
            "{merged} names who has taken over, with all that was sold before",
        ),
        "use the lines of whoever {merged} names, if anybody, instead of their own to find each {area}",
        lambda site_config: [{"merged": site_config.merged, "area": site_config.area}],
        lambda rule: Strategy(areas=_of_successor),
        {"who": 'customer["%(merged)s"] or sale[key]'},
    ),
    "drop": Convention(
        (
            "sales to {column} {value} are not counted",
            "{column} {value} is no customer in their eyes",
            "what {column} {value} buys stays out of the figures",
        ),
        "leave out all sales to those with {column} {value}",
        _groups,
        lambda rule: Strategy(counts=lambda line: line.customer.group != rule["value"]),
        {"select": 'sales = [s for s in sales if customers[s[key]]["%(column)s"] != "%(value)s"]'},
    ),
    "rate": Convention(
        (
            "{column} {value} pays {percent} percent of the list",
            "for {column} {value} they charge {percent} percent only",
            "at {column} {value} a sale brings in {percent} percent",
        ),
        "count {percent} percent of every sale to those with {column} {value}",
        lambda site_config: [
            {**each, "percent": percent} for each in _groups(site_config) for percent in (50, 60, 75, 80, 90)
        ],
        lambda rule: _rated(rule["value"], rule["percent"]),
        {"change": 'amount *= Decimal("%(percent)d") / 100 if customer["%(column)s"] == "%(value)s" else 1'},
    ),
    "series": Convention(
        (
            "numbers in {column} from {digits} on in front are deposits, no goods",
            "everything whose {column} starts with {digits} is given back later",
            "the {digits} series of {column} is for their own use",
        ),
        "leave out all sales whose {column} begins with {digits} once its zeros in front are gone",
        lambda site_config: [{"column": site_config.article, "digits": digits} for digits in site_config.series],
        lambda rule: Strategy(counts=lambda line: not line.sale.article.startswith(rule["digits"])),
        {"select": 'sales = [s for s in sales if not s["%(column)s"].lstrip("0").startswith("%(digits)s")]'},
    ),
    "shared": Convention(
        (
            "those who are in more than one {area} are split by {share}",
            "{share} says which part of a sale each {area} gets",
            "nothing is credited twice there: {share} divides it",
        ),
        "give each {area} only its {share} in percent of a sale",
        lambda site_config: [{"area": site_config.area, "share": site_config.share}],
        lambda rule: Strategy(areas=_by_share),
        {"part": 'amount * int(place["%(share)s"]) / 100'},
    ),
    "digits": Convention(
        (
            "a {area} is known by {width} digits",
            "they fill the number of a {area} up to {width} digits",
            "the number of a {area} has {width} digits, zeros in front included",
        ),
        "write every {area} with {width} digits, zeros in front",
        lambda site_config: [{"area": site_config.area, "width": width} for width in (3, 4, 5, 6)],
        lambda rule: Strategy(code=lambda area: "0" * (rule["width"] - len(area)) + area),
        {"code": 'place["%(area)s"].zfill(%(width)d)'},
    ),
    "money": Convention(
        (
            "money is told in {unit}",
            "they reckon in {unit}, not in whole coins",
            "their figures of money are {unit}",
        ),
        "tell all money in {unit}, so {sign} it by {factor}",
        variants_of(
            "unit sign factor times code",
            ("cents", "multiply", 100, "100", "* 100"),
            ("hundreds", "divide", 100, "0.01", "/ 100"),
            ("thousands", "divide", 1000, "0.001", "/ 1000"),
            ("tenths", "multiply", 10, "10", "* 10"),
        ),
        lambda rule: Strategy(amount=lambda line, amount: amount * Decimal(rule["times"])),
        {"change": "amount = amount %(code)s"},
    ),
    "round": Convention(
        (
            "each sale is rounded down to a multiple of {step}",
            "what a sale exceeds a multiple of {step} by is waived",
            "they take full amounts of {step} for a sale and nothing beyond",
        ),
        "round each sale down to a multiple of {step} before you add it",
        one_of("step", 2, 5, 10, 20),
        lambda rule: Strategy(amount=lambda line, amount: amount - amount % rule["step"]),
        {"change": "amount = amount // %(step)d * %(step)d"},
    ),
    "equal": Convention(
        (
            "each {area} of a customer gets the same part of a sale",
            "a sale is cut into equal pieces, one for each {area} of the customer",
            "two in charge get a half each, whatever else is written about the {area}",
        ),
        "divide every sale equally between each {area} that the customer has",
        lambda site_config: [{"area": site_config.area}],
        lambda rule: Strategy(areas=_equally),
        {"part": "amount / len(places)"},
        unseen=True,
    ),
    "closing": Convention(
        (
            "the month closes before the {number}th",
            "sales from the {number}th on belong to the next month",
            "by the {number}th the books of the month are shut",
        ),
        "leave out all sales with a {date} from the {number}th of the month on",
        lambda site_config: [{"date": site_config.date, "number": number} for number in (24, 25, 26, 27, 28)],
        lambda rule: Strategy(counts=lambda line: int(line.sale.date[-2:]) < rule["number"]),
        {"select": 'sales = [s for s in sales if int(s["%(date)s"][-2:]) < %(number)d]'},
        unseen=True,
    ),
    "letter": Convention(
        (
            "the number of a {area} comes with {prefix} in front",
            "a {area} is written {prefix} and its number",
            "their {area} numbers carry {prefix} to tell them from others",
        ),
        "write {prefix} in front of every {area}",
        lambda site_config: [{"area": site_config.area, "prefix": prefix} for prefix in site_config.prefixes],
        lambda rule: Strategy(code=lambda area: rule["prefix"] + area),
        {"code": '"%(prefix)s" + place["%(area)s"]'},
        unseen=True,
    ),
    "samples": Convention(
        (
            "a {quantity} below {number} is a sample and free",
            "they give away anything under {number} pieces",
            "fewer than {number} in {quantity} is no sale",
        ),
        "leave out all sales with a {quantity} under {number}",
        lambda site_config: [{"quantity": site_config.quantity, "number": number} for number in (2, 3, 4)],
        lambda rule: Strategy(counts=lambda line: line.sale.quantity >= rule["number"]),
        {"select": 'sales = [s for s in sales if int(s["%(quantity)s"]) >= %(number)d]'},
        unseen=True,
    ),
}
