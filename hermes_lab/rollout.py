"""One task -> one Episode: the single code path of the runner, the environments and training."""

import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

import anyio
from msgspec.structs import replace as replace_fields

from hermes_lab.activity import Activities, Activity
from hermes_lab.agent.review import due, tool_iterations
from hermes_lab.commit import package_version
from hermes_lab.config.schema import RunConfig, SkillsConfig
from hermes_lab.errors import InfraError, SandboxError
from hermes_lab.harness.check import check_own_loop
from hermes_lab.harness.installed import Installed
from hermes_lab.harness.metrics import episode_metrics
from hermes_lab.harness.own import OwnHarness
from hermes_lab.harness.state import States
from hermes_lab.harness.worker import Assignment, Harness, ReviewWhen, Work, Worker
from hermes_lab.knowledge import Knowledge
from hermes_lab.mcp.recorded import RecordedServers
from hermes_lab.mcp.servers import Servers
from hermes_lab.protocols import ModelClient, Sandbox, Suite, TaskAwareModel
from hermes_lab.raised import told
from hermes_lab.rewards import compute_reward
from hermes_lab.sandbox.extras import NOTHING_MORE
from hermes_lab.skills.learning.observe import observe
from hermes_lab.suites import SandboxSession, SessionSuite, TaskSession
from hermes_lab.types import (
    Episode,
    EpisodeError,
    Judgement,
    KeptWorkspace,
    MemoryUse,
    Observation,
    Review,
    SkillUse,
    Task,
    TaskInfo,
    Trajectory,
    Verdict,
)
from hermes_lab.types.episode import Phase, episode_key
from hermes_lab.verification import Grader, Submission, judge_submission, traceback_of
from hermes_lab.verification.judge import JudgeError
from hermes_lab.verification.workspaces import keep_workspace
from hermes_lab.web import WebProvider


@dataclass(frozen=True)
class RolloutContext:
    """What all rollouts of a run share."""

    config: RunConfig
    config_digest: str
    suite: Suite
    model: ModelClient
    open_sandbox: Callable[..., Sandbox]
    """Opens a sandbox; called with `Extras` if a program or tool needs them, and with the `root` of a task with one."""
    _: KW_ONLY
    web: WebProvider | None = None
    """The web for tasks without pages of their own."""
    auxiliary: ModelClient | None = None
    """The model that writes summaries (`auxiliary`), if it differs from `model`."""
    judge: Grader | None = None
    """What grades answers by a rubric (`judge`)."""
    workspaces: Path | None = None
    """Where workspaces are kept (`run.keep_workspaces`)."""
    program: Installed | None = None
    """The program that works instead of the lab's own loop (`agent.program`)."""
    states: States | None = None
    """Where the program's own memory is kept (`agent.carry_state`)."""
    servers: Servers | RecordedServers | None = None
    """The MCP servers (`mcp.servers`)."""
    activities: Activities = field(default_factory=Activities, repr=False, compare=False)
    """What the rollouts are doing now."""
    reviewer: ModelClient | None = None
    """The model that reviews, if it differs from `model`."""

    def __post_init__(self) -> None:
        package_version()  # asks git, once: not while episodes run
        if not self.program:
            check_own_loop(self.config, "a RolloutContext without a program")

    @cached_property
    def harness(self) -> Harness:
        """What starts the agents."""
        if self.program:
            # Imported here, so that the own loop does not load a web server.
            from hermes_lab.harness.program_harness import ProgramHarness

            return ProgramHarness(self.config, self.program, self.states)
        return OwnHarness(self.config, self.web, self.auxiliary, self.servers, self.reviewer)

    def sandbox(self, task: Task) -> Sandbox:
        """A sandbox for one episode of that task."""
        extras = self.harness.extras
        opened = self.open_sandbox if extras == NOTHING_MORE else partial(self.open_sandbox, extras)
        return sandbox_of(task, opened)

    def model_for(self, task: Task) -> ModelClient:
        """The model as it works on that task."""
        return self._task_aware_model.for_task(task) if self._task_aware_model else self.model

    @cached_property
    def session_suite(self) -> SessionSuite | None:
        """The suite, where it opens a session for each task."""
        return self.suite if isinstance(self.suite, SessionSuite) else None

    @cached_property
    def _task_aware_model(self) -> TaskAwareModel | None:
        return self.model if isinstance(self.model, TaskAwareModel) else None


