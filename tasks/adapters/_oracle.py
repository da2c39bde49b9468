"""Runs the packaged solution of a task through the real agent, as a scripted model.

hermes-lab run -c suite.name=bfcl -c model.provider=scripted -c model.name=hermes_lab.tasks.adapters._oracle:oracle
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import Policy, ScriptedModel, TaskAwarePolicy
from hermes_lab.protocols import Sandbox, Suite
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.skills.library import Library
from hermes_lab.tasks.family import Action
from hermes_lab.transcript import CONCLUDE
from hermes_lab.types import Episode, Message, Task, ToolCall, ToolResult


class Part(NamedTuple):
    """The part of a solution between two user messages: tool calls, one per reply, then an answer."""

    calls: tuple[Action, ...]
    answer: str = "Done."


Script = Callable[[Task], tuple[Part, ...]]
"""An adapter's `script` function: returns the packaged solution of a task, or generates it."""


def oracle() -> TaskAwarePolicy:
    """`model.name: hermes_lab.tasks.adapters._oracle:oracle`. Follows the adapter's script; answers at once if that is
    empty."""
    return TaskAwarePolicy(_policy)


def _policy(task: Task) -> Policy:
    script: Script = importlib.import_module(f"hermes_lab.tasks.adapters.{task.suite}").script
    return partial(_next, script(task))


def _next(parts: tuple[Part, ...], messages: Sequence[Message]) -> Message:
    """The next message. The conversation so far determines the position in the script."""
    said = [n for n, m in enumerate(messages) if m.role == "user" and not m.results and m.content != CONCLUDE]
    replies = sum(message.role == "assistant" for message in messages[said[-1] :])
    part = parts[len(said) - 1] if len(said) <= len(parts) else Part(())
    if replies < len(part.calls):
        action = part.calls[replies]
        call = ToolCall(f"call_{len(messages)}", action.tool, dict(action.arguments))
        return Message(role="assistant", content="", tool_calls=(call,))
    return Message(role="assistant", content=part.answer)


def flaw(task: Task) -> str:
    """Why the package has no valid solution for a task, or ""."""
    tell: Callable[[Task], str] = getattr(
        importlib.import_module(f"hermes_lab.tasks.adapters.{task.suite}"), "flaw", lambda _: ""
    )
    return tell(task)


@dataclass(frozen=True)
class Proof:
    """The results of packaged solutions, one row per task."""

    suite: str
    rows: tuple[tuple[Task, Episode], ...]

    @property
    def total(self) -> int:
        """The number of tasks."""
        return len(self.rows)

    @property
    def solved(self) -> int:
        """The number of tasks whose solutions the suite accepts."""
        return sum(bool(episode.success) for _, episode in self.rows)

    @property
    def calls(self) -> int:
        """The number of successful tool calls."""
        return sum(result.ok for _, episode in self.rows for result in _results(episode))

    @property
    def failures(self) -> tuple[str, ...]:
        """Tasks whose packaged solution is rejected, with the reason."""
        return tuple(f"{t.id}: {_why(episode)}" for t, episode in self.rows if not episode.success and not flaw(t))

    @property
    def flaws(self) -> tuple[str, ...]:
        """Rejected tasks for which the package has no valid solution, with the reason."""
        return tuple(f"{t.id}: {flaw(t)}" for t, episode in self.rows if not episode.success and flaw(t))

    def sentence(self) -> str:
        """A summary in one line."""
        calls = sum(len(_results(episode)) for _, episode in self.rows)
        done = f", {self.calls} of {calls} calls ran" if calls else ""
        return f"{self.suite}: {self.solved} of {self.total} packaged solutions are accepted{done}"


async def prove(suite: Suite, tasks: Sequence[Task], open_sandbox: Callable[[], Sandbox]) -> Proof:
    """Runs the packaged solution of each task through `run_episode`."""
    config = RunConfig.model_validate({"agent": {"max_iterations": 500}})
    context = RolloutContext(config, config_digest(config), suite, ScriptedModel(oracle(), name="oracle"), open_sandbox)
    rows = []
    for index, task in enumerate(tasks):
        spec = RolloutSpec(task, lane="proof", round=0, sample=0, experience=0, place=index, review="never")
        rows.append((task, await run_episode(context, spec, Knowledge(Library()))))
    return Proof(suite.name, tuple(rows))


def _results(episode: Episode) -> list[ToolResult]:
    messages = episode.trajectory.messages if episode.trajectory else ()
    return [result for message in messages for result in message.results]


def _why(episode: Episode) -> str:
    if episode.error:
        return f"{episode.error.kind}: {episode.error.message}"
    return "; ".join(episode.verdicts[-1].reasons.values()) if episode.verdicts else "not judged"
