"""The family `ledger`: a desk's export is totalled with a tool, following the desk's rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_analysis.ledger.rules import CONVENTIONS, Row, SiteConfig, plain_total
from hermes_lab.tasks.data_analysis.ledger.table import draw_shape, draw_table, render_table
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, is_number, read_json
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell
from hermes_lab.tasks.house_tool import HouseTool, ToolInstance
from hermes_lab.tasks.words import load_list, read_file

ANSWER = "answer.json"
TOLERANCE = 0.005
MONTHS = load_list(__file__, "months")


@dataclass(frozen=True, kw_only=True)
class Export(ToolInstance):
    """One export to total."""

    rows: tuple[Row, ...]


class Ledger(HouseTool[SiteConfig, Export]):
    """Every word, number and repetition that a convention could be about is in every export."""

    def __init__(self) -> None:
        super().__init__(__file__, CONVENTIONS, "sum", ANSWER)

    def file_of(self, entity: Entity) -> str:
        """A desk's export."""
        return f"{entity.slug('export')}.csv"

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The columns of a desk's exports."""
        return draw_shape(draws, self.words[entity.split])

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Export:
        """An export of 20 to 60 rows."""
        rows = draw_table(site_config, draws)
        file = self.file_of(entity)
        date = f"{draws.integer(1, 28)} {draws.choice(MONTHS)}"
        return Export(
            request=self.ask(entity, draws, file, date=date, file=file),
            files={self.tool: read_file(__file__, "tool.py"), file: render_table(rows)},
            inputs=(self.tool, file),
            outputs=(ANSWER,),
            file=file,
            rows=tuple(rows),
        )

    async def judge(
        self, instance: Export, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges `answer.json` by a total that the harness computes itself, not with the tool."""
        found = await read_json(workspace, ANSWER, limit=10_000)
        total: Any = found.get("total") if isinstance(found, dict) else None
        right = _total(instance, rule)
        return (
            criterion("answer_present", found is not None, f"{ANSWER} is missing or not valid JSON"),
            criterion("schema", is_number(total), f"{ANSWER} has no number `total`"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion(
                "correct",
                is_number(total) and abs(total - right) <= TOLERANCE,
                "the total is wrong",
                ruled=True,
            ),
        )

    def explore(self, instance: Export) -> tuple[Action, ...]:
        """The top of the export, and what the tool can do."""
        return (
            shell(f"head -n 8 {instance.file}", "First I look at the export."),
            shell(f"./{self.tool} sum --help", "Then I check the options of the tool."),
        )


def _total(instance: Export, rule: Rule | None) -> float:
    if rule is None:
        return float(plain_total(instance.rows))
    return float(CONVENTIONS[rule.type].apply(instance.rows, dict(rule.literals)))


FAMILY = Ledger()
