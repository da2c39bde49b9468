"""`train`: LoRA training with locked hyperparameters; only started by a person."""

import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from enum import StrEnum
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
    from hermes_lab.training.plan import Plan


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="LoRA training with locked hyperparameters.", no_args_is_help=True)
    group.command(
        "sft",
        help="Fine-tune on the accepted episodes of run folders. The hyperparameters come from a lock file.\n\n"
        "hermes-lab train sft -c configs/train/sft.yaml -c 'data=\\[runs/demonstrations/ledger/demonstrator]'",
    )(sft)
    group.command(
        "preference",
        help="Train with DPO on pairs of rollouts of the same task, from run folders.\n\n"
        "hermes-lab train preference -c configs/train/preference.yaml -c parent=sft "
        "-c 'data=\\[runs/grpo/round-1/run]'",
    )(preference)
    group.command(
        "grpo",
        help="Train with GRPO. Each round samples rollouts with the latest adapter, takes a few steps on them and "
        "saves the next adapter. Uses the rollout server of the lock file, or starts one if it is not running.\n\n"
        "hermes-lab train grpo -c configs/train/grpo.yaml -c parent=sft --plan   (only show what will run)\n\n"
        "hermes-lab train grpo -c configs/train/grpo.yaml -c parent=sft\n\n"
        "hermes-lab train grpo -c configs/train/grpo.yaml -c parent=sft --resume   (after Ctrl-C or a crash)",
    )(grpo)
    group.command(
        "rounds",
        help="Show the rounds of a GRPO training.\n\nhermes-lab train rounds runs/grpo",
    )(rounds)
    group.command(
        "lock",
        help="Freeze hyperparameters into a lock file, verified by checksum. They are those of a file, or values that "
        "fit a base model on one GPU.\n\n"
        "hermes-lab train lock my-hyperparameters.yaml -o configs/locks/mine.yaml\n\n"
        "hermes-lab train lock --base Qwen/Qwen3-4B --gpu 24 --method sft -o configs/locks/mine.yaml",
    )(lock)
    train_proposals.register(group)
    app.add_typer(group, name="train")


class TrainMethod(StrEnum):
    """The kinds of training."""

    sft = "sft"
    preference = "preference"
    grpo = "grpo"


Planned = Annotated[
    bool,
    typer.Option("--plan", help="Only print the plan: steps, memory, time, and why the training would be refused."),
]


Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the training that was interrupted, from its last checkpoint.")
]


def sft(
    config: options.Config = None, resume: Resume = False, quiet: options.Quiet = False, plan: Planned = False
) -> int:
    """`hermes-lab train sft`."""
    from hermes_lab.training.config import load_train_config
    from hermes_lab.training.sft import plan_sft, train_sft

    training = load_train_config(_sources(config, resume))
    if plan:
        return _show(lambda: plan_sft(training, _say(quiet)))
    _echo_folder(lambda: train_sft(training, _say(quiet), _command_line()))
    return 0


def preference(
    config: options.Config = None, resume: Resume = False, quiet: options.Quiet = False, plan: Planned = False
) -> int:
    """`hermes-lab train preference`."""
    from hermes_lab.training.config import load_train_config
    from hermes_lab.training.preference import plan_preference, train_preference

    training = load_train_config(_sources(config, resume))
    if plan:
        return _show(lambda: plan_preference(training, _say(quiet)))
    _echo_folder(lambda: train_preference(training, _say(quiet), _command_line()))
    return 0


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


def grpo(
    config: options.Config = None,
    resume: Resume = False,
    quiet: options.Quiet = False,
    plan: Planned = False,
    probe: Probe = 0,
) -> int:
    """`hermes-lab train grpo`."""
    from hermes_lab.runners.environments.collect import open_sampler
    from hermes_lab.runners.listener import ShownListener
    from hermes_lab.training.grpo import train_grpo
    from hermes_lab.training.grpo_config import Sharing, load_grpo_config

    say = output.say_nothing if quiet else output.say
    training = load_grpo_config(_sources(config, resume))
    sharing = Sharing(training.turns, training.server_gpu)
    opened = partial(open_sampler, say=say, listener=ShownListener(quiet=quiet), sharing=sharing)
    if plan:
        return _plan_grpo(training, opened, probe)
    if probe:
        raise ConfigError("--probe needs --plan; training already stops if a round has no usable group")
    with lock_folder(Path(training.out)):
        try:
            _echo_folder(lambda: train_grpo(training, opened, say, _command_line()))
        except KeyboardInterrupt:
            output.say("interrupted: progress is saved; continue with --resume")
            return 130
    return 0


