"""Families whose work is one call of a program in the workspace: a site's rule asks for another flag.

Everything else is in the request, so such a family asks little of a model but to know the rule. What it measures is
whether skills are written, found and followed.
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
    """A file that the tool is run on."""

    file: str


T = TypeVar("T", bound=ToolInstance)


def _flag_rules(call: str, conventions: Mapping[str, Convention[Any, Any]]) -> Mapping[str, RuleType]:
    """The types of rules that ask for flags; `call` is tool and command: `./ledger sum`."""
    return {
        name: RuleType(each.texts.paraphrases, f"run {call} with {each.texts.flags}", each.draw, each.texts.unseen)
        for name, each in conventions.items()
    }


class HouseTool(DataFamily[H, T], Generic[H, T]):
    """The tool lies in the workspace under the family's name, with one command, `verb`; its result goes to the file
    `answer`.

    The `subject` in `words.yaml` is the same for all of them: a model that reviews work with an unknown tool must go by
    the commands alone.
    """

    def __init__(self, module_file: str, conventions: Mapping[str, Convention[H, Any]], verb: str, answer: str) -> None:
        self.tool = Path(module_file).parent.name
        super().__init__(module_file, _flag_rules(f"./{self.tool} {verb}", conventions))
        self.conventions, self.verb, self.answer = conventions, verb, answer

    def file_of(self, entity: Entity) -> str:
        """The name of every file that a site sends."""
        raise NotImplementedError

    def command(self, file: str, rule: Rule | None = None) -> str:
        """The command where `rule` holds; without one the obvious, naive one."""
        flags = self.conventions[rule.type].texts.flags.format(**dict(rule.literals)) if rule else ""
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
