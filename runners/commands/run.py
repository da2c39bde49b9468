"""`run`: runs the agent on a suite's tasks."""

from typing import Annotated

import typer

from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.execute import run_plan
from hermes_lab.runners.plans import plan_of, size_of


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "run",
        help="Run the agent on a suite's tasks, many at once.\n\n"
        "hermes-lab run -c configs/run.yaml --plan   (only print the plan)\n\n"
        "hermes-lab run -c configs/run.yaml --out runs/first\n\n"
        "hermes-lab run -c suite.path=tasks.jsonl -c model.base_url=http://127.0.0.1:8000/v1 -c model.name=my-model "
        "--out runs/mine",
    )(run)


def run(
    config: options.Config = None,
    out: options.Out = None,
    resume: options.Resume = False,
    only_plan: Annotated[bool, typer.Option("--plan", help="Print what would be run, then exit.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab run`."""
    plan = plan_of("run", config or [], out, only_shown=only_plan)
    if not only_plan:
        return run_plan(plan, resume=resume, quiet=quiet, json=json)
    size = size_of(plan)
    if json:
        output.print_json(size)
    else:
        typer.echo("\n".join(size.lines()))
    return 0
