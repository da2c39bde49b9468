"""The family `restatement`: a board's figures after restatements as CSV, and what has changed as Markdown."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_text
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell
from hermes_lab.tasks.report_generation._markdown import Part, read_parts, share_right
from hermes_lab.tasks.report_generation._report import Report, ReportInstance
from hermes_lab.tasks.report_generation.restatement.data import (
    Restated,
    Row,
    draw_figures,
    draw_site,
    quarters_from,
    render_filings,
    right_rows,
)
from hermes_lab.tasks.report_generation.restatement.rules import CONVENTIONS, Custom, Figure, SiteConfig

TABLE, CHANGES, NOTES = "standing.csv", "changes.md", "notes.md"
LARGEST = 20_000
COLUMNS = 5


@dataclass(frozen=True, kw_only=True)
class Filings(ReportInstance[SiteConfig]):
    """Six quarters of filings."""

    folder: str
    figures: tuple[Figure, ...]


class Restatement(Report[SiteConfig, Filings, Custom]):
    """Restated figures.

    Every set of filings has small and large, early and late, single, double and withdrawn restatements for every
    reason, so that every rule changes the files.
    """

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The lines and words of a board."""
        return draw_site(draws, self.words[entity.split])

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Filings:
        """Filings of six quarters over four lines, twelve of whose figures are restated."""
        quarters = quarters_from(draws.integer(2010, 2023), draws.integer(1, 4))
        figures = draw_figures(site_config, quarters, draws)
        folder = entity.slug("filings")
        files = render_filings(site_config, figures, quarters, folder)
        notes = Template(self.words[entity.split].notes).substitute(
            {**vars(site_config), "lines": ", ".join(site_config.lines), "folder": folder}
        )
        return Filings(
            request=self.ask(entity, draws, folder, last=quarters[-1], folder=folder),
            files={**files, NOTES: notes},
            inputs=(*files, NOTES),
            outputs=(TABLE, CHANGES),
            folder=folder,
            site_config=site_config,
            figures=tuple(figures),
        )

    def right_of(self, instance: Filings, rule: Rule | None) -> Restated:
        """The expected rows under `rule`."""
        return right_rows(instance.site_config, instance.figures, self.strategy(rule))

    async def judge(
        self, instance: Filings, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Compares both files with the expected rows: one criterion per column of the CSV and per part of the list."""
        right, site_config = self.right_of(instance, rule), instance.site_config
        head = (site_config.line, site_config.quarter, site_config.first, site_config.standing, site_config.change)
        table, changes = await read_text(workspace, TABLE, LARGEST), await read_text(workspace, CHANGES, LARGEST)
        rows = _read_csv(table or "")
        parts = read_parts(changes or "")
        complete = rows[:1] == [head] and len(rows) == 1 + len(right.rows) and all(len(row) == COLUMNS for row in rows)
        return (
            criterion("table_present", bool(table), f"{TABLE} is missing or not text"),
            criterion("changes_present", bool(changes), f"{CHANGES} is missing or not text"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion("table_form", complete, f"{TABLE} does not have the header from {NOTES} and one row per figure"),
            criterion(
                "changes_form",
                _has_form(parts, site_config, head),
                f"{CHANGES} does not have the form given in {NOTES}",
            ),
            *_columns_right(rows[1:] if complete else [], right),
            *_list_right(parts, site_config, right),
        )

    def slots(self, instance: Filings) -> Mapping[str, str]:
        """Adds the lines of the filings."""
        return {**super().slots(instance), "lines": repr(list(instance.site_config.lines))}

    def explore(self, instance: Filings) -> tuple[Action, ...]:
        """Reads the notes and the filings."""
        return (
            shell(f"cat {NOTES}", "First I read the notes."),
            shell(f"head -n 40 {instance.folder}/*.csv", "Then I look at the filings."),
        )


def _read_csv(text: str) -> list[Row]:
    """The rows, without blank ones and a byte order mark; none if the text is not valid CSV."""
    try:
        rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
        return [tuple(cell.strip() for cell in row) for row in rows if row]
    except csv.Error:
        return []


def _has_form(parts: Sequence[Part], site_config: SiteConfig, head: Row) -> bool:
    headings = [(part.level, part.title) for part in parts[1:]]
    tables = [table for part in parts for table in part.tables]
    return headings == [(1, site_config.heading)] and len(tables) == 1 and tables[0][:1] == [head]


def _columns_right(rows: Sequence[Row], right: Restated) -> list[Criterion]:
    criteria = []
    for column in range(COLUMNS):
        found = [(row[column],) for row in rows]
        score, words = share_right(found, [(row[column],) for row in right.rows])
        reason = "" if score == 1.0 else f"{TABLE}, column {column + 1}: {words}"
        criteria.append(Criterion(f"column_{column + 1}", score, reason, ruled=True))
    return criteria


def _list_right(parts: Sequence[Part], site_config: SiteConfig, right: Restated) -> list[Criterion]:
    lines = [line for part in parts for line in part.lines if line.startswith(f"{site_config.restated}:")]
    count = f"{site_config.restated}: {len(right.listed)} of {len(right.rows)}"
    found = [line.removesuffix(".") for line in lines]
    tables = [table for part in parts for table in part.tables]
    score, words = share_right(tables[0][1:] if len(tables) == 1 and tables[0] else (), right.listed)
    return [
        criterion("count", found == [count], f"{CHANGES}: the count is wrong", ruled=True),
        Criterion("listed", score, "" if score == 1.0 else f"{CHANGES}: {words}", ruled=True),
    ]


FAMILY = Restatement(__file__, CONVENTIONS, Custom())
