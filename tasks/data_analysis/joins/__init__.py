"""The family `joins`: four exports of a branch are joined to totals of areas, by the branch's notion of what counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_analysis._conventions import look_at, told_with_code, write_script
from hermes_lab.tasks.data_analysis._figures import ANSWER, Number, Table, judge_figures
from hermes_lab.tasks.data_analysis.joins.rules import CONVENTIONS, PLAIN
from hermes_lab.tasks.data_analysis.joins.tables import Books, SiteConfig, draw_books, draw_shape, render_books
from hermes_lab.tasks.data_analysis.joins.words import DELIVERIES, REQUESTS, TERMS, VOCABULARIES
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Criterion, Entity, Family, Rule, TaskInstance, sentence, shell
from hermes_lab.tasks.rules import rule_types, slots_of, strategy_of

NOTE = "README.md"
TOLERANCE = 0.02
"""Of money. It leaves room for who rounds each line to the cent."""
SCRIPT = f"""
import csv, json
from collections import defaultdict
from decimal import Decimal

def table(name, mark):
    with open(f"<folder>/{{name}}.csv", newline="") as file:
        return list(csv.DictReader((line for line in file if line[0] != "#"), delimiter=mark))

key = "<customer>"
sales = table("<sales>", "<sales_mark>")
customers = {{row[key]: row for row in table("<customers>", "<mark>")}}
articles, areas = defaultdict(list), defaultdict(list)
for row in table("<articles>", "<mark>"):
    articles[row["<article>"].lstrip("0")].append(row)
for row in table("<areas>", "<mark>"):
    areas[row[key]].append(row)
<select>
totals, units = defaultdict(Decimal), 0
for sale in sales:
    customer = customers[sale[key]]
    records = articles[sale["<article>"].lstrip("0")]
    record = <record>
    pieces = int(sale["<quantity>"])
    <pieces>
    units += pieces
    amount = pieces * Decimal(record["<price>"].replace(",", "."))
    <change>
    places = areas[<who>]
    for place in places:
        totals[<code>] += <part>
with open("{ANSWER}", "w") as out:
    json.dump({{"<totals>": {{area: float(total) for area, total in totals.items()}}, "<units>": units}}, out)
"""


@dataclass(frozen=True, kw_only=True)
class Month(TaskInstance):
    """One month to join."""

    folder: str
    site_config: SiteConfig
    books: Books


class Joins(Family[SiteConfig, Month]):
    """Every price, customer, area and size that a convention could be about is in every month."""

    name = "joins"
    domain = "data_analysis"
    noun = "branch"
    summary = "join four exports to totals of areas, by the branch's notion of what counts where"
    subject = "how the sales of {place} are counted"
    rules = rule_types(CONVENTIONS)

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The files and columns of a branch's exports."""
        return draw_shape(draws, VOCABULARIES[entity.split])

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Month:
        """The exports of a month, with a note on their columns."""
        vocabulary = VOCABULARIES[entity.split]
        books = draw_books(site_config, vocabulary.people, draws)
        folder = entity.slug(self.noun)
        files = render_books(site_config, books, vocabulary.goods, draws) | {
            NOTE: vocabulary.note.format(**vars(site_config))
        }
        phrases = (entity.phrase(draws, each) for each in (REQUESTS, TERMS, DELIVERIES))
        request = " ".join(phrases).format(place=entity.called(self.noun), folder=folder, **vars(site_config))
        return Month(
            request=sentence(request, folder),
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
        totals, units = strategy_of(CONVENTIONS, rule, PLAIN).count(instance.books)
        figures = (
            Table("totals", instance.site_config.totals, totals, TOLERANCE),
            Number("units", instance.site_config.units, units),
        )
        return await judge_figures(instance, workspace, figures)

    def solve(self, instance: Month, rule: Rule | None) -> tuple[Action, ...]:
        """One script."""
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
        slots = {**names, **marks, "folder": instance.folder, **obvious, **slots_of(CONVENTIONS, rule)}
        return (shell(write_script(SCRIPT, slots), "I join the tables with a short script."),)

    def explore(self, instance: Month) -> tuple[Action, ...]:
        """The files, and the top of each."""
        return look_at(instance)

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The rule, and the lines of Python that do it."""
        return told_with_code(CONVENTIONS, rule)


FAMILY = Joins()
