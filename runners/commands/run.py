"""`run` and `learn`: task suites through the full agent."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Suite
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.execute import Plan, run_all
from hermes_lab.runners.engine.batch import read_done
from hermes_lab.runners.engine.libraries import begin_with
from hermes_lab.runners.engine.plan import Lane, plan_run
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.runners.experiments.experiment_plan import ExperimentPlan
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite

RoundSize = Annotated[
    int | None, typer.Option("--round-size", help="Tasks of a round, in place of learning.round_size.", min=1)
]
PlanOnly = Annotated[
    bool, typer.Option("--plan", help="Only say what would be run, and what it can detect. Nothing is written.")
]


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
        help="Run an experiment on learning: arms x replicates x worlds, on the same tasks in the same order. Arms: "
        "skill learning off and on, a frozen library, the suite's own rules (oracle), and skills that say nothing "
        "(placebo). It begins by saying what it can detect; docs/experiments.md has the rest.\n\n"
        "hermes-lab learn -c configs/experiment.yaml --plan   (only say what would be run)\n\n"
        "hermes-lab learn -c configs/experiment.yaml --out runs/experiment\n\n"
        "hermes-lab learn -c configs/experiment.yaml --out runs/experiment --resume   (after Ctrl-C or a crash)\n\n"
        "hermes-lab learn -c configs/experiment.yaml -c budget.tasks=0 --out runs/experiment --resume   "
        "(its budget was spent: go on without)\n\n"
        "hermes-lab learn -c configs/heldout.yaml -c model.merge=false -c 'learning.adapters=[\"\", runs/adapter]' "
        "--out runs/both   (skills x weights)",
    )(learn)


def run(
    config: options.Config = None,
    out: options.Out = None,
    resume: options.Resume = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab run`."""
    return run_all(_planned("run", plan_run, config, out), resume=resume, quiet=quiet, json=json)


def learn(
    config: options.Config = None,
    out: options.Out = None,
    resume: options.Resume = False,
    only_plan: PlanOnly = False,
    round_size: RoundSize = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab learn`."""
    sources = [*(config or []), *([f"learning.round_size={round_size}"] if round_size else [])]
    plan = plan_of_learn(sources, out, only_plan=only_plan)
    if only_plan:
        if json:
            options.print_json(briefing_of(plan))
            return 0
        for line in briefing_of(plan).lines():
            typer.echo(line)
        return 0
    return run_all(plan, resume=resume, quiet=quiet, json=json)


def plan_of_learn(sources: list[str], out: Path | None, *, only_plan: bool = False) -> Plan:
    """What `learn` would run."""
    return _planned("learn", plan_learn, sources, out, only_plan=only_plan)


def _planned(
    command: Literal["run", "learn"],
    plan: Callable[[RunConfig, Suite, Library], list[Lane]],
    sources: list[str] | None,
    out: Path | None,
    *,
    only_plan: bool = False,
) -> Plan:
    config = load_config(sources or [])
    if not (out or config.run.out or only_plan):
        raise ConfigError("run.out: say where the run is written, with --out DIR")
    suite, library = load_suite(config.suite), begin_with(config.skills.library)
    return Plan(command, config, out, suite, plan(config, suite, library), library.snapshot)


def briefing_of(plan: Plan) -> ExperimentPlan:
    """What `--plan` tells; of a run that was begun, with what is there."""
    if plan.named:
        read_done(plan.lanes, plan.folder, plan.tally.add)
    return plan.briefing()
