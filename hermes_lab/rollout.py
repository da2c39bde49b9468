"""One task -> one Episode: the single path of the runner, the environments and training."""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hermes_lab.agent.loop import Agent
from hermes_lab.agent.prompt import system_prompt
from hermes_lab.agent.review import review
from hermes_lab.config import RunConfig
from hermes_lab.errors import InfraError, VerifierError
from hermes_lab.protocols import ModelClient, Sandbox, Suite
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.distributions import draw_toolsets
from hermes_lab.tools.registry import Toolbox, ToolContext
from hermes_lab.types import (
    Episode,
    EpisodeError,
    Message,
    Review,
    Reward,
    SkillUse,
    Task,
    TaskInfo,
    Trajectory,
    Verdict,
)
from hermes_lab.types.episode import episode_key


@dataclass(frozen=True)
class Lab:
    """What every rollout of a run shares."""

    config: RunConfig
    config_digest: str
    suite: Suite
    model: ModelClient
    open_sandbox: Callable[[], Sandbox]


@dataclass(frozen=True)
class Job:
    """One rollout that is owed: a task and its place in the run. `learn` asks for a review after it."""

    task: Task
    lane: str
    round: int
    sample: int
    experience: int
    place: int
    learn: bool

    @property
    def key(self) -> str:
        """The key of the episode that this job makes."""
        return episode_key(self.task.suite, self.task.id, self.lane, self.round, self.sample)


@dataclass(frozen=True)
class Outcome:
    """A finished rollout, before it is a record."""

    trajectory: Trajectory
    verdicts: tuple[Verdict, ...]
    skills: SkillUse
    review: Review | None


async def run_episode(lab: Lab, job: Job, library: Library) -> Episode:
    """Runs one task in a fresh sandbox against a frozen library, and has it verified.

    Never raises for a failing rollout: a failure of the infrastructure, or a bug, is an errored episode without score.
    Cancellation passes through, and leaves neither a record nor a process.
    """
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    started = time.monotonic()
    outcome, error = None, None
    try:
        outcome = await _roll_out(lab, job, library)
    except InfraError as failure:
        error = EpisodeError(kind=failure.kind, message=str(failure))
    except Exception as failure:
        error = EpisodeError(
            kind="internal", message=f"{type(failure).__name__}: {failure}", detail=traceback.format_exc()
        )
    seconds = time.monotonic() - started
    if outcome and outcome.review:
        seconds -= outcome.review.seconds
    return _record(lab, job, library, outcome, error, started_at, seconds)


async def _roll_out(lab: Lab, job: Job, library: Library) -> Outcome:
    session = SkillSession(library, origin="foreground", episode=job.key, model=lab.model.identity.name)
    async with lab.open_sandbox() as sandbox:
        for path, content in job.task.files.items():
            await sandbox.write(path, content.encode())
        toolsets = _toolsets(lab, job)
        toolbox = _toolbox(lab, toolsets, sandbox, session)
        agent = Agent(lab.model, toolbox, lab.config.agent, [_system(lab, toolbox, library)], lab.config.model.price)
        trajectory, verdicts = await _submissions(lab, job.task, agent, sandbox)
        looked_back = None
        if job.learn and trajectory.final_response is not None:
            looking = session.fork("review")
            looked_back = await review(
                agent,
                _toolbox(lab, toolsets, sandbox, looking),
                looking,
                verdicts[-1] if verdicts else None,
                lab.config.skills.review_iterations,
            )
    used = SkillUse(
        snapshot=library.snapshot,
        listed=tuple(library.skills),
        loaded=tuple(dict.fromkeys(session.loaded)),
        writes=tuple(session.writes),
    )
    return Outcome(trajectory, verdicts, used, looked_back)


async def _submissions(lab: Lab, task: Task, agent: Agent, sandbox: Sandbox) -> tuple[Trajectory, tuple[Verdict, ...]]:
    """Works, submits, and works again on the feedback of a rejected submission while attempts are left."""
    verdicts: list[Verdict] = []
    prompt = task.prompt
    while True:
        stop = await agent.submit(prompt)
        trajectory = agent.trajectory(stop)
        try:
            verdict = await lab.suite.verify(task, sandbox, trajectory.final_response)
        except InfraError:
            raise
        except Exception as error:
            raise VerifierError(f"{type(error).__name__}: {error}") from error
        if verdict is not None:
            verdicts.append(verdict)
        if verdict is None or verdict.success or stop != "answered" or len(verdicts) >= task.attempts:
            return trajectory, tuple(verdicts)
        prompt = verdict.feedback


def _toolsets(lab: Lab, job: Job) -> Sequence[str]:
    """The toolsets of this rollout: those of the configuration, or its own draw, the same in every arm."""
    agent = lab.config.agent
    if not agent.distribution:
        return agent.toolsets
    return draw_toolsets(agent.distribution, lab.config.run.seed, job.task.id, job.sample)


def _toolbox(lab: Lab, toolsets: Sequence[str], sandbox: Sandbox, session: SkillSession) -> Toolbox:
    context = ToolContext(sandbox=sandbox, skills=session, config=lab.config.sandbox)
    return Toolbox(toolsets, context, disabled=lab.config.agent.disabled_tools)


def _system(lab: Lab, toolbox: Toolbox, library: Library) -> Message:
    agent, isolated = lab.config.agent, lab.config.sandbox.backend != "local"
    text = system_prompt(toolbox.schemas, library, agent.tool_format, profile=agent.prompt, isolated=isolated)
    return Message(role="system", content=text)


def _record(
    lab: Lab,
    job: Job,
    library: Library,
    outcome: Outcome | None,
    error: EpisodeError | None,
    started_at: str,
    seconds: float,
) -> Episode:
    task = job.task
    first = outcome.verdicts[0] if outcome and outcome.verdicts else None
    return Episode(
        suite=task.suite,
        task_id=task.id,
        lane=job.lane,
        round=job.round,
        sample=job.sample,
        experience=job.experience,
        place=job.place,
        status="ok" if outcome else "errored",
        task=TaskInfo(task.domain, task.split, task.world, task.triggers, task.metadata),
        model=lab.model.identity,
        config_digest=lab.config_digest,
        started_at=started_at,
        seconds=seconds,
        error=error,
        score=first.score if first else None,
        success=first.success if first else None,
        reward=Reward(first.score, {"score": first.score}) if first else None,
        verdicts=outcome.verdicts if outcome else (),
        trajectory=outcome.trajectory if outcome else None,
        skills=outcome.skills if outcome else SkillUse(snapshot=library.snapshot),
        review=outcome.review if outcome else None,
        metrics=_metrics(outcome.trajectory, len(outcome.verdicts)) if outcome else {},
    )


def _metrics(trajectory: Trajectory, submissions: int) -> dict[str, float]:
    results = [r for m in trajectory.messages for r in m.results]
    first_reply = next((m for m in trajectory.messages if m.role == "assistant"), None)
    # Calls are answered in their order, so the first result answers the first call.
    well_formed = first_reply is not None and bool(first_reply.tool_calls and results and results[0].executed)
    return {
        "api_calls": len(trajectory.steps),
        "tool_calls": len(results),
        "tool_errors": sum(not r.ok for r in results),
        "first_call_ok": float(well_formed),
        "submissions": submissions,
    }
