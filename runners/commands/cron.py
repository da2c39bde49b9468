"""`cron`: scheduled jobs, and the daemon that runs them."""

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer

from hermes_lab.cron.jobs import Job, JobStore, definition_of, jobs_of
from hermes_lab.cron.listing import as_json, job_cells, run_cells, ticker_line
from hermes_lab.cron.runs import Run, RunStore
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.interrupt import one_interrupt
from hermes_lab.runners.tables import table
from hermes_lab.sessions import hermes_home
from hermes_lab.text.counted import counted
from hermes_lab.text.printable import printable

T = TypeVar("T")
Name = Annotated[str, typer.Argument(help="The job's name.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Scheduled jobs: prompts and commands that run at set times. `run` or a gateway runs them. Jobs can "
        "also be defined under `cron` in config.yaml.",
    )
    app.add_typer(group, name="cron")
    group.command("list", help="List the jobs.\n\nhermes-lab cron list --json")(list_)
    group.command("show", help="Print a job and its last runs.\n\nhermes-lab cron show news")(show)
    group.command(
        "add",
        help="Add a job: a PROMPT for the agent, or a hermes-lab command.\n\n"
        "hermes-lab cron add news '0 9 * * mon-fri' 'Summarise the news.' --deliver telegram\n\n"
        "hermes-lab cron add night '30 2 * * *' --command 'run -c night.yaml --out runs/night-{date}' "
        "--max-seconds 20000\n\n"
        "hermes-lab cron add tea '2027-03-28 16:00' 'Tell me that it is time for tea.' --deliver telegram:dm:123",
    )(add)
    group.command("pause", help="Pause a job.\n\nhermes-lab cron pause news")(pause)
    group.command("resume", help="Make a paused job active again.\n\nhermes-lab cron resume news")(resume)
    group.command("remove", help="Remove a job; the output of its runs stays.\n\nhermes-lab cron remove news")(remove)
    group.command("approve", help="Approve a job that the agent has proposed.\n\nhermes-lab cron approve news")(approve)
    group.command(
        "trigger",
        help="Run a job now, and print its output. The exit code is 1 if it fails.\n\nhermes-lab cron trigger news",
    )(trigger)
    group.command("runs", help="List the latest runs, of all jobs or of one.\n\nhermes-lab cron runs news -n 50")(runs)
    group.command(
        "run",
        help="Run jobs at their times, until Ctrl-C.\n\nhermes-lab cron run -c model.yaml",
    )(run)
    group.command(
        "tick",
        help="Run the jobs that are due now, then exit. For a system's crontab.\n\n"
        "*/5 * * * * hermes-lab cron tick   (slots of the last hour are still due)",
    )(tick)


def list_(json: options.Json = False) -> None:
    """`hermes-lab cron list`."""
    home, jobs = hermes_home(), _jobs().all()
    latest = {job.name: RunStore(home).latest(1, job.name) for job in jobs}
    if json:
        rows = [as_json(job, latest[job.name]) for job in jobs]
        output.print_json({"jobs": rows, "ticker": ticker_line(home)})
        return
    if not jobs:
        output.say("no jobs yet; `hermes-lab cron add` makes one")
        return
    header = ("NAME", "STATE", "SCHEDULE", "ZONE", "NEXT", "LAST", "DELIVER", "DOES")
    for line in table(header, [job_cells(job, latest[job.name]) for job in jobs]):
        typer.echo(line)
    output.say(ticker_line(home) or "nothing runs these jobs now: start `hermes-lab cron run`, or the gateway")


def show(name: Name, json: options.Json = False) -> None:
    """`hermes-lab cron show`."""
    job = _jobs().find(name)
    latest = RunStore(hermes_home()).latest(10, name)
    whole = as_json(job, latest)
    if json:
        output.print_json(whole)
        return
    for field, value in whole.items():
        if field != "runs" and value not in (None, "", (), []):
            typer.echo(f"{field}: {printable(str(value), keep=chr(10))}")
    _print_runs(latest)


def add(
    context: typer.Context,
    name: Name,
    schedule: Annotated[
        str,
        typer.Argument(
            help="Five cron fields, @daily, 'every 2h', or one time: '2027-03-28 09:00'.", show_default=False
        ),
    ],
    prompt: Annotated[str, typer.Argument(help="The prompt for the agent.", show_default=False)] = "",
    command: Annotated[
        list[str] | None,
        typer.Option(
            help="Run this hermes-lab command instead; repeatable: stops if one fails. {date} and {slot} are replaced.",
            show_default=False,
        ),
    ] = None,
    zone: Annotated[str, typer.Option(help="Time zone; default: user.timezone, then the machine's.")] = "",
    skill: Annotated[list[str] | None, typer.Option(help="A skill to load; repeatable.", show_default=False)] = None,
    model: Annotated[str, typer.Option(help="Overrides model.name.", show_default=False)] = "",
    toolset: Annotated[
        list[str] | None, typer.Option(help="Overrides agent.toolsets; repeatable.", show_default=False)
    ] = None,
    deliver: Annotated[
        str, typer.Option(help="Also send the result to a file (./news.txt), a platform or the key of a chat.")
    ] = "local",
    file: Annotated[
        list[str] | None, typer.Option(help="Also send this file or pattern; repeatable.", show_default=False)
    ] = None,
    repeat: Annotated[int | None, typer.Option(help="Maximum number of runs.", show_default=False)] = None,
    missed: Annotated[str, typer.Option(help="Slots missed while nothing ran jobs: skip, or run once.")] = "skip",
    retry: Annotated[int, typer.Option(help="How often to retry an interrupted run.")] = 0,
    max_seconds: Annotated[float, typer.Option(help="Time limit of a run, in seconds.")] = 3600.0,
    json: options.Json = False,
) -> None:
    """`hermes-lab cron add`."""
    known = getattr(context.find_root().command, "commands", {})
    for line in command or ():
        first = line.removeprefix("hermes-lab").split()[:1]
        if first and first[0] not in known:
            raise ConfigError(f"--command: hermes-lab has no command {first[0]!r}; see hermes-lab --help")
    definition = definition_of(
        name=name,
        schedule=schedule,
        prompt=prompt,
        command=command,
        zone=zone,
        skills=skill or (),
        model=model,
        toolsets=toolset or None,
        deliver=deliver,
        files=file or (),
        repeat=repeat,
        missed=missed,
        retry=retry,
        max_seconds=max_seconds,
    )
    _done("added", _jobs().add(definition, datetime.now(UTC), folder=Path.cwd()), json)


def pause(name: Name, json: options.Json = False) -> None:
    """`hermes-lab cron pause`."""
    _done("paused", _jobs().pause(name), json)


def resume(name: Name, json: options.Json = False) -> None:
    """`hermes-lab cron resume`."""
    _done("resumed", _jobs().resume(name, datetime.now(UTC)), json)


def remove(name: Name, json: options.Json = False) -> None:
    """`hermes-lab cron remove`."""
    _done("removed", _jobs().remove(name), json)


def approve(name: Name, json: options.Json = False) -> None:
    """`hermes-lab cron approve`."""
    _done("approved", _jobs().approve(name, datetime.now(UTC)), json)


def trigger(name: Name, config: options.Config = None, json: options.Json = False) -> int:
    """`hermes-lab cron trigger`. Exits 1 if the run fails."""
    _jobs()
    claim = RunStore(hermes_home()).claim_by_hand(name, datetime.now(UTC))
    ended: Run | None = anyio.run(_with_one_interrupt, _ticker(config).work, claim)
    if ended is None:
        output.say(f"{name}: another process marked this run as lost; see `hermes-lab cron show {name}`")
        return 1
    if json:
        output.print_json(ended)
    elif claim.output.is_file():
        sys.stdout.write(printable(claim.output.read_bytes().decode(errors="replace"), keep="\n\t"))
        sys.stdout.flush()
    return 0 if ended.state == "ok" else 1


def runs(
    name: Annotated[str, typer.Argument(help="Only of this job.", show_default=False)] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of runs.", min=1)] = 20,
    json: options.Json = False,
) -> None:
    """`hermes-lab cron runs`."""
    jobs = _jobs()
    latest = RunStore(hermes_home()).latest(limit, name)
    if name and not latest:
        jobs.find(name)
    if json:
        output.print_json({"runs": latest})
    elif latest:
        _print_runs(latest)
    else:
        output.say("no runs yet")


def run(config: options.Config = None) -> None:
    """`hermes-lab cron run`."""
    ticker = _ticker(config)
    active = [job for job in _jobs().all() if job.state == "active"]
    output.say(f"cron: {counted(len(active), 'active job')}; Ctrl-C stops it")
    anyio.run(_with_one_interrupt, ticker.run)


def tick(config: options.Config = None) -> None:
    """`hermes-lab cron tick`."""
    _jobs()
    anyio.run(_with_one_interrupt, _ticker(config).once)


def _jobs() -> JobStore:
    """The jobs, with those of `config.yaml` as they stand there now."""
    store, changed = jobs_of(hermes_home())
    for line in changed:
        output.say(f"cron: {line}")
    return store


def _ticker(config: list[str] | None) -> Any:
    from hermes_lab.config.home_file import load_home_config
    from hermes_lab.cron.run import JobRunner
    from hermes_lab.cron.ticker import Ticker

    home = hermes_home()
    loaded = load_home_config(home, config or ())  # a mistake is told now, not at the first slot
    say = partial(_say)
    return Ticker(home, JobRunner(home, config or (), say), say=say, prompts=loaded.gateway.concurrency)


async def _with_one_interrupt(work: Callable[..., Awaitable[T]], *values: Any) -> T:
    async with one_interrupt():
        return await work(*values)


def _say(line: str) -> None:
    output.say(printable(line))


def _done(what: str, job: Job, json: bool) -> None:
    if json:
        output.print_json({what: as_json(job, [])})
        return
    next = job_cells(job, [])[4] if job.state == "active" and what != "removed" else ""
    output.say(f"{what}: {job.name}" + (f"; it runs next at {next} ({job.definition.zone})" if next else ""))


def _print_runs(latest: list[Run]) -> None:
    header = ("JOB", "SLOT", "STATE", "EXIT", "SECONDS", "COST", "DELIVERY", "OUTPUT", "NOTE")
    if latest:
        for line in table(header, list(map(run_cells, latest))):
            typer.echo(line)
