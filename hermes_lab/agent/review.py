"""The review after an episode: the same agent looks back with skill and memory tools alone, and may save a rule."""

import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hermes_lab.agent.loop import Agent
from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import InfraError, ToolError
from hermes_lab.memory.notes import NotesEdit
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.review_policy import review_gate
from hermes_lab.skills.learning.write_policy import objection
from hermes_lab.tools.registry import Toolbox, ToolContext
from hermes_lab.types import EpisodeError, Message, Observation, Review, Verdict
from hermes_lab.types.trajectory import StopReason

REVIEW_TOOLS = frozenset({"skill_view", "skills_list", "skill_manage", "memory"})
"""All that a review can do. Every other name is refused before anything happens, however much it looks like these."""

REVIEW_REQUEST = """\
Review: did this work teach a rule that later tasks here will need? If so, save it with skill_manage: patch a skill \
that you loaded, else one that covers such work, else add a file to one, else create one for the whole kind of work. \
Do not save missing programs or credentials, passing failures, one-off stories, or that a tool does not work. \
If there is nothing to save, say so."""
"""The end of what a review is asked, the same for all."""

REFINE = "Add to it the pitfall that you met, and the shorter way if you found one."
"""What is asked of a skill that was loaded."""

_MOST_NAMES = 5


def due(idle: int, iterations: int, observation: Observation, config: SkillsConfig) -> bool:
    """Whether the agent should look back on work that it has delivered.

    It should after `review_every` tool-calling iterations since the last review, `iterations` being those of this
    episode and `idle` those before it; and whenever the episode itself is worth it.
    """
    return observation.worth or idle + iterations >= config.review_every


def tool_iterations(messages: Sequence[Message]) -> int:
    """Model calls that ran tools."""
    return sum(bool(message.tool_calls) for message in messages)


async def review(agent: Agent, toolbox: Toolbox, verdicts: Sequence[Verdict], config: SkillsConfig) -> Review:
    """Continues `agent`'s conversation, apart from it and with budgets of its own.

    The prompt and the tool schemas stay the same, so that a server's prefix cache holds. Writes go to forks of the
    episode's sessions, so that they are told apart. Only cancellation is ever raised: whatever else fails is the
    review's `error`. Then what it had written does not count, what it said and spent is kept, and the episode stands.
    """
    started = time.monotonic()
    context = _apart(toolbox.context, config)
    fork = agent.fork(toolbox.allow(REVIEW_TOOLS, context), max_iterations=config.review_iterations)
    stop: StopReason = "failed"
    error = None
    try:
        stop = await fork.submit(request(toolbox.context, verdicts))
    except InfraError as failure:
        error = EpisodeError(failure.kind, str(failure))
    except Exception as failure:
        error = EpisodeError("internal", f"{type(failure).__name__}: {failure}", traceback.format_exc())
    return Review(
        trajectory=fork.trajectory(stop, since=len(agent.messages)),
        writes=tuple(context.skills.writes) if context.skills and not error else (),
        seconds=time.monotonic() - started,
        memory=tuple(context.notes.writes) if context.notes and not error else (),
        error=error,
    )


def request(context: ToolContext, verdicts: Sequence[Verdict]) -> str:
    """What the agent is asked: how its work fared, which skills had a part in that or are failing, and the rest."""
    lines = [_outcome(verdicts)]
    if context.skills:
        if loaded := sorted(set(context.skills.loaded)):  # children and parallel calls load in any order
            rejected = verdicts and not verdicts[0].success
            misled = " and were rejected at first: mend what misled you" if rejected else ""
            lines.append(f"You had loaded {_named(loaded)}{misled}. {REFINE}")
        skills = context.skills.library.skills
        failing = [name for name, skill in skills.items() if skill_format.state(skill) == "deprecated"]
        if failing:
            lines.append(f"Skills that failed, and are hidden until you rewrite or patch them: {_named(failing)}.")
    return f"{' '.join(lines)}\n\n{REVIEW_REQUEST}"


def _outcome(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return "The work is delivered."
    if not verdicts[-1].success:
        return "The submission was not accepted."
    # A rejection on the way is what there may be a rule to learn from.
    return f"The submission was accepted {'after a rejection' if verdicts[1:] else 'at the first try'}."


def _named(names: Iterable[str]) -> str:
    first, *more = names
    return ", ".join((first, *more[: _MOST_NAMES - 1])) + (", ..." if len(more) >= _MOST_NAMES else "")


def _apart(context: ToolContext, config: SkillsConfig) -> ToolContext:
    """The context of a review: nobody to ask, no children, and sessions of its own."""
    skills = context.skills.fork("review", review_gate(config)) if context.skills else None
    notes = context.notes.fork("review", _notes_gate) if context.notes else None
    return replace(context, skills=skills, notes=notes, ask=None, delegate=None, sessions=None)


def _notes_gate(edit: NotesEdit) -> None:
    """What a review may not record as a skill is no note either."""
    if found := objection(edit.text):
        raise ToolError(
            f"not saved, since it records {found.kind}: {found.sentence[:200]!r}. Write what stays true, or nothing."
        )
