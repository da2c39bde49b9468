"""The tables of a division, and the expected workbook."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.report_generation._xlsx import Cell, Sheet
from hermes_lab.tasks.report_generation.workbook.rules import EPOCH, Custom, Entry, SiteConfig, Source, Table

TABLES = 3
MIN_ROWS, MAX_ROWS = 8, 12
REPEATED = 2
"""Rows per table that repeat the document of another row."""


def draw_site(draws: Draws, words: Words) -> SiteConfig:
    """The tables and words of a division."""
    tables = [Source(*each) for each in draws.sample(words.tables, TABLES)]
    while _monotonic([source.title for source in tables]):
        tables = draws.shuffled(tables)
    return SiteConfig(
        **draws.choice(words.labels),
        tables=tuple(tables),
        summary=draws.choice(words.summaries),
        unit=draws.choice(words.units),
        currency=draws.choice(words.currencies),
        kinds=tuple(draws.sample(words.kinds, 3)),
        totals=tuple(words.totals),
    )


def draw_tables(site_config: SiteConfig, year: int, draws: Draws) -> tuple[Table, ...]:
    """A year of tables. Each has rows of every kind, an empty amount and repeated documents.

    Their totals are ordered neither as in the layout nor alphabetically.
    """
    titles = [source.title for source in site_config.tables]
    levels = draws.shuffled(range(TABLES))
    while _monotonic(levels) or _monotonic([levels[titles.index(title)] for title in sorted(titles)]):
        levels = draws.shuffled(levels)
    count = draws.integer(MIN_ROWS, MAX_ROWS)
    return tuple(
        _draw_table(source, site_config, year, level, count, draws)
        for source, level in zip(site_config.tables, levels, strict=True)
    )


def _monotonic(items: Sequence[int] | Sequence[str]) -> bool:
    return list(items) in (sorted(items), sorted(items, reverse=True))


def _draw_table(source: Source, site_config: SiteConfig, year: int, level: int, count: int, draws: Draws) -> Table:
    first = draws.integer(100, 900)
    documents = draws.shuffled([f"{first + n - (n >= count - REPEATED) * 5:05d}" for n in range(count)])
    low, high = ((10_000, 40_000), (70_000, 150_000), (300_000, 900_000))[level]
    amounts: list[int | None] = [draws.integer(low, high) for _ in range(count)]
    # Fractions over one half: rounding always changes a total.
    amounts = [None if amount is None else amount - amount % 100 + draws.integer(55, 95) for amount in amounts]
    kinds = draws.shuffled([site_config.kinds[n % 3] for n in range(count)])
    empty = draws.choice([n for n in range(count) if documents.count(documents[n]) == 1])
    amounts[empty] = None
    days = sorted(draws.integer(0, 335) for _ in range(count))
    return Table(
        source,
        tuple(
            Entry(document, f"{year}-{day // 28 + 1:02d}-{day % 28 + 1:02d}", kind, amount)
            for document, day, kind, amount in zip(documents, days, kinds, amounts, strict=True)
        ),
    )


def render_table(site_config: SiteConfig, table: Table) -> str:
    """A table as CSV. No cell needs quoting."""
    head = f"{site_config.document},{site_config.day},{site_config.kind},{site_config.amount}\n".lower()
    rows = [
        f"{document},{day},{kind},{'' if amount is None else f'{amount / 100:.2f}'}\n"
        for document, day, kind, amount in table.entries
    ]
    return head + "".join(rows)


def right_sheets(site_config: SiteConfig, tables: Sequence[Table], year: str, custom: Custom) -> tuple[Sheet, ...]:
    """The workbook as the division wants it. Only money and days have formats."""
    titles = [table.source.title for table in tables]
    totals = [_total(table, custom) for table in tables]
    counts = [custom.count([entry for entry in table.entries if custom.counts(entry)]) for table in tables]
    sheets = [
        Sheet(custom.tab(number, title, year), _table_rows(site_config, table, total, year, custom))
        for number, (title, table, total) in enumerate(zip(titles, tables, totals, strict=True), 1)
    ]
    if custom.order:
        rank = custom.order
        order = sorted(range(TABLES), key=lambda n: rank(titles[n], totals[n]))
        sheets = [sheets[n] for n in order]
    lines = [
        (Cell(title), Cell(float(count)), _money(total, custom))
        for title, count, total in zip(titles, counts, totals, strict=True)
    ]
    ending = (
        Cell(custom.total),
        Cell(float(sum(counts)), formula=_formula("B", len(lines), custom)),
        _money(sum(totals, Decimal(0)), custom)._replace(formula=_formula("C", len(lines), custom)),
    )
    head = (Cell(site_config.table), Cell(site_config.count), Cell(site_config.amount))
    units = (Cell(), Cell(site_config.unit), Cell(custom.unit.format(site_config.currency)))
    summary = Sheet(site_config.summary, _arranged(head, units, lines, ending, custom))
    return (*sheets, summary) if custom.summary_last else (summary, *sheets)


def _table_rows(
    site_config: SiteConfig, table: Table, total: Decimal, year: str, custom: Custom
) -> tuple[tuple[Cell, ...], ...]:
    rows = []
    for entry in table.entries:
        value = custom.value(entry)
        if value is not None:
            amount = _money(value, custom)
        else:
            amount = Cell(custom.missing, custom.format if custom.missing == 0 else "General")
        cells = (Cell(custom.document(entry.document, year)), _day(entry.day, custom), Cell(entry.kind), amount)
        rows.append(cells if amount.value is not None else cells[:-1])
    ending = _money(total, custom)._replace(formula=_formula("D", len(rows), custom))
    head = (Cell(site_config.document), Cell(site_config.day), Cell(site_config.kind), Cell(site_config.amount))
    units = (Cell(), Cell(), Cell(), Cell(custom.unit.format(site_config.currency)))
    return _arranged(head, units, rows, (Cell(custom.total), Cell(), Cell(), ending), custom)


def _arranged(
    head: tuple[Cell, ...],
    units: tuple[Cell, ...],
    rows: Sequence[tuple[Cell, ...]],
    total: tuple[Cell, ...],
    custom: Custom,
) -> tuple[tuple[Cell, ...], ...]:
    return (head, units, total, *rows) if custom.total_first else (head, units, *rows, total)


def _total(table: Table, custom: Custom) -> Decimal:
    values = [custom.value(entry) for entry in table.entries if custom.counts(entry)]
    return sum((value for value in values if value is not None), Decimal(0))


def _money(value: Decimal, custom: Custom) -> Cell:
    return Cell(float(value), custom.format)


def _day(day: str, custom: Custom) -> Cell:
    if custom.day:
        return Cell(date.fromisoformat(day).strftime(custom.day))
    return Cell(float((date.fromisoformat(day) - EPOCH).days), custom.day_format)


def _formula(column: str, rows: int, custom: Custom) -> str:
    return custom.formula.format(f"{column}3:{column}{rows + 2}") if custom.formula else ""
