"""The review after an episode: the same agent looks back with skill tools alone, and may write a skill."""

import time

from hermes_lab.agent.loop import Agent
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import Toolbox
from hermes_lab.types import Review, Verdict

REVIEW_TOOLS = frozenset({"skill_view", "skill_manage"})

REVIEW_REQUEST = """\
Review: did this work teach a rule that later tasks here will need? If so, save it with skill_manage: patch a skill \
that exists, else create one. Do not save missing programs, missing credentials, passing failures or one-off stories. \
If there is nothing to save, say so."""


def outcome(verdict: Verdict | None) -> str:
    """One sentence that tells the agent how its last submission fared."""
    if verdict is None:
        return "The work is delivered."
    return "The submission was accepted." if verdict.success else "The submission was not accepted."


async def review(
    agent: Agent, toolbox: Toolbox, session: SkillSession, verdict: Verdict | None, iterations: int
) -> Review:
    """Continues `agent`'s conversation with `toolbox`, of which only the skill tools answer.

    The prompt and the tool schemas stay the same, so that a server's prefix cache holds.
    """
    started = time.monotonic()
    fork = agent.fork(toolbox.allow(REVIEW_TOOLS), max_iterations=iterations)
    stop = await fork.submit(f"{outcome(verdict)}\n\n{REVIEW_REQUEST}")
    return Review(
        trajectory=fork.trajectory(stop, since=len(agent.messages)),
        writes=tuple(session.writes),
        seconds=time.monotonic() - started,
    )
