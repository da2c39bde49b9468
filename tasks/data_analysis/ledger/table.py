"""Exports: what a desk's tables look like."""

from collections.abc import Sequence

from hermes_lab.tasks.data_analysis.ledger.rules import Category, Row, SiteConfig
from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws

MIN_ROWS, MAX_ROWS = 20, 60


def draw_shape(draws: Draws, words: Words) -> SiteConfig:
    """The columns of a desk's exports."""
    categories = tuple(
        Category(column, tuple(draws.sample(values, draws.integer(3, 4))))
        for column, values in draws.sample(words.categories, 3)
    )
    document, ordinal = draws.choice(words.documents), draws.choice(words.ordinals)
    quantity, charges = draws.choice(words.quantities), draws.sample(words.charges, 2)
    columns = draws.shuffled([document, ordinal, quantity, *charges, *(c.column for c in categories)])
    return SiteConfig(
        categories=categories,
        document=document,
        ordinal=ordinal,
        quantity=quantity,
        charges=(charges[0], charges[1]),
        sentinel=draws.choice((555, 777, 888, 999)),
        columns=(*columns, "amount"),
    )


def draw_table(site_config: SiteConfig, draws: Draws) -> list[Row]:
    """An export of 20 to 60 rows.

    Every word, number and repetition that a rule could be about is there, whether such a rule holds or not,
    and every amount is positive: so each rule moves the total, and an export without a rule looks like one
    with.
    """
    count = draws.integer(MIN_ROWS, MAX_ROWS)
    first = draws.integer(1000, 9000)
    numbers = range(first, first + count - draws.integer(count // 4, count // 2))
    table = {
        site_config.document: draws.shuffled(_cycle([str(number) for number in numbers], count)),
        site_config.ordinal: draws.shuffled(_cycle("12345678", count)),
        site_config.quantity: draws.shuffled(_cycle("1234", count)),
        "amount": [_money(draws.integer(500, 50_000)) for _ in range(count)],
    }
    for row in draws.sample(range(count), draws.integer(2, 3)):
        table["amount"][row] = _money(site_config.sentinel * 100)
    for column in site_config.charges:
        table[column] = [_money(draws.integer(100, 4_000)) for _ in range(count)]
    for category in site_config.categories:
        table[category.column] = draws.shuffled(_cycle(category.values, count))
    return [{column: table[column][row] for column in site_config.columns} for row in range(count)]


def render_table(rows: Sequence[Row]) -> str:
    """The export as CSV. No cell needs quotes."""
    return "".join(",".join(cells) + "\n" for cells in [list(rows[0]), *(row.values() for row in rows)])


def _cycle(values: Sequence[str], count: int) -> list[str]:
    """`values` over and over: each occurs as often as the others, or once more."""
    return [values[n % len(values)] for n in range(count)]


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
