"""`train`: LoRA training with locked hyperparameters; only started by a person."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options, train_proposals
from hermes_lab.runners.engine.folder import lock_folder

if TYPE_CHECKING:
    from hermes_lab.training.grpo_config import GrpoConfig
    from hermes_lab.training.grpo_run import OpenSampler


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="LoRA training with locked hyperparameters.", no_args_is_help=True)
    group.command(
        "sft",
        help="Fine-tune on the accepted episodes of run folders, with hyperparameters from a lock file.\n\n"
        "hermes-lab train sft -c configs/train/sft.yaml -c data=\\[runs/loop/demonstrations]",
    )(sft)
    group.command(
        "preference",
        help="Train with DPO on pairs of rollouts of the same task, from run folders.\n\n"
        "hermes-lab train preference -c configs/train/preference.yaml -c parent=sft -c data=\\[runs/grpo/round-1/run]",
    )(preference)
    group.command(
        "grpo",
        help="Train with GRPO. Each round samples rollouts with the latest adapter, takes a few steps on them and "
        "saves the next adapter. Uses the rollout server of the lock file, or starts one if it is not running.\n\n"
        "hermes-lab train grpo -c configs/train/grpo.yaml -c parent=sft --plan   (only show what will run)\n\n"
        "hermes-lab train grpo -c configs/train/grpo.yaml -c parent=sft\n\n"
        "hermes-lab train grpo -c configs/train/grpo.yaml -c parent=sft -c resume=true   (after Ctrl-C or a crash)",
    )(grpo)
    group.command(
        "lock",
        help="Freeze hyperparameters into a lock file, verified by checksum.\n\n"
        "hermes-lab train lock my-hyperparameters.yaml -o configs/locks/mine.yaml",
    )(lock)
    train_proposals.register(group)
    app.add_typer(group, name="train")


def sft(config: options.Config = None, quiet: options.Quiet = False) -> None:
    """`hermes-lab train sft`."""
    from hermes_lab.training.config import load_train_config
    from hermes_lab.training.sft import train_sft

    training = load_train_config(config or [])
    _echo_folder(lambda: train_sft(training, output.say_nothing if quiet else output.say, _command_line()))


def preference(config: options.Config = None, quiet: options.Quiet = False) -> None:
    """`hermes-lab train preference`."""
    from hermes_lab.training.config import load_train_config
    from hermes_lab.training.preference import train_preference

    training = load_train_config(config or [])
    _echo_folder(lambda: train_preference(training, output.say_nothing if quiet else output.say, _command_line()))


Planned = Annotated[
    bool, typer.Option("--plan", help="Only show what the training needs: steps, memory, time, and what is refused.")
]
Probe = Annotated[
    int,
    typer.Option(
        "--probe",
        min=0,
        metavar="GROUPS",
        help="With --plan: collect this many groups at the server, to see whether they are usable.",
        show_default=False,
    ),
]


def grpo(config: options.Config = None, quiet: options.Quiet = False, plan: Planned = False, probe: Probe = 0) -> int:
    """`hermes-lab train grpo`."""
    from hermes_lab.runners.environments.collect import open_sampler
    from hermes_lab.runners.listener import ShownListener
    from hermes_lab.training.grpo import train_grpo
    from hermes_lab.training.grpo_config import load_grpo_config

    say = output.say_nothing if quiet else output.say
    training = load_grpo_config(config or [])
    opened = partial(open_sampler, say=say, listener=ShownListener(quiet=quiet))
    if plan:
        return _plan_grpo(training, opened, probe)
    if probe:
        raise ConfigError("--probe: give it together with --plan; a training stops by itself after a hopeless round")
    with lock_folder(Path(training.out)):
        try:
            _echo_folder(lambda: train_grpo(training, opened, say, _command_line()))
        except KeyboardInterrupt:
            output.say("interrupted: progress is saved; continue with -c resume=true")
            return 130
    return 0


def _plan_grpo(training: "GrpoConfig", opened: "OpenSampler", groups: int) -> int:
    """Prints the plan, then probes the server if asked."""
    from hermes_lab.training.grpo_plan import grpo_rows, probe
    from hermes_lab.training.lock import load_lock

    locked = load_lock(Path(training.lock))
    _print_rows(f"grpo under {training.lock}", grpo_rows(training, locked))
    if groups:
        folder = Path(f"{training.out}-probe") / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        with redirect_stdout(sys.stderr), opened(locked, folder / "server.log") as sampler:
            found = probe(training, locked, sampler, groups, folder)
        _print_rows("", found)
    return 0


def _print_rows(title: str, rows: Sequence[tuple[str, str]]) -> None:
    for line in [*([title] if title else []), *(f"  {name:<9} {text}" for name, text in rows)]:
        typer.echo(line)


def lock(
    source: Annotated[Path, typer.Argument(help="A YAML file of hyperparameters.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The lock file to write.", show_default=False)],
) -> None:
    """`hermes-lab train lock`."""
    from hermes_lab.training.lock import write_lock

    locked = write_lock(source, out)
    typer.echo(f"{out}: locked, digest {locked}")


def _echo_folder(train: Callable[[], Path]) -> None:
    """Prints the new adapter's folder to stdout; redirects other output of the training to stderr."""
    with redirect_stdout(sys.stderr):
        folder = train()
    typer.echo(str(folder))


def _command_line() -> str:
    """The command as typed, for the adapter's card."""
    return shlex.join(["hermes-lab", *sys.argv[1:]])