def _plan_grpo(training: "GrpoConfig", opened: "OpenSampler", groups: int) -> int:
    """Prints the plan, then probes the server if asked. 2 if the training would be refused."""
    from hermes_lab.training.grpo_plan import plan_grpo, probe
    from hermes_lab.training.lock import load_lock
    from hermes_lab.training.plan import lines

    locked = load_lock(Path(training.lock))
    code = _show(lambda: plan_grpo(training, locked))
    if groups:
        folder = Path(f"{training.out}-probe") / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        with redirect_stdout(sys.stderr), opened(locked, folder / "server.log") as sampler:
            found = probe(training, locked, sampler, groups, folder)
        typer.echo("\n".join(lines(found)))
    return code


def rounds(
    training: Annotated[
        Path, typer.Argument(help="The folder of a GRPO training: `out` of its configuration.", show_default=False)
    ],
    json: options.Json = False,
) -> None:
    """`hermes-lab train rounds`."""
    from hermes_lab.runners.tables import table
    from hermes_lab.training.round_table import read_rounds

    found = read_rounds(training)
    if json:
        output.print_json(found.to_dict())
        return
    lines = [*table(found.header(), found.rows()), *found.evaluations()]
    typer.echo("\n".join([*lines, *([f"stopped early: {found.stopped}"] if found.stopped else [])]))


def lock(
    out: Annotated[Path, typer.Option("--out", "-o", help="The lock file to write.", show_default=False)],
    source: Annotated[
        Path | None, typer.Argument(help="A YAML file of hyperparameters; instead of --base.", show_default=False)
    ] = None,
    base: Annotated[str, typer.Option(help="The base model: a hub id or a folder.", show_default=False)] = "",
    gpu: Annotated[int, typer.Option(min=1, help="Memory of the GPU in GB.")] = 24,
    method: Annotated[TrainMethod, typer.Option(help="The kind of training.")] = TrainMethod.sft,
    length: Annotated[int, typer.Option(min=16, help="Tokens of the longest row.")] = 4096,
    qlora: Annotated[bool, typer.Option("--qlora", help="Use 4 bits, even if bfloat16 fits.")] = False,
) -> None:
    """`hermes-lab train lock`."""
    from hermes_lab.training.lock import load_lock, save_lock, write_lock
    from hermes_lab.training.locked_files import warn_if_unpinned
    from hermes_lab.training.presets import preset

    if (source is None) == (not base):
        raise ConfigError("train lock: give either a file of hyperparameters, or --base with --gpu and --method")
    if source is not None:
        digest = write_lock(source, out)
    else:
        chosen = preset(base, gpu, method.value, length=length, qlora=qlora)
        output.say(chosen.sentence())
        digest = save_lock(chosen.locked, out)
    warn_if_unpinned(load_lock(out), output.say)
    typer.echo(f"{out}: locked, digest {digest}")


def _sources(config: list[str] | None, resume: bool) -> list[str]:
    """The sources of a training's configuration, in which --resume is the field `resume`."""
    return [*(config or []), *(["resume=true"] if resume else [])]


def _show(make: Callable[[], "Plan"]) -> int:
    """Prints a plan to stdout; 2 if the training would be refused."""
    with redirect_stdout(sys.stderr):
        plan = make()
    typer.echo("\n".join(plan.lines()))
    return 2 if plan.refusal else 0


def _echo_folder(train: Callable[[], Path]) -> None:
    """Prints the new adapter's folder to stdout; redirects other output of the training to stderr."""
    from hermes_lab.training.processes import is_first

    with redirect_stdout(sys.stderr):
        folder = train()
    if is_first():
        typer.echo(str(folder))


def _say(quiet: bool) -> Callable[[str], None]:
    """Where progress goes: stderr, of the first process."""
    from hermes_lab.training.processes import is_first

    return output.say_nothing if quiet or not is_first() else output.say


def _command_line() -> str:
    """The command as typed, for the adapter's card."""
    return shlex.join(["hermes-lab", *sys.argv[1:]])
