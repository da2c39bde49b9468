"""The family `workbook`: an .xlsx workbook of a division's tables with a summary, laid out as the division wants it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isclose
from pathlib import Path

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.conventions import rule_types, way_of
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_bytes
from hermes_lab.tasks.family import Criterion, Family, Move, Rule, Scene, Site, criterion, sentence, shell
from hermes_lab.tasks.report_generation._conventions import write_script
from hermes_lab.tasks.report_generation._xlsx import Cell, Sheet, read_workbook
from hermes_lab.tasks.report_generation.workbook.data import TABLES, draw_shape, draw_tables, render_table, right_sheets
from hermes_lab.tasks.report_generation.workbook.rules import CONVENTIONS, Custom, Shape, Table
from hermes_lab.tasks.report_generation.workbook.script import LINES, SCRIPT, names
from hermes_lab.tasks.report_generation.workbook.words import DELIVERIES, REQUESTS, VOCABULARIES

BOOK, LAYOUT, WRITER = "book.xlsx", "layout.md", "xlsx.py"
TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Tables(Scene):
    """A year's tables."""

    folder: str
    year: str
    shape: Shape
    tables: tuple[Table, ...]


class Workbook(Family[Shape, Tables]):
    """Missing amounts, repeated documents and rows of all kinds are in every table; totals and titles follow neither
    each other nor the layout.
    """

    name = "workbook"
    domain = "report_generation"
    noun = "division"
    summary = "write an .xlsx workbook of tables with a summary, laid out as a division wants it"
    subject = "how workbooks for {place} are laid out"
    rules = rule_types(CONVENTIONS)

    def shape(self, site: Site, kind: str, draws: Draws) -> Shape:
        """The tables and words of a division."""
        return draw_shape(draws, VOCABULARIES[site.split])

    def scene(self, site: Site, shape: Shape, draws: Draws) -> Tables:
        """Three tables of 8 to 12 rows."""
        year, folder = draws.integer(2012, 2025), site.slug("tables")
        tables = draw_tables(shape, year, draws)
        files = {f"{folder}/{table.source.stem}.csv": render_table(shape, table) for table in tables}
        request = site.phrase(draws, REQUESTS).format(place=site.called(self.noun), year=year, folder=folder)
        layout = VOCABULARIES[site.split].layout.substitute(
            {**vars(shape), "number": shape.unit, "folder": folder, "list": _listed(shape)}
        )
        return Tables(
            request=f"{sentence(request, folder)} {site.phrase(draws, DELIVERIES)}",
            files={**files, LAYOUT: layout, WRITER: writer_text()},
            inputs=(*files, LAYOUT, WRITER),
            outputs=(BOOK,),
            folder=folder,
            year=str(year),
            shape=shape,
            tables=tables,
        )

    async def judge(
        self, scene: Tables, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges `book.xlsx` against sheets that the harness makes itself, one criterion a sheet."""
        right, shape = right_of(scene, rule), scene.shape
        data = await read_bytes(workspace, BOOK)
        sheets = read_workbook(data) if data else None
        found = sheets or ()
        return (
            criterion("book_present", sheets is not None, f"{BOOK} is missing, or no workbook that can be read"),
            await inputs_untouched(workspace, scene.files, scene.inputs),
            criterion(
                "form",
                _has_form(found, shape),
                f"it needs the sheet {shape.summary} and {TABLES} others, each with the header of {LAYOUT} in row 1",
            ),
            criterion(
                "consistent",
                _is_consistent(found, shape),
                f"what {shape.summary} says of a table is not the total on its sheet",
            ),
            criterion(
                "tabs",
                [sheet.name for sheet in found] == [sheet.name for sheet in right],
                "the sheets do not have the right names and order",
                ruled=True,
            ),
            *_sheets_right(found, right),
        )

    def moves(self, scene: Tables, rule: Rule | None) -> tuple[Move, ...]:
        """One script that writes the workbook."""
        lines = {**LINES, **names(scene.shape), "folder": scene.folder, "year": scene.year}
        return (write_script(SCRIPT, lines, CONVENTIONS, rule),)

    def looks(self, scene: Tables) -> tuple[Move, ...]:
        """The layout, the tables and the writer."""
        return (
            shell(f"cat {LAYOUT} && head -n 4 {scene.folder}/*.csv", "First the layout and the tables."),
            shell(f"head -n 9 {WRITER}", "And how the file is written."),
        )


def right_of(scene: Tables, rule: Rule | None) -> tuple[Sheet, ...]:
    """The right sheets where `rule` holds."""
    return right_sheets(scene.shape, scene.tables, scene.year, way_of(CONVENTIONS, rule, Custom()))


@cache
def writer_text() -> str:
    """The writer of workbooks, as it lies in every workspace."""
    return Path(__file__).with_name("writer.py").read_text()


def _listed(shape: Shape) -> str:
    return "\n".join(f"    {n}. {stem}.csv: {title}" for n, (stem, title) in enumerate(shape.tables, 1))


def _has_form(sheets: Sequence[Sheet], shape: Shape) -> bool:
    table: list[str | float | None] = [shape.document, shape.day, shape.kind, shape.amount]
    heads = [[cell.value for cell in sheet.rows[0]] if sheet.rows else [] for sheet in sheets]
    summaries = [head for sheet, head in zip(sheets, heads, strict=True) if sheet.name == shape.summary]
    return summaries == [[shape.table, shape.count, shape.amount]] and heads.count(table) == len(heads) - 1 == TABLES


def _is_consistent(sheets: Sequence[Sheet], shape: Shape) -> bool:
    """Whether the summary has the total of each table, be it in the last row or the first below the units."""
    sums = [row[-1].value for sheet in sheets if sheet.name == shape.summary for row in sheet.rows[2:]]
    for sheet in sheets:
        totals = [sheet.rows[place][-1].value for place in (2, -1) if len(sheet.rows) > 2 and sheet.rows[place]]
        if sheet.name != shape.summary and not any(_same(a, b) for a in sums for b in totals):
            return False
    return bool(sums)


def _same(found: str | float | None, right: str | float | None) -> bool:
    if isinstance(found, float) and isinstance(right, float):
        return isclose(found, right, rel_tol=0, abs_tol=TOLERANCE)
    return found == right


def _same_cell(found: Cell, right: Cell) -> bool:
    """Of numbers that are neither money nor days the format does not matter."""
    formatted = not isinstance(right.value, float) or right.format in ("General", found.format)
    return _same(found.value, right.value) and found.formula == right.formula and formatted


def _same_row(found: Sequence[Cell], right: Sequence[Cell]) -> bool:
    return len(found) == len(right) and all(map(_same_cell, found, right))


def _sheets_right(found: Sequence[Sheet], right: Sequence[Sheet]) -> list[Criterion]:
    criteria = []
    for place, wanted in enumerate(right):
        rows = found[place].rows if place < len(found) else ()
        same, most = sum(map(_same_row, rows, wanted.rows)), max(len(rows), len(wanted.rows))
        reason = f"sheet {place + 1}: {same} of {most} rows are right" if same < most else ""
        criteria.append(Criterion(f"sheet_{place + 1}", same / most, reason, ruled=True))
    return criteria


FAMILY = Workbook()
"""The family."""
