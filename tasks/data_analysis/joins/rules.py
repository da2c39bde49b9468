"""How branches may count their sales: what each convention does to the totals of the areas."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from hermes_lab.tasks.data_analysis.joins.tables import Books, Customer, Record, Sale, SiteConfig
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions


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


def _on_the_day(line: Line) -> Record:
    return [record for record in line.records if record.since <= line.sale.date][-1]


def _rated(value: str, percent: int) -> Strategy:
    return Strategy(amount=lambda line, amount: amount * percent / 100 if line.customer.group == value else amount)


PLAIN = Strategy()

_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Callable[[Literals], Strategy]]] = {
    "dated": Behavior(lambda rule: Strategy(record=_on_the_day)),
    "oldest": Behavior(lambda rule: Strategy(record=lambda line: line.records[0])),
    "pack": Behavior(lambda rule: Strategy(pieces=lambda line: line.sale.quantity * line.records[-1].pack)),
    "merged": Behavior(lambda rule: Strategy(areas=_of_successor)),
    "drop": Behavior(lambda rule: Strategy(counts=lambda line: line.customer.group != rule["value"])),
    "rate": Behavior(lambda rule: _rated(rule["value"], rule["percent"])),
    "series": Behavior(lambda rule: Strategy(counts=lambda line: not line.sale.article.startswith(rule["digits"]))),
    "shared": Behavior(lambda rule: Strategy(areas=_by_share)),
    "digits": Behavior(lambda rule: Strategy(code=lambda area: "0" * (rule["width"] - len(area)) + area)),
    "money": Behavior(lambda rule: Strategy(amount=lambda line, amount: amount * Decimal(rule["times"]))),
    "round": Behavior(lambda rule: Strategy(amount=lambda line, amount: amount - amount % rule["step"])),
    "equal": Behavior(lambda rule: Strategy(areas=_equally)),
    "closing": Behavior(lambda rule: Strategy(counts=lambda line: int(line.sale.date[-2:]) < rule["number"])),
    "letter": Behavior(lambda rule: Strategy(code=lambda area: rule["prefix"] + area)),
    "samples": Behavior(lambda rule: Strategy(counts=lambda line: line.sale.quantity >= rule["number"])),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