@dataclass(frozen=True)
class Submissions:
    """How the submissions of a rollout were judged."""

    verdicts: tuple[Verdict, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    workspaces: tuple[KeptWorkspace, ...] = ()


@dataclass(frozen=True)
class RolloutSpec:
    """A rollout to run: a task and its coordinates in the run.

    `review` says when the agent reviews its work afterwards; `due` follows the interval and thresholds in `skills`.
    `reviews` is how often: every review continues a copy of the same finished conversation.
    """

    task: Task
    lane: str
    round: int
    sample: int
    experience: int
    place: int
    review: ReviewWhen
    phase: Phase = "learn"
    block: int = 0
    reviews: int = 1

    @property
    def key(self) -> str:
        """The key of the resulting episode."""
        return episode_key(self.task.suite, self.task.id, self.lane, self.round, self.sample)


@dataclass(frozen=True)
class Outcome:
    """The results of a finished rollout."""

    trajectory: Trajectory
    submissions: Submissions
    observation: Observation
    work: Work
    reviews: tuple[Review, ...] = ()


async def run_episode(context: RolloutContext, spec: RolloutSpec, knowledge: Knowledge) -> Episode:
    """Runs and verifies one task in a fresh sandbox with frozen knowledge.

    A failing rollout never raises: an infrastructure failure or a bug gives an errored episode without a score.
    Cancellation propagates and leaves neither a record nor a process.
    """
    started_at = now()
    started = time.monotonic()
    outcome, error = None, None
    failed: tuple[Judgement, ...] = ()
    try:
        with context.activities.episode(spec.key, spec.task.id, spec.lane, spec.phase) as activity:
            outcome = await _roll_out(context, spec, knowledge, activity)
    except InfraError as failure:
        error = EpisodeError(kind=failure.kind, message=str(failure), detail=traceback_of(failure))
        failed = (failure.judgement,) if isinstance(failure, JudgeError) else ()
    except Exception as failure:
        error = EpisodeError(
            kind="internal", message=told(failure, type(context.suite).__module__), detail=traceback.format_exc()
        )
    seconds = time.monotonic() - started
    if outcome:
        seconds -= max((review.seconds for review in outcome.reviews), default=0.0)  # they run at the same time
    return _record(context, spec, knowledge, outcome, error, started_at, seconds, failed)


async def _roll_out(context: RolloutContext, spec: RolloutSpec, knowledge: Knowledge, activity: Activity) -> Outcome:
    config, task = context.config, spec.task
    model = context.model_for(task)
    async with _open_session(context.session_suite, task) as session, context.sandbox(task) as sandbox:
        await setup_workspace(task, sandbox)
        if isinstance(session, SandboxSession):
            await session.begin(sandbox)
        assignment = Assignment(task, spec.key, spec.sample, knowledge, spec.review, model, sandbox, session, activity)
        async with context.harness.open(assignment) as worker:
            trajectory, judged = await _submissions(context, assignment, worker)
            observation = observe(trajectory, judged.verdicts, config.skills)
            reviews: tuple[Review, ...] = ()
            if worker.reviews_itself or _review_is_due(spec, knowledge, trajectory, observation, config.skills):
                reviews = await _reviews(worker, judged.verdicts, spec.reviews)
            work = await worker.work(trajectory)
        activity.wait_for("sandbox")
    return Outcome(trajectory, judged, observation, work, reviews)


def now() -> str:
    """The current time in UTC, as written to records (ISO 8601, milliseconds)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


RunEpisode = Callable[[RolloutContext, RolloutSpec, Knowledge], Awaitable[Episode]]
"""What an executor implements: `run_episode`, here or in another process."""


def errored_episode(
    context: RolloutContext, spec: RolloutSpec, knowledge: Knowledge, error: InfraError, started_at: str
) -> Episode:
    """The record of a rollout whose result was lost. `started_at` is ISO 8601."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(started_at)).total_seconds()
    return _record(context, spec, knowledge, None, EpisodeError(error.kind, str(error)), started_at, seconds)


@asynccontextmanager
async def _open_session(suite: SessionSuite | None, task: Task) -> AsyncIterator[TaskSession | None]:
    """The task's session; None if the suite has none."""
    if suite is None:
        yield None
        return
    session = await suite.open_session(task)
    try:
        yield session
    finally:
        await session.aclose()


def sandbox_of(task: Task, open_sandbox: Callable[..., Sandbox]) -> Sandbox:
    """The sandbox for a task, which starts when entered."""
    return open_sandbox(root=task.root) if task.root else open_sandbox()


async def setup_workspace(task: Task, sandbox: Sandbox) -> None:
    """Writes the task's files and runs its setup commands. Raises `SandboxError` if a command fails."""
    for path, content in task.files.items():
        await sandbox.write(path, content.encode())
    for command in task.setup:
        done = await sandbox.exec(command, fresh=True)
        if done.exit_code:
            said = done.output.strip()[-300:] or "no output"
            raise SandboxError(
                f"{task.id}: setup command {command[:80]!r} failed with exit code {done.exit_code}: {said}"
            )


async def _submissions(
    context: RolloutContext, assignment: Assignment, worker: Worker
) -> tuple[Trajectory, Submissions]:
    """Submits the work and retries with the feedback until it is accepted, or no attempts or feedback are left.

    A success with feedback is retried too.
    """
    task, sandbox, session = assignment.task, assignment.sandbox, assignment.session
    verify = session.verify if session else partial(context.suite.verify, task)
    judged, prompt = Submissions(), task.prompt
    while True:
        stop = await worker.submit(prompt)
        while session and stop in ("answered", "empty"):
            if (turn := await session.next_user_turn(worker.trajectory(stop).final_response)) is None:
                break
            worker.add_tools(turn.tools)
            stop = await worker.submit(turn.message)
        trajectory = worker.trajectory(stop)
        submission = Submission(trajectory.final_response, len(judged.verdicts) + 1)
        assignment.activity.wait_for("verifier")
        if context.workspaces:  # before the verifier, which may leave files such as caches
            kept = await keep_workspace(sandbox, context.workspaces, context.config.run.workspace_mb)
            judged = replace(judged, workspaces=(*judged.workspaces, kept))
        verdict, judgement = await judge_submission(context.suite, task, sandbox, submission, verify, context.judge)
        if judgement:
            judged = replace(judged, judgements=(*judged.judgements, judgement))
        if verdict is None:
            return trajectory, judged
        judged = replace(judged, verdicts=(*judged.verdicts, verdict))
        if not verdict.feedback or stop != "answered" or len(judged.verdicts) >= task.attempts:
            return trajectory, judged
        prompt = verdict.feedback


def _review_is_due(
    spec: RolloutSpec, knowledge: Knowledge, trajectory: Trajectory, observation: Observation, config: SkillsConfig
) -> bool:
    """Whether the agent reviews its work; never if it gave no answer."""
    if spec.review == "never" or trajectory.final_response is None:
        return False
    return spec.review == "always" or due(knowledge.idle, tool_iterations(trajectory.messages), observation, config)


async def _reviews(worker: Worker, verdicts: Sequence[Verdict], count: int) -> tuple[Review, ...]:
    """`count` reviews of the finished work, in the order in which they were started."""
    if count == 1:
        only = await worker.review(verdicts)
        return (only,) if only else ()
    made: dict[int, Review | None] = {}

    async def fork(number: int) -> None:
        made[number] = await worker.review(verdicts)

    async with anyio.create_task_group() as forks:
        for number in range(count):
            forks.start_soon(fork, number)
    return tuple(review for _, review in sorted(made.items()) if review)


def _record(
    context: RolloutContext,
    spec: RolloutSpec,
    knowledge: Knowledge,
    outcome: Outcome | None,
    error: EpisodeError | None,
    started_at: str,
    seconds: float,
    failed: tuple[Judgement, ...] = (),
) -> Episode:
    task = spec.task
    judged = outcome.submissions if outcome else Submissions(judgements=failed)
    first = judged.verdicts[0] if judged.verdicts else None
    return Episode(
        suite=task.suite,
        task_id=task.id,
        lane=spec.lane,
        round=spec.round,
        sample=spec.sample,
        experience=spec.experience,
        place=spec.place,
        phase=spec.phase,
        block=spec.block,
        status="ok" if outcome else "errored",
        task=TaskInfo(task.domain, task.split, task.world, task.triggers, task.metadata),
        model=context.model.identity,
        config_digest=context.config_digest,
        started_at=started_at,
        seconds=seconds,
        error=error,
        score=first.score if first else None,
        success=first.success if first else None,
        reward=compute_reward(context.config.reward, outcome.trajectory, judged.verdicts) if outcome else None,
        verdicts=judged.verdicts,
        trajectory=outcome.trajectory if outcome else None,
        skills=replace_fields(
            outcome.work.skills if outcome else SkillUse(snapshot=knowledge.library.snapshot), knowledge=knowledge.label
        ),
        memory=outcome.work.memory if outcome else MemoryUse(snapshot=knowledge.notes_snapshot),
        observation=outcome.observation if outcome else None,
        children=outcome.work.children if outcome else (),
        review=outcome.reviews[0] if outcome and outcome.reviews else None,
        forks=outcome.reviews[1:] if outcome else (),
        metrics=episode_metrics(outcome.trajectory, len(judged.verdicts)) if outcome else {},
        judgements=judged.judgements,
        workspaces=judged.workspaces,
        program=outcome.work.program if outcome else context.program.use() if context.program else None,
        mcp=context.servers.digests if context.servers else {},
        lab=package_version(),
    )
