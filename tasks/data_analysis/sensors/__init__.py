"""The family `sensors`: a logger's export becomes a few statistics, by what the plant knows about its logger."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_analysis._conventions import look_at, told_with_code, write_script
from hermes_lab.tasks.data_analysis._figures import ANSWER, CENT, Number, Table, Text, judge_figures
from hermes_lab.tasks.data_analysis.sensors.export import Reading, SiteConfig, draw_readings, draw_shape, render_export
from hermes_lab.tasks.data_analysis.sensors.rules import CONVENTIONS, PLAIN
from hermes_lab.tasks.data_analysis.sensors.words import DELIVERIES, REQUESTS, TERMS, VOCABULARIES
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Criterion, Entity, Family, Rule, TaskInstance, sentence, shell
from hermes_lab.tasks.rules import rule_types, slots_of, strategy_of

NOTE = "README.md"
TAB = "\t"
SCRIPT = f"""
import csv, json
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal

def number(text):
    return Decimal(text.replace(",", "."))

lines = open("<file>").read().splitlines()
top = next(n for n, line in enumerate(lines) if line.startswith("<time><mark>"))
rows = [row for row in csv.DictReader(lines[top:], delimiter="<mark>") if (row["<probe>"] or "").isdigit()]
<select>
added, weights, kept = defaultdict(Decimal), defaultdict(Decimal), []
for row in rows:
    value, weight = number(row["<value>"]), <weight>
    <change>
    added[<code>] += value * weight
    weights[<code>] += weight
    kept.append((value, row["<time>"]))
at = max(kept, key=lambda pair: pair[0])[1]
<at>
means = {{probe: float(added[probe] / weights[probe]) for probe in added}}
with open("{ANSWER}", "w") as out:
    json.dump({{"<means>": means, "<count>": len(kept), "<peak>": at}}, out)
"""


@dataclass(frozen=True, kw_only=True)
class Recording(TaskInstance):
    """One export to evaluate."""

    file: str
    site_config: SiteConfig
    readings: tuple[Reading, ...]


class Sensors(Family[SiteConfig, Recording]):
    """Every release, status, value and hour that a convention could be about is in every export."""

    name = "sensors"
    domain = "data_analysis"
    noun = "plant"
    summary = "average a logger's export, by what the plant knows about its logger"
    subject = "how the readings of {place} are evaluated"
    rules = rule_types(CONVENTIONS)

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The columns of a plant's exports, and how its logger writes."""
        return draw_shape(draws, VOCABULARIES[entity.split])

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Recording:
        """An export of 36 to 64 readings, with a note on its columns."""
        vocabulary = VOCABULARIES[entity.split]
        readings = draw_readings(site_config, draws)
        file = f"{entity.slug(self.noun)}.{'tsv' if site_config.dialect[0] == TAB else 'csv'}"
        phrases = (entity.phrase(draws, each) for each in (REQUESTS, TERMS, DELIVERIES))
        request = " ".join(phrases).format(place=entity.called(self.noun), file=file, **vars(site_config))
        return Recording(
            request=sentence(request, file),
            files={
                file: render_export(site_config, vocabulary, readings, draws),
                NOTE: vocabulary.note.format(**vars(site_config)),
            },
            inputs=(file, NOTE),
            outputs=(ANSWER,),
            file=file,
            site_config=site_config,
            readings=tuple(readings),
        )

    async def judge(
        self, instance: Recording, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Counts the readings as they were drawn, not as the workspace has them."""
        site_config = instance.site_config
        right = strategy_of(CONVENTIONS, rule, PLAIN).statistics(instance.readings, site_config.form)
        figures = (
            Table("means", site_config.means, right.means, CENT),
            Number("count", site_config.count, right.count),
            Text("peak", site_config.peak, right.peaks),
        )
        return await judge_figures(instance, workspace, figures)

    def solve(self, instance: Recording, rule: Rule | None) -> tuple[Action, ...]:
        """One script."""
        names = {name: value for name, value in vars(instance.site_config).items() if isinstance(value, str)}
        obvious = {"select": "", "weight": "1", "change": "", "code": f'row["{names["probe"]}"]', "at": ""}
        mark = instance.site_config.dialect[0].replace("\t", "\\t")
        slots = {**names, "file": instance.file, "mark": mark, **obvious, **slots_of(CONVENTIONS, rule)}
        return (shell(write_script(SCRIPT, slots), "I evaluate it with a short script."),)

    def explore(self, instance: Recording) -> tuple[Action, ...]:
        """The files, and the top of each."""
        return look_at(instance)

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The rule, and the lines of Python that do it."""
        return told_with_code(CONVENTIONS, rule)


FAMILY = Sensors()
