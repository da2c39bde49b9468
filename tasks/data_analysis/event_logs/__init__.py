"""The family `event_logs`: a counter's log becomes seconds a day, by the counter's notion of a day and of a visit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_analysis._counting import Counting
from hermes_lab.tasks.data_analysis._figures import ANSWER, Number, Table, judge_figures
from hermes_lab.tasks.data_analysis.event_logs.log import (
    LAYOUTS,
    SiteConfig,
    Visit,
    draw_shape,
    draw_visits,
    render_log,
)
from hermes_lab.tasks.data_analysis.event_logs.rules import CONVENTIONS, PLAIN, Strategy
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Entity, Rule, TaskInstance

NOTE = "README.md"
READERS = {
    "json": "[json.loads(line) for line in open(file)]",
    "pairs": '[dict(pair.split("=", 1) for pair in line.split()) for line in open(file)]',
    "table": 'list(csv.DictReader(open(file), delimiter="|"))',
}


@dataclass(frozen=True, kw_only=True)
class Log(TaskInstance):
    """One log to sum up."""

    file: str
    site_config: SiteConfig
    visits: tuple[Visit, ...]


class EventLogs(Counting[SiteConfig, Log, Strategy]):
    """Every hour, length, return and word that a convention could be about is in every log."""

    thought = "I sum it up with a short script."

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Log:
        """A log of a few days, with a note on its fields."""
        visits = draw_visits(site_config, draws)
        file = f"{entity.slug(self.noun)}.{LAYOUTS[site_config.layout]}"
        names = vars(site_config)
        return Log(
            request=self.ask(entity, draws, file, file=file, **names),
            files={
                file: render_log(site_config, visits, draws),
                NOTE: self.words[entity.split].note.format(**names),
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
        way = self.strategy(rule)
        figures = (
            Table("days", instance.site_config.days, way.days(instance.visits)),
            Number("visits", instance.site_config.visits, way.visits(instance.visits)),
        )
        return await judge_figures(instance, workspace, figures)

    def slots(self, instance: Log) -> Mapping[str, str]:
        """The names of the fields, and how the layout is read."""
        names = {name: value for name, value in vars(instance.site_config).items() if isinstance(value, str)}
        rows = READERS[instance.site_config.layout]
        return {
            "imports": "",
            "select": "",
            "change": "",
            "form": "%Y-%m-%d",
            **names,
            "file": instance.file,
            "rows": rows,
        }


FAMILY = EventLogs(__file__, CONVENTIONS, PLAIN, draw_shape)
