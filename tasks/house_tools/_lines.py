"""Base class of the families in this domain: a tool writes a table as lines of text, and a site's rule changes them.

A family is a folder with `words.yaml`, `rules.yaml` and `tool.yaml`. The program in the workspace is generated from the
last two. The verifier computes the lines with separate Python code; a test compares the two.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Generic, TypeVar

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_text
from hermes_lab.tasks.family import Criterion, Entity, Rule, criterion
from hermes_lab.tasks.house_tool import HouseTool, ToolInstance
from hermes_lab.tasks.rules import Behavior, Convention, Literals, RuleTexts
from hermes_lab.tasks.words import load_phrases, load_words, read_file

LIMIT = 20_000
R = TypeVar("R", bound=tuple[Any, ...])
Line = Callable[[R], str]
MakeLines = Callable[[Sequence[R], Literals], list[str]]


@dataclass(frozen=True)
class SiteConfig:
    """The kinds of rows of a site. Every file contains all of them."""

    kinds: tuple[str, ...]


LineBehavior = Behavior[SiteConfig, MakeLines[R]]
LineConvention = Convention[SiteConfig, MakeLines[R]]


class Lines(Generic[R]):
    """Creates rule behaviors, given the function that formats a row if no rule holds."""

    def __init__(self, line: Line[R]) -> None:
        self._line = line

    def plain(self, rows: Iterable[R]) -> list[str]:
        """The lines without a rule."""
        return [self._line(row) for row in rows]

    def those(self, which: Callable[[R, Literals], bool]) -> LineBehavior[R]:
        """Keeps only some rows."""
        return Behavior(lambda rows, rule: self.plain(row for row in rows if which(row, rule)))

    def by(self, key: Callable[[R, Literals], Any]) -> LineBehavior[R]:
        """Sorts the rows."""
        return Behavior(lambda rows, rule: self.plain(sorted(rows, key=lambda row: key(row, rule))))

    def each(self, line: Callable[[R, Literals], str]) -> LineBehavior[R]:
        """Formats each row differently."""
        return Behavior(lambda rows, rule: [line(row, rule) for row in rows])

    def all(self, change: Callable[[list[str], Literals], list[str]]) -> LineBehavior[R]:
        """Changes the plain lines as a whole."""
        return Behavior(lambda rows, rule: change(self.plain(rows), rule))


def twice_each(draws: Draws, values: Sequence[str], count: int) -> list[str]:
    """`count` draws from `values`, with at least two of each."""
    return draws.shuffled([*values, *values, *(draws.choice(values) for _ in range(count - 2 * len(values)))])


def spread(draws: Draws, count: int, some: Sequence[int], low: int, high: int) -> list[int]:
    """`count` integers: `some`, and others from [low, high]."""
    return draws.shuffled([*some, *(draws.integer(low, high) for _ in range(count - len(some)))])


def unsorted(*columns: Sequence[Any]) -> bool:
    """Whether none of the columns is sorted, so that sorting by any of them makes a difference."""
    return all(list(column) != sorted(column) for column in columns)


@dataclass(frozen=True, kw_only=True)
class Table(ToolInstance, Generic[R]):
    """The rows of one file."""

    rows: tuple[R, ...]


@dataclass(frozen=True)
class Tool:
    """The content of `tool.yaml`: the parts of the program, and two calls of it."""

    about: str
    verb: str
    answer: str
    items: str
    """The noun for the rows, used in the file name."""
    does: str
    file: str
    out: str
    rows: str
    """The variable that holds the rows."""
    function: str
    made: str
    body: str
    """The code that computes `lines` from the rows, given the options `args`."""


class LineTool(HouseTool[SiteConfig, Table[R]], Generic[R]):
    """A family whose tool reads a CSV file with `columns` and writes lines. The verifier compares the exact lines.

    `words.yaml` also has `kinds`, by split. The placeholders of prompts are `{place}`, `{file}` and `{command}`.
    """

    conventions: Mapping[str, LineConvention[R]]

    def __init__(
        self,
        module_file: str,
        columns: tuple[str, ...],
        lines: Lines[R],
        conventions: Mapping[str, LineConvention[R]],
    ) -> None:
        tool = load_words(module_file, Tool, name="tool")
        super().__init__(module_file, conventions, tool.verb, tool.answer)
        self._columns, self._lines, self._items = columns, lines, tool.items
        self._kinds = load_phrases(module_file, "kinds")
        self.tool_text = render_tool(self.tool, tool, conventions)
        """The program that is in every workspace."""

    def draw_rows(self, kinds: Sequence[str], draws: Draws) -> tuple[R, ...] | None:
        """Draws the rows of one file. Every rule of the site must change the result; None to draw again."""
        raise NotImplementedError

    def file_of(self, entity: Entity) -> str:
        """The name of the files that a site sends."""
        return f"{entity.slug(self._items)}.csv"

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """Draws three kinds of rows."""
        return SiteConfig(tuple(draws.sample(self._kinds[entity.split], 3)))

    def right(self, instance: Table[R], rule: Rule | None) -> list[str]:
        """The right lines under `rule`."""
        if rule is None:
            return self._lines.plain(instance.rows)
        return self.conventions[rule.type].apply(instance.rows, dict(rule.literals))

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Table[R]:
        """Draws a request and its file, and adds the tool."""
        file, rows = self.file_of(entity), None
        while rows is None:
            rows = self.draw_rows(site_config.kinds, draws)
        table: list[tuple[Any, ...]] = [self._columns, *rows]
        text = "".join(",".join(map(str, row)) + "\n" for row in table)
        return Table(
            request=self.ask(entity, draws, file, file=file, command=self.command(file)),
            files={self.tool: self.tool_text, file: text},
            inputs=(self.tool, file),
            outputs=(self.answer,),
            file=file,
            rows=rows,
        )

    async def judge(
        self, instance: Table[R], rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Compares the lines with those that the verifier computes itself, without the tool."""
        text = await read_text(workspace, self.answer, LIMIT)
        found = [line.rstrip() for line in text.splitlines() if line.strip()] if text else []
        return (
            criterion("answer_present", bool(found), f"{self.answer} is missing or empty"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion("correct", found == self.right(instance, rule), f"{self.answer} is wrong", ruled=True),
        )


def render_tool(name: str, tool: Tool, conventions: Mapping[str, LineConvention[Any]]) -> str:
    """The program of a family: the shared `tool.txt`, filled with the parts of `tool.yaml` and an option per rule."""
    slots = {"tool": name, **vars(tool)}
    slots["body"] = indent(tool.body, "    ").rstrip()
    slots["options"] = "".join(_option(each.texts) for each in conventions.values())
    text = read_file(__file__, "tool.txt")
    for slot, value in slots.items():
        text = text.replace(f"<{slot}>", value)
    return text


def _option(texts: RuleTexts) -> str:
    flag = texts.flags.split()[0]
    arguments = {name: value if name == "type" else json.dumps(value) for name, value in texts.option.items()}
    return f'    add("{flag}", {", ".join(f"{name}={value}" for name, value in arguments.items())})\n'
