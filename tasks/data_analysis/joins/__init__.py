"""The family `joins`: four exports of a branch are joined to totals of areas, by the branch's notion of what counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_analysis._counting import Counting
from hermes_lab.tasks.data_analysis._figures import ANSWER, Number, Table, judge_figures
from hermes_lab.tasks.data_analysis.joins.rules import CONVENTIONS, PLAIN, Strategy
from hermes_lab.tasks.data_analysis.joins.tables import Books, SiteConfig, draw_books, draw_shape, render_books
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Entity, Rule, TaskInstance

NOTE = "README.md"
TOLERANCE = 0.02
"""Of money. It leaves room for who rounds each line to the cent."""


@dataclass(frozen=True, kw_only=True)
class Month(TaskInstance):
    """One month to join."""

    folder: str
    site_config: SiteConfig
    books: Books


class Joins(Counting[SiteConfig, Month, Strategy]):
    """Every price, customer, area and size that a convention could be about is in every month."""

    thought = "I join the tables with a short script."

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Month:
        """The exports of a month, with a note on their columns."""
        words = self.words[entity.split]
        books = draw_books(site_config, words.people, draws)
        folder = entity.slug(self.noun)
        files = render_books(site_config, books, words.goods, draws) | {NOTE: words.note.format(**vars(site_config))}
        return Month(
            request=self.ask(entity, draws, folder, folder=folder, **vars(site_config)),
            files={f"{folder}/{name}": text for name, text in files.items()},
            inputs=tuple(f"{folder}/{name}" for name in files),
            outputs=(ANSWER,),
            folder=folder,
            site_config=site_config,
            books=books,
        )

    async def judge(
        self, instance: Month, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Counts the sales as they were drawn, not as the workspace has them."""
        totals, units = self.strategy(rule).count(instance.books)
        figures = (
            Table("totals", instance.site_config.totals, totals, TOLERANCE),
            Number("units", instance.site_config.units, units),
        )
        return await judge_figures(instance, workspace, figures)

    def slots(self, instance: Month) -> Mapping[str, str]:
        """The names of files and columns, and the obvious lines."""
        names = {name: value for name, value in vars(instance.site_config).items() if isinstance(value, str)}
        obvious = {
            "select": "",
            "record": f'max(records, key=lambda r: r["{names["since"]}"])',
            "pieces": "",
            "change": "",
            "who": "sale[key]",
            "code": f'place["{names["area"]}"]',
            "part": "amount",
        }
        marks = {"sales_mark": instance.site_config.sales_dialect[0], "mark": instance.site_config.master_dialect[0]}
        return {**names, **marks, "folder": instance.folder, **obvious}


FAMILY = Joins(__file__, CONVENTIONS, PLAIN, draw_shape)
