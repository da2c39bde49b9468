"""One piece of a task: what a place asks for, how it is judged, and how the shipped policies do it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_lab.protocols import Workspace
from hermes_lab.skills.format import parse, render
from hermes_lab.tasks.evidence import Rooted
from hermes_lab.tasks.family import Action, Criterion, Rule, TaskInstance
from hermes_lab.tasks.worlds import Site
from hermes_lab.types import Skill


@dataclass(frozen=True)
class Subtask:
    """A scene at a place. `folder` is where it lies in the workspace: empty for a task of one piece."""

    site: Site
    instance: TaskInstance
    folder: str = ""
    candidates: tuple[Rule, ...] = ()
    """What may be believed of the place: the rules drawn for it before and after a drift, whether in force or not."""

    def path(self, path: str) -> str:
        """A path of the scene, in the workspace."""
        return f"{self.folder}/{path}" if self.folder else path

    @property
    def files(self) -> dict[str, str]:
        """The files of the scene, in the workspace."""
        return {self.path(path): text for path, text in self.instance.files.items()}

    @property
    def setup(self) -> tuple[str, ...]:
        """Its setup commands, in the workspace."""
        return tuple(f"cd {self.folder} && {{ {c}\n}}" if self.folder else c for c in self.instance.setup)

    async def judge(self, workspace: Workspace, answer: str | None) -> Sequence[Criterion]:
        """Judges it by the rule in force."""
        inside = Rooted(workspace, self.folder) if self.folder else workspace
        return await self.site.family.judge(self.instance, self.site.rule, inside, answer)

    def solve(self, rule: Rule | None) -> tuple[Action, ...]:
        """The tool calls of someone who believes that `rule` holds here, or that nothing special does."""
        return tuple(self.inside(action) for action in self.site.family.solve(self.instance, rule))

    def explore(self) -> tuple[Action, ...]:
        """How somebody looks around first."""
        return tuple(self.inside(action) for action in self.site.family.explore(self.instance))

    def inside(self, action: Action) -> Action:
        """A move in the folder of the piece."""
        if not self.folder:
            return action
        arguments = dict(action.arguments)
        if action.tool == "terminal":
            arguments["workdir"] = self.folder
        elif "path" in arguments:
            arguments["path"] = self.path(arguments["path"])
        return Action(action.tool, arguments, action.thought)


def known_skill(site: Site, rule: Rule) -> Skill:
    """The skill that tells a place's rule, as someone would write it who was told."""
    description = site.family.subject.format(place=site.called)
    body = site.family.skill_body(site.entity, site.site_config, rule)
    return parse(render(site.skill_name, f"{description[0].upper()}{description[1:]}", body))


def subtasks_of(truth: Mapping[str, Any]) -> tuple[Subtask, ...]:
    """The pieces of a task, from `Task.truth`; none for a task of another kind of suite."""
    subtasks: tuple[Subtask, ...] = truth.get("pieces", ())
    return subtasks
