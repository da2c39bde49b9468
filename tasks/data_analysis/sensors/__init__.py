"""The family `sensors`: a logger's export becomes a few statistics, by what the plant knows about its logger."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.conventions import rule_types, slots_of, way_of
from hermes_lab.tasks.data_analysis._conventions import look_at, told_with_code, write_script
from hermes_lab.tasks.data_analysis._figures import ANSWER, CENT, Number, Table, Text, judge_figures
from hermes_lab.tasks.data_analysis.sensors.export import Reading, Shape, draw_readings, draw_shape, render_export
from hermes_lab.tasks.data_analysis.sensors.rules import CONVENTIONS, PLAIN
from hermes_lab.tasks.data_analysis.sensors.words import DELIVERIES, REQUESTS, TERMS, VOCABULARIES
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Family, Move, Rule, Scene, Site, sentence, shell

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
class Recording(Scene):
    """One export to evaluate."""

    file: str
    shape: Shape
    readings: tuple[Reading, ...]


class Sensors(Family[Shape, Recording]):
    """Every release, status, value and hour that a convention could be about is in every export."""

    name = "sensors"
    domain = "data_analysis"
    noun = "plant"
    summary = "average a logger's export, by what the plant knows about its logger"
    subject = "how the readings of {place} are evaluated"
    rules = rule_types(CONVENTIONS)

    def shape(self, site: Site, kind: str, draws: Draws) -> Shape:
        """The columns of a plant's exports, and how its logger writes."""
        return draw_shape(draws, VOCABULARIES[site.split])

    def scene(self, site: Site, shape: Shape, draws: Draws) -> Recording:
        """An export of 36 to 64 readings, with a note on its columns."""
        vocabulary = VOCABULARIES[site.split]
        readings = draw_readings(shape, draws)
        file = f"{site.slug(self.noun)}.{'tsv' if shape.dialect[0] == TAB else 'csv'}"
        phrases = (site.phrase(draws, each) for each in (REQUESTS, TERMS, DELIVERIES))
        request = " ".join(phrases).format(place=site.called(self.noun), file=file, **vars(shape))
        return Recording(
            request=sentence(request, file),
            files={
                file: render_export(shape, vocabulary, readings, draws),
                NOTE: vocabulary.note.format(**vars(shape)),
            },
            inputs=(file, NOTE),
            outputs=(ANSWER,),
            file=file,
            shape=shape,
            readings=tuple(readings),
        )

    async def judge(
        self, scene: Recording, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Counts the readings as they were drawn, not as the workspace has them."""
        shape = scene.shape
        right = way_of(CONVENTIONS, rule, PLAIN).statistics(scene.readings, shape.form)
        figures = (
            Table("means", shape.means, right.means, CENT),
            Number("count", shape.count, right.count),
            Text("peak", shape.peak, right.peaks),
        )
        return await judge_figures(scene, workspace, figures)

    def moves(self, scene: Recording, rule: Rule | None) -> tuple[Move, ...]:
        """One script."""
        names = {name: value for name, value in vars(scene.shape).items() if isinstance(value, str)}
        obvious = {"select": "", "weight": "1", "change": "", "code": f'row["{names["probe"]}"]', "at": ""}
        mark = scene.shape.dialect[0].replace("\t", "\\t")
        slots = {**names, "file": scene.file, "mark": mark, **obvious, **slots_of(CONVENTIONS, rule)}
        return (shell(write_script(SCRIPT, slots), "I evaluate it with a short script."),)

    def looks(self, scene: Recording) -> tuple[Move, ...]:
        """The files, and the top of each."""
        return look_at(scene)

    def howto(self, site: Site, shape: Shape, rule: Rule) -> str:
        """The rule, and the lines of Python that do it."""
        return told_with_code(CONVENTIONS, rule)


FAMILY = Sensors()
