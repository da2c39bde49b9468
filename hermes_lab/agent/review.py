"""The review after an episode: the agent looks back with skill and memory tools only, and may save what it learned."""

import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hermes_lab.agent.loop import Agent
from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import InfraError, ToolError
from hermes_lab.memory.notes import NotesEdit
from hermes_lab.protocols import ModelClient
from hermes_lab.raised import told
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.review_policy import review_gate
from hermes_lab.skills.learning.write_policy import objection
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import EpisodeError, Message, Observation, Review, Verdict
from hermes_lab.types.trajectory import StopReason

REVIEW_TOOLS = frozenset({"skill_view", "skills_list", "skill_manage", "memory"})
"""The only tools that a review can call; all others are refused."""

REVIEW_REQUEST = """\
Review: did this work teach you a rule that later tasks will need? If so, save it with skill_manage: patch a skill \
that you loaded, or else one that covers this kind of work, or add a file to one, or else create one for the whole \
kind of work. Do not save missing programs or credentials, temporary failures, one-off events, or that a tool does \
not work. If there is nothing to save, say so."""
"""The end of every review prompt."""

REFINE = "Add the pitfalls you met, and the shorter way if you found one."
"""Asks to improve a skill that was loaded."""

_MAX_NAMES = 5


def due(idle: int, iterations: int, observation: Observation, config: SkillsConfig) -> bool:
    """Whether delivered work should be reviewed.

    It is due after `review_every` tool-calling iterations since the last review (`idle` before this episode plus
    `iterations` in it), or if the episode itself is worth a review.
    """
    return observation.worth or idle + iterations >= config.review_every


def tool_iterations(messages: Sequence[Message]) -> int:
    """Counts the model calls that ran tools."""
    return sum(bool(message.tool_calls) for message in messages)


async def review(
    agent: Agent,
    toolbox: Toolbox,
    verdicts: Sequence[Verdict],
    config: SkillsConfig,
    reviewer: ModelClient | None = None,
) -> Review:
    """Reviews the work in a fork of `agent`'s conversation, with its own budget, by `reviewer` or the agent's model.

    The prompt and tool schemas stay the same, so the server's prefix cache applies. Writes go to forks of the episode's
    skill and note sessions, to keep them apart. Only cancellation propagates: any other failure becomes the review's
    `error`, its writes are dropped, and its transcript and usage are kept.
    """
    started = time.monotonic()
    context = _review_context(toolbox.context, config)
    fork = agent.fork(toolbox.allow(REVIEW_TOOLS, context), max_iterations=config.review_iterations, model=reviewer)
    agent.activity.messages = fork.messages
    agent.activity.wait_for("review")
    stop: StopReason = "failed"
    error = None
    try:
        stop = await fork.submit(request(toolbox.context, verdicts))
    except InfraError as failure:
        error = EpisodeError(failure.kind, str(failure))
    except Exception as failure:
        error = EpisodeError("internal", told(failure), traceback.format_exc())
    return Review(
        trajectory=fork.trajectory(stop, since=len(agent.messages)),
        writes=tuple(context.skills.writes) if context.skills and not error else (),
        seconds=time.monotonic() - started,
        memory=tuple(context.notes.writes) if context.notes and not error else (),
        error=error,
    )


def request(context: ToolContext, verdicts: Sequence[Verdict]) -> str:
    """The review prompt: the outcome, the loaded and the failing skills, and the request."""
    lines = [outcome_of(verdicts)]
    if context.skills:
        if loaded := sorted(set(context.skills.loaded)):  # sorted: children and parallel calls load in any order
            rejected = verdicts and not verdicts[0].success
            misled = ", and your first submission was rejected: fix what misled you" if rejected else ""
            lines.append(f"You had loaded {_name_list(loaded)}{misled}. {REFINE}")
        skills = context.skills.library.skills
        failing = [name for name, skill in skills.items() if skill_format.state(skill) == "deprecated"]
        if failing:
            lines.append(f"Failing skills, hidden until you rewrite or patch them: {_name_list(failing)}.")
    return f"{' '.join(lines)}\n\n{REVIEW_REQUEST}"


def outcome_of(verdicts: Sequence[Verdict]) -> str:
    """Says in one sentence how the work was received."""
    if not verdicts:
        return "The work has been delivered."
    if not verdicts[-1].success:
        return "The submission was not accepted."
    # A rejection is mentioned, since there may be a rule to learn from it.
    return f"The submission was accepted {'after a rejection' if verdicts[1:] else 'on the first try'}."


def _name_list(names: Iterable[str]) -> str:
    first, *more = names
    return ", ".join((first, *more[: _MAX_NAMES - 1])) + (", ..." if len(more) >= _MAX_NAMES else "")


def _review_context(context: ToolContext, config: SkillsConfig) -> ToolContext:
    """The context of a review: no person to ask, no children, and forked skill and note sessions."""
    skills = context.skills.fork("review", review_gate(config)) if context.skills else None
    notes = context.notes.fork("review", _notes_gate) if context.notes else None
    return replace(context, skills=skills, notes=notes, ask=None, delegate=None, sessions=None)


def _notes_gate(edit: NotesEdit) -> None:
    """Applies the policy on skill texts to notes as well."""
    if found := objection(edit.text):
        raise ToolError(
            f"not saved: it records {found.kind}: {found.sentence[:200]!r}. Save only what will stay true, or nothing."
        )
