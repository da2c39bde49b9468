"""The family `event_logs`: a counter's log becomes seconds a day, by the counter's notion of a day and of a visit."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.conventions import rule_types, slots_of, way_of
from hermes_lab.tasks.data_analysis._conventions import look_at, told_with_code, write_script
from hermes_lab.tasks.data_analysis._figures import ANSWER, Number, Table, judge_figures
from hermes_lab.tasks.data_analysis.event_logs.log import LAYOUTS, Shape, Visit, draw_shape, draw_visits, render_log
from hermes_lab.tasks.data_analysis.event_logs.rules import CONVENTIONS, PLAIN
from hermes_lab.tasks.data_analysis.event_logs.words import DELIVERIES, REQUESTS, TERMS, VOCABULARIES
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Family, Move, Rule, Scene, Site, sentence, shell

NOTE = "README.md"
READERS = {
    "json": "[json.loads(line) for line in open(file)]",
    "pairs": '[dict(pair.split("=", 1) for pair in line.split()) for line in open(file)]',
    "table": 'list(csv.DictReader(open(file), delimiter="|"))',
}
SCRIPT = f"""
import csv, json
from datetime import datetime, timedelta, timezone
<imports>
file = "<file>"
rows = <rows>
rows = [row for row in rows if row["<event>"] == "<done>"]
<select>
days, visits = {{}}, 0
for row in rows:
    at = datetime.fromisoformat(row["<time>"].rstrip("Z"))
    seconds = int(row["<secs>"])
    <change>
    day = at.strftime("<form>")
    days[day] = days.get(day, 0) + seconds
    visits += 1
with open("{ANSWER}", "w") as out:
    json.dump({{"<days>": days, "<visits>": visits}}, out)
print(visits, days)
"""


@dataclass(frozen=True, kw_only=True)
class Log(Scene):
    """One log to sum up."""

    file: str
    shape: Shape
    visits: tuple[Visit, ...]


class EventLogs(Family[Shape, Log]):
    """Every hour, length, return and word that a convention could be about is in every log."""

    name = "event_logs"
    domain = "data_analysis"
    noun = "counter"
    summary = "sum up a queue system's log by day, by the counter's notion of a day and of a visit"
    subject = "how the daily times of {place} are counted"
    rules = rule_types(CONVENTIONS)

    def shape(self, site: Site, kind: str, draws: Draws) -> Shape:
        """The layout and fields of a counter's logs."""
        return draw_shape(draws, VOCABULARIES[site.split])

    def scene(self, site: Site, shape: Shape, draws: Draws) -> Log:
        """A log of a few days, with a note on its fields."""
        visits = draw_visits(shape, draws)
        file = f"{site.slug(self.noun)}.{LAYOUTS[shape.layout]}"
        phrases = (site.phrase(draws, each) for each in (REQUESTS, TERMS, DELIVERIES))
        names = vars(shape)
        request = " ".join(phrases).format(place=site.called(self.noun), file=file, **names)
        return Log(
            request=sentence(request, file),
            files={
                file: render_log(shape, visits, draws),
                NOTE: VOCABULARIES[site.split].note.format(**names),
            },
            inputs=(file, NOTE),
            outputs=(ANSWER,),
            file=file,
            shape=shape,
            visits=tuple(visits),
        )

    async def judge(
        self, scene: Log, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Counts the visits as they were drawn, not as the workspace has them."""
        way = way_of(CONVENTIONS, rule, PLAIN)
        figures = (
            Table("days", scene.shape.days, way.days(scene.visits)),
            Number("visits", scene.shape.visits, way.visits(scene.visits)),
        )
        return await judge_figures(scene, workspace, figures)

    def moves(self, scene: Log, rule: Rule | None) -> tuple[Move, ...]:
        """One script."""
        shape = scene.shape
        slots = {"imports": "", "select": "", "change": "", "form": "%Y-%m-%d", **slots_of(CONVENTIONS, rule)}
        slots |= {"file": scene.file, "rows": READERS[shape.layout], "days": shape.days, "visits": shape.visits}
        slots |= {"time": shape.time, "event": shape.event, "done": shape.done, "secs": shape.secs}
        return (shell(write_script(SCRIPT, slots), "I sum it up with a short script."),)

    def looks(self, scene: Log) -> tuple[Move, ...]:
        """The files, and the top of each."""
        return look_at(scene)

    def howto(self, site: Site, shape: Shape, rule: Rule) -> str:
        """The rule, and the lines of Python that do it."""
        return told_with_code(CONVENTIONS, rule)


FAMILY = EventLogs()
