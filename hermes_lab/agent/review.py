"""The review after an episode: the same agent looks back with skill and memory tools alone, and may save a rule."""

import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from hermes_lab.agent.loop import Agent
from hermes_lab.config import SkillsConfig
from hermes_lab.errors import InfraError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.policy import review_gate
from hermes_lab.tools.registry import Toolbox, ToolContext
from hermes_lab.types import EpisodeError, Message, Observation, Review, Verdict

REVIEW_TOOLS = frozenset({"skill_view", "skills_list", "skill_manage", "memory"})
"""All that a review can do. Every other name is refused before anything happens, however much it looks like these."""

REVIEW_REQUEST = """\
Review: did this work teach a rule that later tasks here will need? If so, save it with skill_manage: patch a skill \
that you loaded, else one that covers such work, else add a file to one, else create one for the whole kind of work. \
Do not save missing programs or credentials, passing failures, one-off stories, or that a tool does not work. \
If there is nothing to save, say so."""
"""The end of what a review is asked, the same for all."""

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
    review's `error`, what it had written does not count, and the episode stands.
    """
    started = time.monotonic()
    try:
        looked_back = await _look_back(agent, toolbox, verdicts, config)
    except InfraError as failure:
        looked_back = Review(error=EpisodeError(failure.kind, str(failure)))
    except Exception as failure:
        message = f"{type(failure).__name__}: {failure}"
        looked_back = Review(error=EpisodeError("internal", message, traceback.format_exc()))
    return msgspec.structs.replace(looked_back, seconds=time.monotonic() - started)


async def _look_back(agent: Agent, toolbox: Toolbox, verdicts: Sequence[Verdict], config: SkillsConfig) -> Review:
    context = _apart(toolbox.context, config)
    fork = agent.fork(toolbox.allow(REVIEW_TOOLS, context), max_iterations=config.review_iterations)
    stop = await fork.submit(request(toolbox.context, verdicts))
    return Review(
        trajectory=fork.trajectory(stop, since=len(agent.messages)),
        writes=tuple(context.skills.writes) if context.skills else (),
        memory=tuple(context.notes.writes) if context.notes else (),
    )


def request(context: ToolContext, verdicts: Sequence[Verdict]) -> str:
    """What the agent is asked: how its work fared, which skills had a part in that or are failing, and the rest."""
    lines = [_outcome(verdicts[-1] if verdicts else None)]
    if context.skills:
        loaded = dict.fromkeys(context.skills.loaded)
        if loaded and verdicts and not verdicts[0].success:
            lines.append(f"You had loaded {_named(loaded)} and were rejected at first: mend what misled you.")
        elif loaded:
            lines.append(f"You had loaded {_named(loaded)}.")
        skills = context.skills.library.skills
        failing = [name for name, skill in skills.items() if skill_format.state(skill) == "deprecated"]
        if failing:
            lines.append(f"Skills that failed, and are hidden until you rewrite or patch them: {_named(failing)}.")
    return f"{' '.join(lines)}\n\n{REVIEW_REQUEST}"


def _outcome(verdict: Verdict | None) -> str:
    if verdict is None:
        return "The work is delivered."
    return "The submission was accepted." if verdict.success else "The submission was not accepted."


def _named(names: Iterable[str]) -> str:
    first, *more = names
    return ", ".join((first, *more[: _MOST_NAMES - 1])) + (", ..." if len(more) >= _MOST_NAMES else "")


def _apart(context: ToolContext, config: SkillsConfig) -> ToolContext:
    """The context of a review: nobody to ask, no children, and sessions of its own."""
    skills = context.skills.fork("review", review_gate(config)) if context.skills else None
    notes = context.notes.fork("review") if context.notes else None
    return replace(context, skills=skills, notes=notes, ask=None, delegate=None, sessions=None)
