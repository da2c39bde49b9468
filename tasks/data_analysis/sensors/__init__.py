"""The family `sensors`: a logger's export becomes a few statistics, by what the plant knows about its logger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_analysis._counting import Counting
from hermes_lab.tasks.data_analysis._figures import ANSWER, CENT, Number, Table, Text, judge_figures
from hermes_lab.tasks.data_analysis.sensors.export import Reading, SiteConfig, draw_readings, draw_shape, render_export
from hermes_lab.tasks.data_analysis.sensors.rules import CONVENTIONS, PLAIN, Strategy
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Entity, Rule, TaskInstance

NOTE = "README.md"
TAB = "\t"


@dataclass(frozen=True, kw_only=True)
class Recording(TaskInstance):
    """One export to evaluate."""

    file: str
    site_config: SiteConfig
    readings: tuple[Reading, ...]


class Sensors(Counting[SiteConfig, Recording, Strategy]):
    """Every release, status, value and hour that a convention could be about is in every export."""

    thought = "I evaluate it with a short script."

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Recording:
        """An export of 36 to 64 readings, with a note on its columns."""
        words = self.words[entity.split]
        readings = draw_readings(site_config, draws)
        file = f"{entity.slug(self.noun)}.{'tsv' if site_config.dialect[0] == TAB else 'csv'}"
        return Recording(
            request=self.ask(entity, draws, file, file=file, **vars(site_config)),
            files={
                file: render_export(site_config, words, readings, draws),
                NOTE: words.note.format(**vars(site_config)),
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
        right = self.strategy(rule).statistics(instance.readings, site_config.form)
        figures = (
            Table("means", site_config.means, right.means, CENT),
            Number("count", site_config.count, right.count),
            Text("peak", site_config.peak, right.peaks),
        )
        return await judge_figures(instance, workspace, figures)

    def slots(self, instance: Recording) -> Mapping[str, str]:
        """The names of the columns, and the obvious lines."""
        names = {name: value for name, value in vars(instance.site_config).items() if isinstance(value, str)}
        obvious = {"select": "", "weight": "1", "change": "", "code": f'row["{names["probe"]}"]', "at": ""}
        mark = instance.site_config.dialect[0].replace("\t", "\\t")
        return {**names, "file": instance.file, "mark": mark, **obvious}


FAMILY = Sensors(__file__, CONVENTIONS, PLAIN, draw_shape)
