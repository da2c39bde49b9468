"""The one path by which `run`, `learn` and `skills uplift` run what they have planned."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio

from hermes_lab.config.schema import RunConfig, config_digest
from hermes_lab.models import open_auxiliary, open_models
from hermes_lab.protocols import Suite
from hermes_lab.records import write_json
from hermes_lab.rewards import reward_warnings
from hermes_lab.rollout import RolloutContext
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.summary import say_warnings, show_summary
from hermes_lab.runners.engine.batch import Done, finalize_lanes, has_pending, read_done, run_lanes
from hermes_lab.runners.engine.budget import Budget
from hermes_lab.runners.engine.executors import open_executor
from hermes_lab.runners.engine.folder import check_folder, keep_suite, lock_folder, open_folder
from hermes_lab.runners.engine.log_relay import relay_logs
from hermes_lab.runners.engine.open_files import allow_open_files
from hermes_lab.runners.engine.plan import Lane, tasks_digest
from hermes_lab.runners.engine.snapshots import sweep
from hermes_lab.runners.experiments.experiment import Command, blaming_adapters, weights_digest, weights_of
from hermes_lab.runners.experiments.experiment_plan import ExperimentPlan, plan_experiment
from hermes_lab.runners.interrupt import one_interrupt
from hermes_lab.runners.progress import LiveTable, Plain, Progress, Quiet, Tally
from hermes_lab.sandbox import missing_guarantees, open_sandbox, probe
from hermes_lab.tools.distributions import check_tools
from hermes_lab.web import open_web


class Show(Protocol):
    """Prints a summary, as text or as one JSON object."""

    def __call__(self, content: dict[str, Any], *, json: bool) -> None: ...


class Plan:
    """What a command is to run, with nothing written and no model started yet. `library` is the digest of the skills
    that it begins with."""

    def __init__(
        self, command: Command, config: RunConfig, out: Path | None, suite: Suite, lanes: list[Lane], library: str
    ) -> None:
        check_tools(config.agent)
        open_sandbox(config.sandbox)  # a backend that is not allowed is refused before anything is written
        self.command, self.config, self.suite, self.lanes, self.library = command, config, suite, lanes, library
        self.folder = out or Path(config.run.out)
        self.named = bool(out or config.run.out)
        self.budget = Budget(config.budget)  # its clock starts
        self.wanted = sum(lane.wanted for lane in lanes)
        self.tally = Tally(lanes, self.budget)

    def briefing(self) -> ExperimentPlan:
        """What `learn` says before it starts."""
        return plan_experiment(self.config, self.lanes, self.budget, self.tally.total("finished"))


def run_all(plan: Plan, *, resume: bool, quiet: bool, json: bool, show: Show = show_summary) -> int:
    """Runs what the plan still owes in its folder, and gives the exit code. `show` prints the summary in the end."""
    config, folder = plan.config, plan.folder
    allow_open_files(config.run.concurrency)
    adapters = weights_of(plan.command, config)
    check_folder(folder, resume=resume)
    with lock_folder(folder), blaming_adapters(plan.command, config):
        open_folder(
            folder,
            command=plan.command,
            config=config,
            tasks_digest=tasks_digest(plan.lanes),
            library=plan.library,
            adapter_digest=weights_digest(adapters),
            wanted=plan.wanted,
            resume=resume,
        )
        keep_suite(folder, config)
        sweep(folder)
        say = options.say_nothing if quiet or json else options.say
        done = read_done(plan.lanes, folder, plan.tally.add)
        if plan.command == "learn" and not (quiet or json):
            for line in plan.briefing().lines():
                say(line)
        try:
            if not has_pending(plan.lanes, done):
                finalize_lanes(config, plan.lanes, folder, done)
            elif plan.budget.allows():  # else no model has to be started
                anyio.run(_run_owed, plan, adapters, folder, done, _progress(plan.tally, quiet or json), say)
        except KeyboardInterrupt:
            finished = _finish(
                folder, show, json=json, quiet=quiet
            )  # by the log: the last ones may be on the disk but not in the tally
            options.say(f"interrupted: {finished} of {plan.wanted} episodes are kept; go on with --resume")
            return 130
    _finish(folder, show, json=json, quiet=quiet)
    return _say_what_is_owed(plan)


async def _run_owed(
    plan: Plan,
    adapters: Sequence[str],
    folder: Path,
    done: Done,
    progress: Progress,
    say: Callable[[str], None],
) -> None:
    config = plan.config
    for promise in missing_guarantees(config.sandbox):
        options.say(f"sandbox.backend={config.sandbox.backend}: {promise}")
    if doubt := reward_warnings(config.reward):
        options.say(doubt)
    web = open_web(config.web)
    with one_interrupt():
        await probe(config.sandbox)
        opened = open_models(
            config.model,
            adapters,
            tool_format=config.agent.tool_format,
            log=folder / "server.log",
            concurrency=config.run.concurrency,
            say=say,
        )
        async with opened as models, open_auxiliary(config, say=say) as auxiliary:
            digest, sandbox = config_digest(config), partial(open_sandbox, config.sandbox)
            contexts = [RolloutContext(config, digest, plan.suite, model, sandbox, web, auxiliary) for model in models]
            async with open_executor(config, contexts, adapters, say) as run_episode:
                with progress, relay_logs(say, named=plan.wanted > 1):
                    await run_lanes(contexts, plan.lanes, folder, done, progress, plan.budget, run_episode)


def _say_what_is_owed(plan: Plan) -> int:
    """The exit code."""
    finished, errored = plan.tally.total("finished"), plan.tally.total("errored")
    if finished == plan.wanted:
        return 0
    if plan.budget.spent:
        kept = f"{finished:,} of {plan.wanted:,} episodes are kept"
        failed = f"; {errored:,} errored ({plan.tally.last_error})" if errored else ""
        options.say(f"{plan.budget.spent}: {kept}{failed}; raise it and --resume")
    else:
        pending = plan.wanted - finished
        options.say(
            f"{pending} of {plan.wanted} episodes did not finish ({plan.tally.last_error}); --resume tries them again "
            "with the same configuration; to change it, choose another --out"
        )
    return 3


def _progress(tally: Tally, quiet: bool) -> Progress:
    if quiet:
        return Quiet(tally)
    if sys.stderr.isatty():
        from rich.console import Console

        return LiveTable(tally, Console(stderr=True))
    return Plain(tally, options.say)


def _finish(folder: Path, show: Show, *, json: bool, quiet: bool) -> int:
    """Writes and shows the summary, and then its warnings; how many episodes are finished."""
    from hermes_lab.analysis.summaries.summary import summarize

    summary = summarize(folder)
    write_json(folder / "summary.json", summary)
    show(summary, json=json)
    if not (json or quiet):
        say_warnings(summary)
    finished: int = summary["finished"]
    return finished
