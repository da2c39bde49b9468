"""The family `house_template`: a Markdown report by a template and a style sheet, in the form a client wants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_text
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell
from hermes_lab.tasks.report_generation._markdown import Part, read_parts, share_right
from hermes_lab.tasks.report_generation._report import Report, ReportInstance, texts
from hermes_lab.tasks.report_generation.house_template.data import (
    Expected,
    draw_items,
    draw_site,
    render_items,
    right_report,
)
from hermes_lab.tasks.report_generation.house_template.rules import CONVENTIONS, Custom, Item, SiteConfig
from hermes_lab.tasks.words import load_words

REPORT = "report.md"
LARGEST = 30_000
ROW_NOTES = load_words(__file__, dict[str, str], "row_notes")
"""The text of the template below the table of a section, by split."""
QUARTER_ENDS = ("03-31", "06-30", "09-30", "12-31")


@dataclass(frozen=True, kw_only=True)
class Data(ReportInstance[SiteConfig]):
    """A quarter of data to report on."""

    file: str
    items: tuple[Item, ...]
    date: str


class HouseTemplate(Report[SiteConfig, Data, Custom]):
    """Markdown reports.

    Each section of a report has negative, zero, small and large amounts and all states, so that every rule changes it.
    """

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The words of a client's reports."""
        return draw_site(draws, self.words[entity.split])

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Data:
        """A quarter of data: 20 to 28 items in four sections."""
        words = self.words[entity.split]
        year, quarter = draws.integer(2015, 2025), draws.integer(1, 4)
        items = draw_items(site_config, words, year, quarter, draws)
        day = f"{year}-{QUARTER_ENDS[quarter - 1]}"
        file = f"{entity.slug('figures')}.csv"
        named = texts(site_config)
        return Data(
            request=self.ask(entity, draws, file, day=day, file=file),
            files={
                file: render_items(site_config, items),
                "template.md": Template(words.template).substitute(
                    named | {"sections": _sections(site_config, ROW_NOTES[entity.split])}
                ),
                "style.md": Template(words.style).substitute(named),
            },
            inputs=(file, "template.md", "style.md"),
            outputs=(REPORT,),
            file=file,
            site_config=site_config,
            items=tuple(items),
            date=day,
        )

    def right_of(self, instance: Data, rule: Rule | None) -> Expected:
        """The expected report under `rule`."""
        return right_report(instance.site_config, instance.items, instance.date, self.strategy(rule))

    async def judge(
        self, instance: Data, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Compares `report.md` with the expected report, one criterion per section."""
        right = self.right_of(instance, rule)
        text = await read_text(workspace, REPORT, limit=LARGEST)
        parts = read_parts(text or "")
        sections = [part for part in parts if part.level == 2]
        return (
            criterion("report_present", bool(text), f"{REPORT} is missing or not text"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            _headings(instance.site_config, parts),
            _tables(right, sections),
            criterion(
                "day",
                [line for part in parts[:2] for line in part.lines if line.startswith(f"{instance.site_config.as_of}:")]
                == [f"{instance.site_config.as_of}: {right.day}"],
                "the day at the top is wrong",
                ruled=True,
            ),
            *_sections_right(instance.site_config, right, sections),
        )

    def slots(self, instance: Data) -> Mapping[str, str]:
        """Adds the sections and the unit."""
        site_config = instance.site_config
        own = {"sections": repr(list(site_config.sections)), "unit": site_config.currency}
        return {**super().slots(instance), **own}

    def explore(self, instance: Data) -> tuple[Action, ...]:
        """Reads the template, the style sheet and the data."""
        return (
            shell("ls -l && cat template.md style.md", "First I read the template and the style sheet."),
            shell(f"head -n 6 {instance.file} && wc -l {instance.file}", "Then I look at the data."),
        )


def _sections(site_config: SiteConfig, note: str) -> str:
    c = site_config
    labels = f"| {' | '.join((c.item, c.booked, c.planned, c.actual, c.difference))} |"
    return "".join(f"\n## {section}\n\n{labels}\n\n{note}\n" for section in site_config.sections)


def _headings(site_config: SiteConfig, parts: Sequence[Part]) -> Criterion:
    """Whether the headings contain those of the template, in order: rules may number them."""
    levels, found = [part.level for part in parts[1:]], [part.title for part in parts[1:]]
    wanted = (site_config.title, site_config.overview, *site_config.sections)
    holds = (
        levels == [1, *[2] * (len(wanted) - 1)]
        and found[0] == site_config.title
        and all(name in title for name, title in zip(wanted, found, strict=True))
    )
    return criterion("headings", holds, "the headings are not those of the template, in its order")


def _tables(right: Expected, sections: Sequence[Part]) -> Criterion:
    """Whether each section has exactly one table, with the columns of the template."""
    wanted = [section.rows[0] for section in right.sections]
    found = [part.tables[0][0] if len(part.tables) == 1 and part.tables[0] else () for part in sections]
    return criterion("tables", found == wanted, "a section does not have exactly one table with the template's columns")


def _sections_right(site_config: SiteConfig, right: Expected, sections: Sequence[Part]) -> list[Criterion]:
    criteria = []
    for number, (name, wanted) in enumerate(
        zip((site_config.overview, *site_config.sections), right.sections, strict=True)
    ):
        part = sections[number] if number < len(sections) else Part(2, "")
        score, words = share_right(part.tables[0] if len(part.tables) == 1 else (), wanted.rows)
        if part.title != wanted.heading:
            score, words = score / 2, f"the heading is wrong, and {words}"
        reason = "" if score == 1.0 else f"section {name}: {words}"
        criteria.append(Criterion(f"section_{number + 1}", score, reason, ruled=True))
    return criteria


FAMILY = HouseTemplate(__file__, CONVENTIONS, Custom())
