"""Subtasks: what a site asks for, how the verifier judges it, and how scripted policies solve it."""

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
    """A task instance at a site. `folder` is its folder in the workspace; "" for a task with one subtask."""

    site: Site
    instance: TaskInstance
    folder: str = ""
    candidates: tuple[Rule, ...] = ()
    """The rules that skills may state about the site: those drawn before and after a drift, in force or not."""

    def path(self, path: str) -> str:
        """The workspace path of a path of the instance."""
        return f"{self.folder}/{path}" if self.folder else path

    @property
    def files(self) -> dict[str, str]:
        """The files of the instance by workspace path."""
        return {self.path(path): text for path, text in self.instance.files.items()}

    @property
    def setup(self) -> tuple[str, ...]:
        """The setup commands, to run at the root of the workspace."""
        return tuple(f"cd {self.folder} && {{ {c}\n}}" if self.folder else c for c in self.instance.setup)

    async def judge(self, workspace: Workspace, answer: str | None) -> Sequence[Criterion]:
        """Judges the workspace by the rule in force."""
        inside = Rooted(workspace, self.folder) if self.folder else workspace
        return await self.site.family.judge(self.instance, self.site.rule, inside, answer)

    def solve(self, rule: Rule | None) -> tuple[Action, ...]:
        """The tool calls that solve the subtask under `rule`; if None, the naive solution."""
        return tuple(self.inside(action) for action in self.site.family.solve(self.instance, rule))

    def explore(self) -> tuple[Action, ...]:
        """Read-only tool calls that explore the subtask."""
        return tuple(self.inside(action) for action in self.site.family.explore(self.instance))

    def inside(self, action: Action) -> Action:
        """The action, moved into the subtask's folder."""
        if not self.folder:
            return action
        arguments = dict(action.arguments)
        if action.tool == "terminal":
            arguments["workdir"] = self.folder
        elif "path" in arguments:
            arguments["path"] = self.path(arguments["path"])
        return Action(action.tool, arguments, action.thought)


def known_skill(site: Site, rule: Rule) -> Skill:
    """A skill that states `rule` for a site, as an agent could write it after a rejection."""
    description = site.family.subject.format(place=site.called)
    body = site.family.skill_body(site.entity, site.site_config, rule)
    return parse(render(site.skill_name, f"{description[0].upper()}{description[1:]}", body))


def subtasks_of(truth: Mapping[str, Any]) -> tuple[Subtask, ...]:
    """The subtasks in `Task.truth`; empty for tasks of other kinds of suites."""
    subtasks: tuple[Subtask, ...] = truth.get("pieces", ())
    return subtasks
