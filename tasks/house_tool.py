"""Families whose work is one call of a program of the house, of which a place's rule asks another flag.

Everything else is in the request, so such a family asks little of a model but to know the rule: what it measures is
whether skills are written, found and followed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, Family, H, Rule, RuleType, TaskInstance, sentence, shell


@dataclass(frozen=True, kw_only=True)
class ToolInstance(TaskInstance):
    """A file that the tool is run on."""

    file: str


T = TypeVar("T", bound=ToolInstance)


def flag_rule(
    call: str,
    flags: str,
    paraphrases: tuple[str, ...],
    draw: Callable[[Draws, Any], Mapping[str, Any]],
    *,
    unseen: bool = False,
) -> RuleType:
    """A type of rule that asks for these flags; `call` is tool and command: `./ledger sum`."""
    return RuleType(paraphrases=paraphrases, instruction=f"run {call} with {flags}", draw=draw, unseen=unseen)


class HouseTool(Family[H, T], Generic[H, T]):
    """The tool lies in the workspace as `./tool`, with one command, `verb`; `answer` is where its result goes."""

    # The same for all of them: a model that reviews work with a tool that it never saw has to go on copying alone.
    subject = "what to run for {place}"
    tool: str
    verb: str
    answer: str
    flags: Mapping[str, str]
    """By type of rule what the tool is called with: a format string over the rule's literals."""

    def file_of(self, entity: Entity) -> str:
        """The name of every file that a place sends."""
        raise NotImplementedError

    def command(self, file: str, rule: Rule | None = None) -> str:
        """The command where `rule` holds; without one it is the obvious, naive one."""
        flags = self.flags[rule.type].format(**dict(rule.literals)) if rule else ""
        return f"./{self.tool} {self.verb} {file} --out {self.answer} {flags}".rstrip()

    def solve(self, instance: T, rule: Rule | None) -> tuple[Action, ...]:
        """One call of the tool."""
        return (shell(self.command(instance.file, rule), f"I run ./{self.tool}."),)

    def explore(self, instance: T) -> tuple[Action, ...]:
        """The top of the file, and what the tool can do."""
        return (
            shell(f"head -n 8 {instance.file}", "First a look at the file."),
            shell(f"./{self.tool} {self.verb} --help", "And at what the tool can do."),
        )

    def skill_body(self, entity: Entity, site_config: H, rule: Rule) -> str:
        """What to do, and the whole command: both are in the conversation that a review looks back on."""
        return f"{sentence(rule.instruction)}:\n\n{self.command(self.file_of(entity), rule)}"


@cache
def tool_text(folder: Path) -> str:
    """The tool of a family's folder, as it lies in every workspace."""
    return (folder / "tool.py").read_text()
