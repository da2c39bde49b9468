"""The family `event_logs`: a counter's log becomes seconds a day, by the counter's notion of a day and of a visit."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_analysis._conventions import look_at, told_with_code, write_script
from hermes_lab.tasks.data_analysis._figures import ANSWER, Number, Table, judge_figures
from hermes_lab.tasks.data_analysis.event_logs.log import (
    LAYOUTS,
    SiteConfig,
    Visit,
    draw_shape,
    draw_visits,
    render_log,
)
from hermes_lab.tasks.data_analysis.event_logs.rules import CONVENTIONS, PLAIN
from hermes_lab.tasks.data_analysis.event_logs.words import DELIVERIES, REQUESTS, TERMS, VOCABULARIES
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Criterion, Entity, Family, Rule, TaskInstance, sentence, shell
from hermes_lab.tasks.rules import rule_types, slots_of, strategy_of

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
class Log(TaskInstance):
    """One log to sum up."""

    file: str
    site_config: SiteConfig
    visits: tuple[Visit, ...]


class EventLogs(Family[SiteConfig, Log]):
    """Every hour, length, return and word that a convention could be about is in every log."""

    name = "event_logs"
    domain = "data_analysis"
    noun = "counter"
    summary = "sum up a queue system's log by day, by the counter's notion of a day and of a visit"
    subject = "how the daily times of {place} are counted"
    rules = rule_types(CONVENTIONS)

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The layout and fields of a counter's logs."""
        return draw_shape(draws, VOCABULARIES[entity.split])

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Log:
        """A log of a few days, with a note on its fields."""
        visits = draw_visits(site_config, draws)
        file = f"{entity.slug(self.noun)}.{LAYOUTS[site_config.layout]}"
        phrases = (entity.phrase(draws, each) for each in (REQUESTS, TERMS, DELIVERIES))
        names = vars(site_config)
        request = " ".join(phrases).format(place=entity.called(self.noun), file=file, **names)
        return Log(
            request=sentence(request, file),
            files={
                file: render_log(site_config, visits, draws),
                NOTE: VOCABULARIES[entity.split].note.format(**names),
            },
            inputs=(file, NOTE),
            outputs=(ANSWER,),
            file=file,
            site_config=site_config,
            visits=tuple(visits),
        )

    async def judge(
        self, instance: Log, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Counts the visits as they were drawn, not as the workspace has them."""
        way = strategy_of(CONVENTIONS, rule, PLAIN)
        figures = (
            Table("days", instance.site_config.days, way.days(instance.visits)),
            Number("visits", instance.site_config.visits, way.visits(instance.visits)),
        )
        return await judge_figures(instance, workspace, figures)

    def solve(self, instance: Log, rule: Rule | None) -> tuple[Action, ...]:
        """One script."""
        site_config = instance.site_config
        slots = {"imports": "", "select": "", "change": "", "form": "%Y-%m-%d", **slots_of(CONVENTIONS, rule)}
        slots |= {
            "file": instance.file,
            "rows": READERS[site_config.layout],
            "days": site_config.days,
            "visits": site_config.visits,
        }
        slots |= {
            "time": site_config.time,
            "event": site_config.event,
            "done": site_config.done,
            "secs": site_config.secs,
        }
        return (shell(write_script(SCRIPT, slots), "I sum it up with a short script."),)

    def explore(self, instance: Log) -> tuple[Action, ...]:
        """The files, and the top of each."""
        return look_at(instance)

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The rule, and the lines of Python that do it."""
        return told_with_code(CONVENTIONS, rule)


FAMILY = EventLogs()
