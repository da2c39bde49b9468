"""Describes and checks the programs that can work instead of the lab's own loop."""

import shutil
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config.schema import RunConfig, config_digest
from hermes_lab.config.sources import load_config
from hermes_lab.harness.installed import Installed, find_installed
from hermes_lab.harness.program import Program
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Workspace
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.types import Episode, Message, Task, ToolCall, Verdict

_FILE, _WRONG, _RIGHT = "answer.txt", "41", "42"
_SKILL = skill_format.parse(skill_format.render("answers", "how answers are written", f"Write {_WRONG} first."))
_LEARNT = "rejections"


class Step(NamedTuple):
    """One thing that was tried."""

    what: str
    works: bool
    detail: str = ""


def describe(program: Program) -> dict[str, Any]:
    """A program: its name, one line, where it is on the PATH (empty: nowhere), and what its settings mean."""
    fields = program.settings.model_fields
    return {
        "name": program.name,
        "summary": program.summary,
        "installed": shutil.which(program.executable) or "",
        "install": program.install,
        "settings": {name: " ".join((field.description or "").split()) for name, field in fields.items()},
    }


def check_program(name: str, at: str, more: Sequence[str] = ()) -> list[Step]:
    """Runs a program on one small task. Raises `ConfigError` if it is not installed."""
    agent = [f"agent.program={name}", *([f"agent.at={at}"] if at else []), "skills.review_every=0"]
    config = load_config([*agent, *more])
    installed = find_installed(config.agent)
    assert installed is not None
    return anyio.run(_check, config, installed)


async def _check(config: RunConfig, installed: Installed) -> list[Step]:
    await probe(config.sandbox)
    library = Library([_SKILL]) if installed.program.skills else Library()
    task = Task(
        id="check", suite="check", prompt=f"Write the answer to {_FILE}. Read the skill `answers` first.", attempts=2
    )
    policy = partial(_policy, reads_skills=bool(installed.program.skills))
    context = RolloutContext(
        config,
        config_digest(config),
        _CheckSuite(),
        ScriptedModel(policy),
        partial(open_sandbox, config.sandbox),
        program=installed,
    )
    spec = RolloutSpec(task, "check", 0, 0, 0, 0, "always")
    return steps_of(installed, await run_episode(context, spec, Knowledge(library)))


def steps_of(installed: Installed, episode: Episode) -> list[Step]:
    """What an episode of the check shows."""
    program = installed.program
    version = f"{installed.version or 'version unknown'}, {installed.executable}"
    if episode.trajectory is None or episode.program is None:
        error = episode.error.message if episode.error else ""
        return [Step("installed", True, version), Step("asks the model", False, error)]
    trajectory, loaded = episode.trajectory, episode.skills.loaded
    judged = [verdict.success for verdict in episode.verdicts]
    written = [*episode.skills.writes, *(episode.review.writes if episode.review else ())]
    steps = [
        Step("installed", True, version),
        Step("asks the model", True, f"{episode.program.requests} requests ({program.dialect})"),
        Step("runs tools", bool(judged), f"{len(trajectory.steps)} replies, ended: {trajectory.stop_reason}"),
        Step("submits again", judged == [False, True], "in the same conversation" if program.resumes else "anew"),
    ]
    if not program.skills:
        return steps
    reviewed = "by itself" if program.learns else "asked by the lab"
    return [
        *steps,
        Step("reads skills", "answers" in loaded, f"listed {len(episode.skills.listed)}, loaded {len(loaded)}"),
        Step("reviews its work", episode.review is not None, reviewed),
        Step("writes skills", [w.name for w in written] == [_LEARNT], ", ".join(w.name for w in written) or "none"),
    ]


class _CheckSuite:
    """One task, whose first answer is wrong."""

    name = "check"
    splits = ("train",)

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """There is only the check's own task."""
        del split, count, seed, world
        return []

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """Looks into the file."""
        del task, answer, attempt
        right = (await workspace.read(_FILE)).decode().strip() == _RIGHT
        return Verdict(float(right), right, feedback="" if right else f"Not {_WRONG}: write {_RIGHT}.")


def _policy(messages: Sequence[Message], *, reads_skills: bool) -> Message:
    """Reads the skill, writes the wrong answer, then the right one, and saves a skill in the review."""
    requests = [n for n, message in enumerate(messages) if message.role == "user" and not message.results]
    done = sum(bool(message.results) for message in messages[requests[-1] :])
    script: list[tuple[str, dict[str, Any]]]
    if messages[requests[-1]].content == REVIEW_REQUEST:
        whole = {"name": _LEARNT, "description": "what follows a rejection", "content": f"Write {_RIGHT}."}
        script = [("skill_manage", {"action": "create", **whole})]
    elif len([n for n in requests if messages[n].content != REVIEW_REQUEST]) > 1:
        script = [("terminal", {"command": f"echo {_RIGHT} > {_FILE}"})]
    else:
        script = [("terminal", {"command": f"echo {_WRONG} > {_FILE}"})]
        if reads_skills:
            script.insert(0, ("skill_view", {"name": "answers"}))
    if done >= len(script):
        return Message(role="assistant", content="Done.")
    tool, arguments = script[done]
    return Message(role="assistant", tool_calls=(ToolCall(f"call_{len(messages)}", tool, arguments),))
