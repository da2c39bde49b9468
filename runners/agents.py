"""Describes and checks the programs that can work instead of the lab's own loop."""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio

from hermes_lab.agent.review import REVIEW_REQUEST
from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ToolError
from hermes_lab.harness.installed import Installed, find_installed, installed_by_make
from hermes_lab.harness.program import Program
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.protocols import Workspace
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.tasks.conversation import Conversation
from hermes_lab.types import Episode, Message, Task, ToolCall, Verdict

_FILE, _WRONG, _RIGHT = "answer.txt", "41", "42"
_SKILL = skill_format.parse(skill_format.render("answers", "how answers are written", f"Write {_WRONG} first."))
_LEARNT = "rejections"


class Step(NamedTuple):
    """One thing that was tried; `works` is None for one that the program does not do by design."""

    what: str
    works: bool | None
    detail: str = ""


Tell = Callable[[Step], None]
"""Is told each step of a check as soon as it is known."""


def describe(program: Program) -> dict[str, Any]:
    """A program: its name, one line, where it is on the PATH (`installed`) or where `make programs` has put it (`at`),
    each empty if it is not there, and what its settings mean."""
    fields = program.settings.model_fields
    return {
        "name": program.name,
        "summary": program.summary,
        "installed": shutil.which(program.executable) or "",
        "at": str(installed_by_make(program) or ""),
        "install": program.install,
        "settings": {name: " ".join((field.description or "").split()) for name, field in fields.items()},
    }


def check_program(name: str, at: str, more: Sequence[str] = (), tell: Tell = lambda _: None) -> list[Step]:
    """Runs a program on one small task. Raises `ConfigError` if it is not installed."""
    agent = [f"agent.program={name}", *([f"agent.at={at}"] if at else []), "skills.review_every=0"]
    config = load_config([*agent, *more])
    installed = find_installed(config.agent)
    assert installed is not None
    return anyio.run(_Check(config, installed, tell).run)


class _Check:
    """A check in progress: what the scripted model and the verifier of its one task have seen so far. Both judge."""

    name = "check"
    splits = ("train",)

    def __init__(self, config: RunConfig, installed: Installed, tell: Tell) -> None:
        self._config = config
        self._installed = installed
        self._tell = tell
        self._steps: list[Step] = []
        self._asked = False
        self._listed = False
        self._continued = False
        self._verdicts: list[bool] = []

    async def run(self) -> list[Step]:
        """Runs the task, and returns all steps."""
        program, installed = self._installed.program, self._installed
        await probe(self._config.sandbox)
        self._add("installed", True, f"{installed.version or 'version unknown'}, {installed.executable}")
        read = " Read the skill `answers` first." if program.skills else ""
        task = Task(id="check", suite="check", prompt=f"Write the answer to {_FILE}.{read}", attempts=2)
        context = RolloutContext(
            self._config,
            config_digest(self._config),
            self,
            ScriptedModel(self._reply),
            partial(open_sandbox, self._config.sandbox),
            program=installed,
        )
        library = Library([_SKILL]) if program.skills else Library()
        episode = await run_episode(context, RolloutSpec(task, "check", 0, 0, 0, 0, "always"), Knowledge(library))
        self._conclude(episode)
        return self._steps

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """There is only the check's own task."""
        del split, count, seed, world
        return []

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """Looks into the file."""
        del task, answer
        try:
            written = (await workspace.read(_FILE)).decode(errors="replace").strip()
        except ToolError:
            written = ""
        if attempt == 1:
            self._add("runs tools", written == _WRONG, f"wrote {_FILE}" if written else f"did not write {_FILE}")
        right = written == _RIGHT
        self._verdicts.append(right)
        if attempt == 2:
            self._submitted_again()
        return Verdict(float(right), right, feedback="" if right else f"Not {_WRONG}: write {_RIGHT}.")

    def _submitted_again(self) -> None:
        resumes, right = self._installed.program.resumes, self._verdicts[-1]
        if not resumes:
            self._add("submits again", right, "in a new conversation, by design" if right else "with a wrong answer")
        elif not self._continued:
            self._add("submits again", False, "started a new conversation")
        else:
            self._add("submits again", right, "in the same conversation" if right else "with a wrong answer")

    def _conclude(self, episode: Episode) -> None:
        """Adds the steps that only the record of the episode shows."""
        program = self._installed.program
        if episode.trajectory is None or episode.program is None:
            self._add("finishes" if self._asked else "asks the model", False, _message(episode))
            return
        if len(self._verdicts) < 2:
            self._add("submits again", False, f"ended before that: {episode.trajectory.stop_reason}")
        if not program.skills:
            for what in ("reads skills", "reviews its work", "writes skills"):
                self._add(what, None, "none by design")
            return
        loaded = "answers" in episode.skills.loaded
        how = "listed, and its text read" if loaded else "listed, but its text never reached the model"
        self._add("reads skills", loaded and self._listed, how if self._listed else _NOT_LISTED)
        self._add("reviews its work", episode.review is not None, "by itself" if program.learns else "asked by the lab")
        written = [*episode.skills.writes, *(episode.review.writes if episode.review else ())]
        names = ", ".join(f'"{write.name}"' for write in written)
        self._add("writes skills", [w.name for w in written] == [_LEARNT], f"wrote {names}" if names else "wrote none")

    def _add(self, what: str, works: bool | None, detail: str) -> None:
        self._steps.append(Step(what, works, detail))
        self._tell(self._steps[-1])

    def _reply(self, messages: Sequence[Message]) -> Message:
        """Reads the skill, writes the wrong answer, then the right one, and saves a skill in the review."""
        if not self._asked:
            self._asked = True
            self._add("asks the model", True, self._installed.program.dialect)
        # The learner of the calibration reads the index of skills in the same way.
        self._listed |= "answers" in Conversation.read(messages).skills
        requests = [n for n, message in enumerate(messages) if message.role == "user" and not message.results]
        done = sum(bool(message.results) for message in messages[requests[-1] :])
        script: list[tuple[str, dict[str, Any]]]
        if messages[requests[-1]].content == REVIEW_REQUEST:
            whole = {"name": _LEARNT, "description": "what follows a rejection", "content": f"Write {_RIGHT}."}
            script = [("skill_manage", {"action": "create", **whole})]
        elif len([n for n in requests if messages[n].content != REVIEW_REQUEST]) > 1:
            self._continued = True
            script = [("terminal", {"command": f"echo {_RIGHT} > {_FILE}"})]
        else:
            script = [("terminal", {"command": f"echo {_WRONG} > {_FILE}"})]
            if self._installed.program.skills:
                script.insert(0, ("skill_view", {"name": "answers"}))
        if done >= len(script):
            return Message(role="assistant", content="Done.")
        tool, arguments = script[done]
        return Message(role="assistant", tool_calls=(ToolCall(f"call_{len(messages)}", tool, arguments),))


_NOT_LISTED = "not listed in a form that scripted models read, such as the line `- NAME: DESCRIPTION` in its prompt"


def _message(episode: Episode) -> str:
    return episode.error.message if episode.error else ""
