"""Runs a plan.

The engine does not print or set exit codes: it returns a result, raises errors, and reports progress to a `Listener`.
The commands, studies, GRPO rollout collection and `hermes_lab.run` all use it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

from hermes_lab.config.mcp import McpConfig
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import RunConfig
from hermes_lab.contexts import open_contexts
from hermes_lab.errors import ConfigError, McpError
from hermes_lab.harness.check import check_agent
from hermes_lab.harness.installed import Installed, find_installed
from hermes_lab.harness.state import states_of
from hermes_lab.manifest import read_manifest
from hermes_lab.mcp.results import FOLDER as BLOBS
from hermes_lab.mcp.servers import Servers, open_servers
from hermes_lab.mcp.snapshot import differences
from hermes_lab.models import open_models
from hermes_lab.models.refusals import RETRIES
from hermes_lab.models.scripted import load_policy
from hermes_lab.protocols import Suite
from hermes_lab.records import write_json
from hermes_lab.rewards import reward_warnings
from hermes_lab.rollout import RolloutContext
from hermes_lab.runners.engine.batch import Done, finalize_lanes, has_pending, read_done, run_lanes
from hermes_lab.runners.engine.budget import Budget
from hermes_lab.runners.engine.executors import open_executor
from hermes_lab.runners.engine.folder import check_folder, keep_suite, lock_folder, open_folder
from hermes_lab.runners.engine.log_relay import relay_logs
from hermes_lab.runners.engine.open_files import raise_open_file_limit
from hermes_lab.runners.engine.plan import Command, Lane, tasks_digest, tasks_of_worlds
from hermes_lab.runners.engine.registration import primary_of, register_plan
from hermes_lab.runners.engine.running import shown_running
from hermes_lab.runners.engine.snapshots import remove_partial_snapshots
from hermes_lab.runners.engine.tally import Progress, Quiet, Tally
from hermes_lab.runners.engine.weights import weights_digest, weights_of, wrap_adapter_errors
from hermes_lab.runners.interrupt import ignored_interrupts, one_interrupt
from hermes_lab.sandbox import missing_guarantees, open_sandbox, probe
from hermes_lab.suites import SuiteWithWarnings, servers_of
from hermes_lab.tools.toolbox import check_toolsets
from hermes_lab.types import ServedTools, Task
from hermes_lab.verification import check_judge
from hermes_lab.verification.workspaces import FOLDER

if TYPE_CHECKING:
    from hermes_lab.runners.engine.stopping import Stopping

T = TypeVar("T")

NO_FOLDER = "run.out: no folder for the run; give one with --out DIR (in Python, out=)"


@dataclass(frozen=True)
class RunPlan:
    """What to run. Creating a plan writes nothing and starts nothing.

    `folder` is None for a plan that is only shown. `library` is the digest of the initial skills.
    """

    command: Command
    config: RunConfig
    folder: Path | None
    suite: Suite
    lanes: Sequence[Lane]
    library: str

    def __post_init__(self) -> None:
        """Raises `ConfigError` for an unavailable tool, sandbox, judge or policy before anything is written."""
        arms = self.config.learning.arms if self.command == "learn" else ()
        if self.config.model.provider == "scripted":
            load_policy(self.config.model.name, self.config.model.options)
        check_agent(self.config, self.suite, self.tasks(), arms)
        check_judge(self.config, self.suite, self.tasks())
        open_sandbox(self.config.sandbox)
        _check_roots(self.config, self.tasks())

    def tasks(self) -> Iterator[Task]:
        """All tasks of the run."""
        return (task for lane in self.lanes for tasks in (*lane.rounds, *lane.heldout) for task in tasks)

    @property
    def wanted(self) -> int:
        """Episodes of the whole run."""
        return sum(lane.wanted for lane in self.lanes)

    def tally(self) -> Tally:
        """New counts for this run; starts the budget's clock. Raises `ConfigError` for an invalid stopping rule."""
        return Tally(self.lanes, Budget(self.config.budget), self._stopping())

    def _stopping(self) -> "Stopping | None":
        if self.command != "learn" or self.config.learning.stop.when == "never":
            return None
        from hermes_lab.runners.engine.stopping import Stopping  # needs numpy, which takes as long as all else

        primary = primary_of(self.config, self.lanes, weights_of(self.command, self.config))
        return Stopping(primary) if primary else None

    def progress(self) -> Tally:
        """The counts of the episodes that its folder already has, with what they used of the budget."""
        tally = self.tally()
        if self.folder is not None:
            read_done(self.lanes, self.folder, tally.add)
        return tally


