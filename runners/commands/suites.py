"""`tasks`: what suites there are, what their tasks look like, and whether they prove themselves."""

from functools import partial
from typing import Annotated

import anyio
import typer

from hermes_lab.config import SandboxConfig, SuiteConfig
from hermes_lab.errors import ConfigError
from runners.commands import options
from tasks import list_suites, load_suite

Name = Annotated[
    str,
    typer.Argument(help="A suite's name, or a JSONL file (`check` needs a suite with an oracle).", show_default=False),
]
Split = Annotated[str, typer.Option(help="The part of the suite.")]
Count = Annotated[int, typer.Option("--count", "-n", help="Tasks.", min=1)]
Seed = Annotated[int, typer.Option(help="Draws the tasks.")]
World = Annotated[int, typer.Option(help="Draws the hidden rules.", min=0)]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Task suites.", no_args_is_help=True)
    group.command("list", help="The suites that are installed.")(list_)
    group.command("show", help="Some tasks of a suite.\n\nhermes-lab tasks show ledger --split heldout")(show)
    group.command(
        "check",
        help="Prove a suite: the oracle scores 1, a no-op 0, the naive policy fails just where a rule is triggered, "
        "tampering scores 0.\n\nhermes-lab tasks check ledger -n 50",
    )(check)
    app.add_typer(group, name="tasks")


def list_() -> None:
    """`hermes-lab tasks list`."""
    for name in list_suites():
        suite = load_suite(SuiteConfig(name=name))
        typer.echo(f"{name}  splits: {', '.join(suite.splits)}")


def show(name: Name, split: Split = "train", count: Count = 3, seed: Seed = 0, world: World = 0) -> None:
    """`hermes-lab tasks show`."""
    suite = load_suite(_config(name))
    wanted = 0 if name.endswith(".jsonl") else count
    for task in suite.load(split=split, count=wanted, seed=seed, world=world)[:count]:
        typer.echo(f"{task.id}  triggers: {', '.join(task.triggers) or 'none'}  files: {', '.join(task.files)}")
        typer.echo(f"  {task.prompt}\n")


def check(
    name: Name,
    split: Split = "train",
    count: Count = 20,
    seed: Seed = 0,
    world: World = 0,
) -> int:
    """`hermes-lab tasks check`."""
    from hermes_lab.sandbox import open_sandbox
    from tasks.check import Provable, check_suite

    suite = load_suite(_config(name))
    if not isinstance(suite, Provable):
        raise ConfigError(
            f"{name}: has no oracle, so it cannot prove itself; a dry run judges its rows with "
            "-c model.provider=scripted -c model.name=tasks.learner:noop"
        )
    report = anyio.run(
        partial(
            check_suite,
            suite,
            split=split,
            count=count,
            seed=seed,
            world=world,
            open_sandbox=partial(open_sandbox, SandboxConfig()),
        )
    )
    typer.echo(report.sentence())
    for failure in report.failures:
        options.say(failure)
    return 2 if report.failures else 0


def _config(name: str) -> SuiteConfig:
    return SuiteConfig(path=name) if name.endswith(".jsonl") else SuiteConfig(name=name)
