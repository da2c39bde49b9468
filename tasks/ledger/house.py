"""A house: the desks of one world, their exports, and the rules that hold there."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tasks.ledger.rules import SEEN, UNSEEN, Row, Rule, Shape, draw_rule
from tasks.ledger.words import VOCABULARIES, Vocabulary
from tasks.worlds import Draws, WorldSpec

MIN_ROWS, MAX_ROWS = 20, 60


@dataclass(frozen=True)
class Desk:
    """One department of the house. `rule` is None where the obvious total is right."""

    name: str
    shape: Shape
    rule: Rule | None

    @property
    def file(self) -> str:
        """The path of its export in the workspace."""
        return f"{self.name}.csv"


@lru_cache(maxsize=256)
def draw_house(split: str, world: int, spec: WorldSpec) -> tuple[Desk, ...]:
    """The desks of a world, those with a rule first. No two rules of a world are of one type."""
    draws = Draws("ledger", split, world)
    words = VOCABULARIES[split]
    unseen = min(spec.unseen, spec.ruled) if split == "heldout" else 0
    types = draws.sample(UNSEEN, unseen) + draws.sample(SEEN, spec.ruled - unseen)
    desks = []
    for place, name in enumerate(draws.sample(words.desks, spec.places)):
        shape = _draw_shape(draws, words)
        rule = draw_rule(types[place], draws, shape) if place < spec.ruled else None
        desks.append(Desk(name, shape, rule))
    return tuple(desks)


def _draw_shape(draws: Draws, words: Vocabulary) -> Shape:
    categories = tuple(
        category._replace(values=tuple(draws.sample(category.values, draws.integer(3, 4))))
        for category in draws.sample(words.categories, 3)
    )
    document, ordinal = draws.choice(words.documents), draws.choice(words.ordinals)
    quantity, charges = draws.choice(words.quantities), draws.sample(words.charges, 2)
    columns = draws.shuffled([document, ordinal, quantity, *charges, *(c.column for c in categories)])
    return Shape(
        categories=categories,
        document=document,
        ordinal=ordinal,
        quantity=quantity,
        charges=(charges[0], charges[1]),
        sentinel=draws.choice((555, 777, 888, 999)),
        columns=(*columns, "amount"),
    )


def draw_table(shape: Shape, draws: Draws) -> list[Row]:
    """An export of 20 to 60 rows.

    Every word, number and repetition that a rule could be about is there, whether such a rule holds or not,
    and every amount is positive: so each rule moves the total, and an export without a rule looks like one
    with.
    """
    count = draws.integer(MIN_ROWS, MAX_ROWS)
    first = draws.integer(1000, 9000)
    numbers = range(first, first + count - draws.integer(count // 4, count // 2))
    table = {
        shape.document: draws.shuffled(_cycle([str(number) for number in numbers], count)),
        shape.ordinal: draws.shuffled(_cycle("12345678", count)),
        shape.quantity: draws.shuffled(_cycle("1234", count)),
        "amount": [_money(draws.integer(500, 50_000)) for _ in range(count)],
    }
    for row in draws.sample(range(count), draws.integer(2, 3)):
        table["amount"][row] = _money(shape.sentinel * 100)
    for column in shape.charges:
        table[column] = [_money(draws.integer(100, 4_000)) for _ in range(count)]
    for category in shape.categories:
        table[category.column] = draws.shuffled(_cycle(category.values, count))
    return [{column: table[column][row] for column in shape.columns} for row in range(count)]


def render_table(rows: Sequence[Row]) -> str:
    """The export as CSV. No cell needs quotes."""
    return "".join(",".join(cells) + "\n" for cells in [list(rows[0]), *(row.values() for row in rows)])


def _cycle(values: Sequence[str], count: int) -> list[str]:
    """`values` over and over: each occurs as often as the others, or once more."""
    return [values[n % len(values)] for n in range(count)]


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