def rooted(tasks: Iterable[Task]) -> Task | None:
    """The first task with a system of its own."""
    return next((task for task in tasks if task.root is not None), None)


def _check_roots(config: RunConfig, tasks: Iterable[Task]) -> None:
    """Refuses what needs a task to be nothing but its workspace."""
    task = rooted(tasks)
    if task is None:
        return
    open_sandbox(config.sandbox, root=task.root)
    what = f"{task.id} has a system of its own, of which the working directory is only a part"
    if config.run.keep_workspaces:
        raise ConfigError(f"run.keep_workspaces: {what}; leave it out")
    if not config.agent.distribution and "delegate_task" in check_toolsets(
        config.agent.toolsets, config.agent.disabled_tools
    ):
        raise ConfigError(f"agent.toolsets: {what}, so delegate_task has no sandbox; leave it out")


class Listener:
    """Follows a run. Override the methods you need; by default nothing is shown."""

    def begin(self, plan: RunPlan, tally: Tally) -> None:
        """Called once the folder is open; `tally` counts the episodes that are already finished."""

    def message(self, line: str) -> None:
        """Reports what the run is doing, such as starting a model server."""

    def warning(self, line: str) -> None:
        """Reports a problem that does not stop the run, such as a sandbox without isolation."""

    def progress(self, tally: Tally) -> Progress:
        """The progress view to use while rollouts run."""
        return Quiet(tally)


@dataclass(frozen=True)
class RunResult:
    """The result of a run. `summary` is the content of `summary.json`; `spent` names the budget that ended the run
    early, `remedy` what to change about it, `stopped` the decision that did, `last_error` the last infrastructure
    failure."""

    folder: Path
    summary: dict[str, Any]
    spent: str = ""
    last_error: str = ""
    stopped: str = ""
    remedy: str = ""

    @property
    def finished(self) -> int:
        """Finished episodes, over all starts."""
        return int(self.summary["finished"])

    @property
    def wanted(self) -> int:
        """Episodes of the whole run."""
        return int(self.summary["wanted"])

    @property
    def errored(self) -> int:
        """Episodes that failed for infrastructure reasons; a resumed run tries them again."""
        return int(self.summary["errored"])

    @property
    def complete(self) -> bool:
        """Whether every episode is finished, or its stopping rule has ended the run."""
        return self.finished == self.wanted or bool(self.stopped)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. Finished episodes are on disk, and the run can be resumed."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(f"interrupted: {result.finished} of {result.wanted} episodes are kept")
        self.result = result


def execute(plan: RunPlan, *, resume: bool = False, listener: Listener | None = None) -> RunResult:
    """Runs the unfinished episodes of `plan` in its folder, and blocks until they are done.

    Also works inside a running event loop, as in a notebook; the rollouts then run in a separate thread. Failed
    episodes are counted in the result and raise nothing. Raises `ConfigError` for an invalid configuration or a folder
    with another run, `InfraError` if the model or sandbox cannot start, and `Interrupted` on Ctrl-C.
    """
    config, folder, listener = plan.config, plan.folder, listener or Listener()
    if folder is None:
        raise ConfigError(NO_FOLDER)
    raise_open_file_limit(config.run.concurrency)
    adapters = weights_of(plan.command, config)
    check_folder(folder, resume=resume)
    tally = plan.tally()
    with lock_folder(folder), wrap_adapter_errors(plan.command, config):
        program = find_installed(config.agent)
        mcp = servers_of(config.mcp, plan.suite)
        served = run_blocking(partial(served_tools, mcp, config.sandbox)) if mcp.servers else {}
        tasks, weights = tasks_digest(plan.lanes), weights_digest(adapters)
        remark = open_folder(
            folder,
            command=plan.command,
            config=config,
            tasks_digest=tasks,
            library=plan.library,
            adapter_digest=weights,
            wanted=plan.wanted,
            program=program.use() if program else None,
            left_out=plan.suite.left_out if isinstance(plan.suite, SuiteWithWarnings) else {},
            served=served,
            resume=resume,
            tasks_of=partial(tasks_of_worlds, plan.lanes) if plan.command == "learn" else None,
        )
        if plan.command == "learn":
            register_plan(
                folder,
                config,
                plan.lanes,
                weights=adapters,
                tasks_digest=tasks,
                library=plan.library,
                adapter_digest=weights,
            )
        keep_suite(folder, config)
        remove_partial_snapshots(folder)
        done = read_done(plan.lanes, folder, tally.add)
        if remark:
            listener.message(remark)
        listener.begin(plan, tally)
        try:
            if not has_pending(plan.lanes, done):
                finalize_lanes(config, plan.lanes, folder, done)
            elif (
                not (tally.stopping and tally.stopping.decision) and tally.budget.allows()
            ):  # otherwise there is no need to start a model
                run_blocking(partial(_run, plan, adapters, program, folder, done, tally, listener))
        except KeyboardInterrupt:
            raise Interrupted(_result(folder, tally)) from None
    return _result(folder, tally)


