"""Families whose tasks need one call of a program in the workspace; a site's rule requires an extra flag.

The request states everything else, so the tasks are easy once the rule is known. They measure whether skills are
written, found and followed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.family import Action, Entity, H, Rule, RuleType, TaskInstance, sentence, shell
from hermes_lab.tasks.rules import Convention


@dataclass(frozen=True, kw_only=True)
class ToolInstance(TaskInstance):
    """A task instance with the file to run the tool on."""

    file: str


T = TypeVar("T", bound=ToolInstance)


def _flag_rules(call: str, conventions: Mapping[str, Convention[Any, Any]]) -> Mapping[str, RuleType]:
    """Rule types that require flags; `call` is the tool and its command, such as `./ledger sum`."""
    return {
        name: RuleType(each.texts.paraphrases, f"run {call} with {each.texts.flags}", each.draw, each.texts.unseen)
        for name, each in conventions.items()
    }


class HouseTool(DataFamily[H, T], Generic[H, T]):
    """A family with a tool in the workspace, which has the family's name. The tool has one command, `verb`, and writes
    its result to the file `answer`.

    All of these families have the same `subject` in `words.yaml`, so that a model that reviews work with an unfamiliar
    tool can only rely on the commands.
    """

    def __init__(self, module_file: str, conventions: Mapping[str, Convention[H, Any]], verb: str, answer: str) -> None:
        self.tool = Path(module_file).parent.name
        super().__init__(module_file, _flag_rules(f"./{self.tool} {verb}", conventions))
        self.conventions, self.verb, self.answer = conventions, verb, answer

    def file_of(self, entity: Entity) -> str:
        """The name of the files that a site sends."""
        raise NotImplementedError

    def command(self, file: str, rule: Rule | None = None) -> str:
        """The command under `rule`; if None, the naive command."""
        flags = self.conventions[rule.type].texts.flags.format(**dict(rule.literals)) if rule else ""
        return f"./{self.tool} {self.verb} {file} --out {self.answer} {flags}".rstrip()

    def solve(self, instance: T, rule: Rule | None) -> tuple[Action, ...]:
        """One call of the tool."""
        return (shell(self.command(instance.file, rule), f"I run ./{self.tool}."),)

    def explore(self, instance: T) -> tuple[Action, ...]:
        """Shows the top of the file and the tool's help."""
        return (
            shell(f"head -n 8 {instance.file}", "First I look at the file."),
            shell(f"./{self.tool} {self.verb} --help", "Then I check the options of the tool."),
        )

    def skill_body(self, entity: Entity, site_config: H, rule: Rule) -> str:
        """The instruction and the complete command, both of which the conversation contains when a review writes the
        skill."""
        return f"{sentence(rule.instruction)}:\n\n{self.command(self.file_of(entity), rule)}"
