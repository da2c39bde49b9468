"""`experiment`: arms x replicates x worlds on the same tasks."""

from pathlib import Path
from typing import Annotated

import typer

from hermes_lab.config.files import read_file
from hermes_lab.configs import find_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.execute import run_plan
from hermes_lab.runners.plans import describe, plan_of

RoundSize = Annotated[
    int | None, typer.Option("--round-size", help="Tasks per round; overrides learning.round_size.", min=1)
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "experiment",
        help="Run a learning experiment, which measures what skills add. It runs arms x replicates x worlds on the "
        "same tasks in the same order. Arms: skill learning off and on, a frozen library, the suite's true rules "
        "(oracle), and skills without content (placebo). It prints its plan and statistical power first; see "
        "docs/experiments.md.\n\n"
        "hermes-lab experiment -c configs/experiment.yaml --plan   (only print the plan)\n\n"
        "hermes-lab experiment -c configs/experiment.yaml --out runs/experiment\n\n"
        "hermes-lab experiment -c configs/experiment.yaml --out runs/experiment --resume   (after a crash)\n\n"
        "hermes-lab experiment -c configs/experiment.yaml -c learning.worlds=40 -c budget.tasks=0 "
        "--out runs/experiment --resume   (add worlds, with no limit on tasks)\n\n"
        "hermes-lab experiment -c configs/experiment.yaml -c budget.tasks=0 --out runs/experiment --resume   "
        "(continue without the budget that was spent)\n\n"
        "hermes-lab experiment -c configs/heldout.yaml -c model.merge=false "
        "-c 'learning.adapters=[\"\", runs/adapter]' --out runs/both   (skills x weights)",
    )(experiment)


def experiment(
    file: Annotated[
        Path | None,
        typer.Argument(help="A YAML file, as with -c.", show_default=False),
    ] = None,
    config: options.Config = None,
    out: options.Out = None,
    resume: options.Resume = False,
    only_plan: options.PlanOnly = False,
    round_size: RoundSize = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab experiment`."""
    sources = [*([str(file)] if file else []), *(config or [])]
    for source in sources:
        if "=" not in source and _is_study(Path(source)):
            raise ConfigError(f"{source} is a study; run it with `hermes-lab study {source}`")
    sources += [f"learning.round_size={round_size}"] if round_size else []
    plan = plan_of("learn", sources, out, only_shown=only_plan)
    if not only_plan:
        return run_plan(plan, resume=resume, quiet=quiet, json=json)
    if json:
        output.print_json(describe(plan))
        return 0
    for line in describe(plan).lines():
        typer.echo(line)
    return 0


def _is_study(file: Path) -> bool:
    """Whether the file has `parts:`. One that cannot be read is not: loading it says what is wrong."""
    try:
        return "parts" in read_file(find_config(file)).content
    except ConfigError:
        return False