async def served_tools(config: McpConfig, sandbox: SandboxConfig) -> Mapping[str, ServedTools]:
    """The tools of MCP servers. Raises `McpError` for a server that fails."""
    async with open_servers(config, partial(open_sandbox, sandbox)) as servers:
        return servers.served


async def _run(
    plan: RunPlan,
    adapters: Sequence[str],
    program: Installed | None,
    folder: Path,
    done: Done,
    tally: Tally,
    listener: Listener,
) -> None:
    config, say = plan.config, listener.message
    for promise in missing_guarantees(config.sandbox):
        listener.warning(f"sandbox.backend={config.sandbox.backend}: {promise}")
    for remark in plan.suite.remarks() if isinstance(plan.suite, SuiteWithWarnings) else ():
        listener.warning(remark)
    if warning := reward_warnings(config.reward):
        listener.warning(warning)
    async with one_interrupt():
        await probe(config.sandbox)
        if task := rooted(plan.tasks()):
            await probe(config.sandbox, task.root)
        async with AsyncExitStack() as stack:
            # A dead address is tried again for a while. Once episodes run, the progress says what they wait for.
            with relay_logs(say, loggers=(RETRIES.name,)):
                contexts = await _open_contexts(stack, plan, adapters, program, folder, listener)
            servers, tally.activities = contexts[0].servers, contexts[0].activities
            served = servers.served if isinstance(servers, Servers) else {}
            manifest = read_manifest(folder)
            if changed := next(differences(manifest.mcp, served), ""):
                raise McpError(f"{changed} since the run started")
            # All episodes have the digest that the run began with, even if a path is spelled in another way now.
            contexts = [replace(context, config_digest=manifest.config_digest) for context in contexts]
            async with (
                open_executor(config, contexts, adapters, say) as run_episode,
                shown_running(folder, tally.activities),
            ):
                with listener.progress(tally) as progress, relay_logs(say, named=plan.wanted > 1):
                    lanes, stopping = plan.lanes, tally.stopping
                    await run_lanes(contexts, lanes, folder, done, progress, tally.budget, run_episode, stopping)


async def _open_contexts(
    stack: AsyncExitStack,
    plan: RunPlan,
    adapters: Sequence[str],
    program: Installed | None,
    folder: Path,
    listener: Listener,
) -> Sequence[RolloutContext]:
    """Opens the models and what else rollouts need, until `stack` is closed."""
    config, say = plan.config, listener.message
    opened = open_models(
        config.model,
        adapters,
        tool_format=config.agent.tool_format,
        log=folder / "server.log",
        concurrency=config.run.concurrency,
        say=say,
    )
    models = await stack.enter_async_context(opened)
    contexts = open_contexts(
        config,
        plan.suite,
        models,
        say=say,
        warn=listener.warning,
        workspaces=folder / FOLDER if config.run.keep_workspaces else None,
        program=program,
        states=states_of(config, folder),
        blobs=folder / BLOBS,
    )
    return await stack.enter_async_context(contexts)


def _result(folder: Path, tally: Tally) -> RunResult:
    """Writes the summary from the log: the last episodes may be on disk but not in the tally."""
    from hermes_lab.analysis.summaries.summary import summarize

    summary = summarize(folder)
    write_json(folder / "summary.json", summary)
    return RunResult(folder, summary, tally.budget.spent, tally.last_error, summary["stopped"], tally.budget.remedy)


def run_blocking(main: Callable[[], Awaitable[T]]) -> T:
    """Runs `main` and returns its result; uses a separate thread if this one has a running event loop.

    Ctrl-C cancels `main`, waits for it to end, and raises `KeyboardInterrupt`. Further ones are ignored meanwhile.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(main)
    with ExitStack() as ending, start_blocking_portal() as portal:
        future = portal.start_task_soon(main)
        try:
            return future.result()
        except KeyboardInterrupt:
            ending.enter_context(ignored_interrupts())
            future.cancel()
            raise  # The portal waits for the cancelled task.
