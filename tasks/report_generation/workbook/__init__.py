"""The family `workbook`: an .xlsx workbook of a division's tables with a summary, laid out as the division wants it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from string import Template

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_bytes
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell
from hermes_lab.tasks.report_generation._report import Report, ReportInstance
from hermes_lab.tasks.report_generation._xlsx import Cell, Sheet, read_workbook
from hermes_lab.tasks.report_generation.workbook.data import (
    TABLES,
    draw_site,
    draw_tables,
    render_table,
    right_sheets,
)
from hermes_lab.tasks.report_generation.workbook.rules import CONVENTIONS, Custom, SiteConfig, Table
from hermes_lab.tasks.words import read_file

BOOK, LAYOUT, WRITER = "book.xlsx", "layout.md", "xlsx.py"
TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Tables(ReportInstance[SiteConfig]):
    """A year of tables."""

    folder: str
    year: str
    tables: tuple[Table, ...]


class Workbook(Report[SiteConfig, Tables, Custom]):
    """Workbooks.

    Every table has a missing amount, repeated documents and rows of all kinds. Totals, titles and the layout are in
    different orders. So every rule changes the workbook.
    """

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The tables and words of a division."""
        return draw_site(draws, self.words[entity.split])

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Tables:
        """Three tables of 8 to 12 rows."""
        year, folder = draws.integer(2012, 2025), entity.slug("tables")
        tables = draw_tables(site_config, year, draws)
        files = {f"{folder}/{table.source.stem}.csv": render_table(site_config, table) for table in tables}
        layout = Template(self.words[entity.split].layout).substitute(
            {**vars(site_config), "number": site_config.unit, "folder": folder, "list": _listed(site_config)}
        )
        return Tables(
            request=self.ask(entity, draws, folder, year=year, folder=folder),
            files={**files, LAYOUT: layout, WRITER: read_file(__file__, "writer.py")},
            inputs=(*files, LAYOUT, WRITER),
            outputs=(BOOK,),
            folder=folder,
            year=str(year),
            site_config=site_config,
            tables=tables,
        )

    def right_of(self, instance: Tables, rule: Rule | None) -> tuple[Sheet, ...]:
        """The expected sheets under `rule`."""
        return right_sheets(instance.site_config, instance.tables, instance.year, self.strategy(rule))

    async def judge(
        self, instance: Tables, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Compares `book.xlsx` with the expected sheets, one criterion per sheet."""
        right, site_config = self.right_of(instance, rule), instance.site_config
        data = await read_bytes(workspace, BOOK)
        sheets = read_workbook(data) if data else None
        found = sheets or ()
        return (
            criterion("book_present", sheets is not None, f"{BOOK} is missing or not a readable workbook"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion(
                "form",
                _has_form(found, site_config),
                f"it needs the sheet {site_config.summary} and {TABLES} others, each with the header of {LAYOUT} "
                "in row 1",
            ),
            criterion(
                "consistent",
                _is_consistent(found, site_config),
                f"the total of a table in {site_config.summary} differs from the total on its sheet",
            ),
            criterion(
                "tabs",
                [sheet.name for sheet in found] == [sheet.name for sheet in right],
                "the sheets do not have the right names and order",
                ruled=True,
            ),
            *_sheets_right(found, right),
        )

    def slots(self, instance: Tables) -> Mapping[str, str]:
        """Adds the tables and the unit."""
        site_config = instance.site_config
        own = {"tables": repr([tuple(source) for source in site_config.tables]), "unit": site_config.currency}
        return {**super().slots(instance), **own}

    def explore(self, instance: Tables) -> tuple[Action, ...]:
        """Reads the layout, the tables and the writer."""
        return (
            shell(f"cat {LAYOUT} && head -n 4 {instance.folder}/*.csv", "First I look at the layout and the tables."),
            shell(f"head -n 9 {WRITER}", "Then I check how to write the file."),
        )


def _listed(site_config: SiteConfig) -> str:
    return "\n".join(f"    {n}. {stem}.csv: {title}" for n, (stem, title) in enumerate(site_config.tables, 1))


def _has_form(sheets: Sequence[Sheet], site_config: SiteConfig) -> bool:
    table: list[str | float | None] = [site_config.document, site_config.day, site_config.kind, site_config.amount]
    heads = [[cell.value for cell in sheet.rows[0]] if sheet.rows else [] for sheet in sheets]
    summaries = [head for sheet, head in zip(sheets, heads, strict=True) if sheet.name == site_config.summary]
    return (
        summaries == [[site_config.table, site_config.count, site_config.amount]]
        and heads.count(table) == len(heads) - 1 == TABLES
    )


def _is_consistent(sheets: Sequence[Sheet], site_config: SiteConfig) -> bool:
    """Whether the summary has the total of each table: that of its last row, or of the first one below the units."""
    sums = [row[-1].value for sheet in sheets if sheet.name == site_config.summary for row in sheet.rows[2:]]
    for sheet in sheets:
        totals = [sheet.rows[index][-1].value for index in (2, -1) if len(sheet.rows) > 2 and sheet.rows[index]]
        if sheet.name != site_config.summary and not any(_same(a, b) for a in sums for b in totals):
            return False
    return bool(sums)


def _same(found: str | float | None, right: str | float | None) -> bool:
    if isinstance(found, float) and isinstance(right, float):
        return isclose(found, right, rel_tol=0, abs_tol=TOLERANCE)
    return found == right


def _same_cell(found: Cell, right: Cell) -> bool:
    """The format matters for money and days only."""
    formatted = not isinstance(right.value, float) or right.format in ("General", found.format)
    return _same(found.value, right.value) and found.formula == right.formula and formatted


def _same_row(found: Sequence[Cell], right: Sequence[Cell]) -> bool:
    return len(found) == len(right) and all(map(_same_cell, found, right))


def _sheets_right(found: Sequence[Sheet], right: Sequence[Sheet]) -> list[Criterion]:
    criteria = []
    for index, wanted in enumerate(right):
        rows = found[index].rows if index < len(found) else ()
        same, most = sum(map(_same_row, rows, wanted.rows)), max(len(rows), len(wanted.rows))
        reason = f"sheet {index + 1}: {same} of {most} rows are right" if same < most else ""
        criteria.append(Criterion(f"sheet_{index + 1}", same / most, reason, ruled=True))
    return criteria


FAMILY = Workbook(__file__, CONVENTIONS, Custom())
