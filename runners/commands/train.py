"""`train`: locked LoRA training, which only a person starts."""

from pathlib import Path
from typing import Annotated

import typer

from runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Locked LoRA training.", no_args_is_help=True)
    group.command(
        "sft",
        help="Fine-tune on the accepted episodes of run folders, with the hyperparameters of a locked file.\n\n"
        "hermes-lab train sft -c configs/train/sft.yaml -c data=\\[runs/loop/demonstrations]",
    )(sft)
    group.command(
        "lock",
        help="Make a locked file: a person's decision, checked by its digest ever after.\n\n"
        "hermes-lab train lock my-hyperparameters.yaml -o configs/locks/mine.yaml",
    )(lock)
    app.add_typer(group, name="train")


def sft(config: options.Config = None, quiet: options.Quiet = False) -> None:
    """`hermes-lab train sft`."""
    from training.config import load_train_config
    from training.sft import train_sft

    folder = train_sft(load_train_config(config or []), options.say_nothing if quiet else options.say)
    typer.echo(str(folder))


def lock(
    source: Annotated[Path, typer.Argument(help="A YAML file of the locked fields.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The locked file to write.", show_default=False)],
) -> None:
    """`hermes-lab train lock`."""
    from training.lock import write_lock

    locked = write_lock(source, out)
    typer.echo(f"{out}: locked, digest {locked}")
