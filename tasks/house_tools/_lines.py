"""What the families here share: a table of rows becomes lines of text, and a place's custom changes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_text
from hermes_lab.tasks.family import Criterion, Entity, H, Rule, RuleType, criterion, sentence
from hermes_lab.tasks.house_tool import HouseTool, ToolInstance, flag_rule, tool_text

LIMIT = 20_000
Literals = Mapping[str, Any]
R = TypeVar("R", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Custom(Generic[R]):
    """How a place may want its lines. `flags` and `paraphrases` are format strings over what `draw` gives, from the
    shape of the place; `lines` are the right ones."""

    flags: str
    paraphrases: tuple[str, ...]
    lines: Callable[[Sequence[R], Literals], list[str]]
    draw: Callable[[Draws, Any], Literals] = lambda draws, site_config: {}
    unseen: bool = False


def one_of(name: str, text: str) -> Callable[[Draws, Any], Literals]:
    """Draws a literal of that name from the words of a text."""
    return lambda draws, site_config: {name: draws.choice(text.split())}


def between(name: str, low: int, high: int) -> Callable[[Draws, Any], Literals]:
    """Draws a literal of that name, both ends included."""
    return lambda draws, site_config: {name: draws.integer(low, high)}


def rules_of(call: str, customs: Mapping[str, Custom[Any]]) -> dict[str, RuleType]:
    """The types of rules; `call` is tool and command."""
    return {
        name: flag_rule(call, custom.flags, custom.paraphrases, custom.draw, unseen=custom.unseen)
        for name, custom in customs.items()
    }


class Columns(NamedTuple):
    """What a family's rows are called in its file, and where its tool lies."""

    names: tuple[str, ...]
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Table(ToolInstance, Generic[R]):
    """The rows of one file."""

    rows: tuple[R, ...]


class LineTool(HouseTool[H, Table[R]], Generic[H, R]):
    """A family whose tool reads a CSV file and writes lines, which are judged as they are."""

    domain = "house_tools"
    customs: Mapping[str, Custom[R]]
    requests: ClassVar[Mapping[str, tuple[str, ...]]]
    """Requests by split, over `{place}`, `{file}` and `{command}`."""
    columns: ClassVar[Columns]

    def rows(self, site_config: H, draws: Draws) -> tuple[R, ...]:
        """The rows of one piece of work, on which every custom of the place makes a difference."""
        raise NotImplementedError

    def plain(self, rows: Sequence[R]) -> list[str]:
        """The lines where no custom holds."""
        raise NotImplementedError

    def right(self, instance: Table[R], rule: Rule | None) -> list[str]:
        """The lines where `rule` holds."""
        return self.customs[rule.type].lines(instance.rows, dict(rule.literals)) if rule else self.plain(instance.rows)

    def instance(self, entity: Entity, site_config: H, draws: Draws) -> Table[R]:
        """A request, the file and the tool."""
        file, rows = self.file_of(entity), self.rows(site_config, draws)
        words = {"place": entity.called(self.noun), "file": file, "command": self.command(file)}
        table: list[tuple[Any, ...]] = [self.columns.names, *rows]
        text = "".join(",".join(map(str, row)) + "\n" for row in table)
        return Table(
            request=sentence(entity.phrase(draws, self.requests).format(**words), file),
            files={self.tool: tool_text(self.columns.folder), file: text},
            inputs=(self.tool, file),
            outputs=(self.answer,),
            file=file,
            rows=rows,
        )

    async def judge(
        self, instance: Table[R], rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the lines by those that the harness makes itself, not with the tool."""
        text = await read_text(workspace, self.answer, LIMIT)
        found = [line.rstrip() for line in text.splitlines() if line.strip()] if text else []
        return (
            criterion("answer_present", bool(found), f"{self.answer} is missing, or empty"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion("correct", found == self.right(instance, rule), f"{self.answer} is not right", ruled=True),
        )
