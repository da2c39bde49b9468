"""`run` and `learn`: task suites through the full agent."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer

from hermes_lab.config import RunConfig, config_digest, load_config
from hermes_lab.errors import ConfigError
from hermes_lab.models import open_model
from hermes_lab.protocols import Suite
from hermes_lab.records import write_json
from hermes_lab.rollout import Lab
from hermes_lab.sandbox import open_sandbox, probe, unkept_promises
from hermes_lab.skills.library import Library
from hermes_lab.tools.distributions import check_tools
from hermes_lab.web import open_web
from runners.batch import Done, owes, read_done, run_lanes, settle
from runners.commands import options
from runners.folder import check_folder, keep_suite, lock_folder, open_folder
from runners.interrupt import one_interrupt
from runners.libraries import begin_with
from runners.narration import narrated
from runners.open_files import allow_open_files
from runners.plan import Lane, plan_learn, plan_run, tasks_digest
from runners.progress import LiveTable, Plain, Progress, Quiet, Tally
from runners.snapshots import sweep
from tasks import load_suite

Out = Annotated[Path | None, typer.Option("--out", "-o", help="The run folder.", show_default=False)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out: do what it still owes.")]
RoundSize = Annotated[
    int | None, typer.Option("--round-size", help="Tasks of a round, in place of learning.round_size.", min=1)
]
Planner = Callable[[RunConfig, Suite, Library], list[Lane]]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(
        "run",
        help="Run a suite's tasks through the agent, many at once.\n\n"
        "hermes-lab run -c configs/run.yaml --out runs/first\n\n"
        "hermes-lab run -c suite.path=tasks.jsonl -c model.base_url=http://127.0.0.1:8000/v1 -c model.name=my-model",
    )(run)
    app.command(
        "learn",
        help="Run arms of a learning experiment: the same tasks with skill learning off and on, with a frozen library, "
        "with the suite's own rules (oracle), or with skills that say nothing (placebo).\n\n"
        "hermes-lab learn -c configs/one-rule.yaml --out runs/one-rule\n\n"
        "hermes-lab learn -c configs/learner.yaml --out runs/learner\n\n"
        "hermes-lab learn -c configs/learner.yaml --out runs/learner --resume   (after Ctrl-C or a crash)",
    )(learn)


def run(
    config: options.Config = None,
    out: Out = None,
    resume: Resume = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab run`."""
    return _execute("run", plan_run, config, out, resume, quiet, json)


def learn(
    config: options.Config = None,
    out: Out = None,
    resume: Resume = False,
    round_size: RoundSize = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab learn`."""
    sources = [*(config or []), *([f"learning.round_size={round_size}"] if round_size else [])]
    return _execute("learn", plan_learn, sources, out, resume, quiet, json)


def _execute(
    command: str,
    plan: Planner,
    sources: list[str] | None,
    out: Path | None,
    resume: bool,
    quiet: bool,
    json: bool,
) -> int:
    config = load_config(sources or [])
    folder = out or (Path(config.run.out) if config.run.out else None)
    if folder is None:
        raise ConfigError("run.out: say where the run is written, with --out DIR")
    allow_open_files(config.run.concurrency)
    suite = load_suite(config.suite)
    check_tools(config.agent)
    open_sandbox(config.sandbox)  # a backend that is not allowed is refused before anything is written
    library = begin_with(config.skills.library)
    lanes = plan(config, suite, library)
    wanted = sum(lane.wanted for lane in lanes)
    check_folder(folder, resume=resume)
    with lock_folder(folder):
        open_folder(
            folder,
            command=command,
            config=config,
            tasks_digest=tasks_digest(lanes),
            library=library.snapshot,
            adapter_digest=_digest_of(config.model.adapter),
            wanted=wanted,
            resume=resume,
        )
        keep_suite(folder, config)
        sweep(folder)
        tally = Tally(lanes)
        say = options.say_nothing if quiet or json else options.say
        done = read_done(lanes, folder, tally.add)
        try:
            if owes(lanes, done):
                anyio.run(_run, config, suite, lanes, folder, done, _progress(tally, quiet or json), say)
            else:
                settle(config, lanes, folder, done)
        except KeyboardInterrupt:
            finished = _finish(folder, json)  # by the log: the last ones may be on the disk but not in the tally
            options.say(f"interrupted: {finished} of {wanted} episodes are kept; go on with --resume")
            return 130
    _finish(folder, json)
    if errored := wanted - tally.total("finished"):
        options.say(f"{errored} of {wanted} episodes are owed ({tally.last_error}); --resume tries them again")
        return 3
    return 0


async def _run(
    config: RunConfig,
    suite: Suite,
    lanes: list[Lane],
    folder: Path,
    done: Done,
    progress: Progress,
    say: Callable[[str], None],
) -> None:
    for promise in unkept_promises(config.sandbox):
        options.say(f"sandbox.backend={config.sandbox.backend}: {promise}")
    web = open_web(config.web)
    with one_interrupt():
        await probe(config.sandbox)
        async with open_model(
            config.model,
            tool_format=config.agent.tool_format,
            log=folder / "server.log",
            concurrency=config.run.concurrency,
            say=say,
        ) as model:
            lab = Lab(config, config_digest(config), suite, model, partial(open_sandbox, config.sandbox), web)
            with progress, narrated(say, named=sum(lane.wanted for lane in lanes) > 1):
                await run_lanes(lab, lanes, folder, done, progress)


def _digest_of(adapter: str) -> str:
    """The digest of an adapter's folder; of one that only has a name at a server, nothing is known yet."""
    if not adapter or not Path(adapter).is_dir():
        return ""
    from hermes_lab.models.adapters import adapter_digest

    return adapter_digest(Path(adapter))


def _progress(tally: Tally, quiet: bool) -> Progress:
    if quiet:
        return Quiet(tally)
    if sys.stderr.isatty():
        from rich.console import Console

        return LiveTable(tally, Console(stderr=True))
    return Plain(tally, options.say)


def _finish(folder: Path, json: bool) -> int:
    """Writes and shows the summary; how many episodes are finished."""
    from analysis.summary import summarize
    from runners.commands.analyse import show_summary

    summary = summarize(folder)
    write_json(folder / "summary.json", summary)
    show_summary(summary, json=json)
    finished: int = summary["finished"]
    return finished
