"""`study`: runs several experiments from one file, and reports on each and on all together."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from hermes_lab.config.schema import Arm
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.execute import run_plan
from hermes_lab.runners.commands.report import save_report
from hermes_lab.runners.engine.execute import RunPlan
from hermes_lab.runners.engine.weights import weights_of
from hermes_lab.runners.experiments.experiment_plan import ExperimentPlan, pooled_power
from hermes_lab.runners.experiments.groups import EXPLORATORY, extended_runs, register_groups, registered_groups
from hermes_lab.runners.experiments.study import MODEL_NAME, MODEL_URL, Study, read_study
from hermes_lab.runners.plans import describe, plan_of
from hermes_lab.runners.tables import interval, table

PlotFormat = StrEnum("PlotFormat", ["png", "svg", "pdf"])


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "study",
        help="Run a study: the same experiment on several suites with several agents. Writes a report per suite and a "
        "plot, and prints the results. Run it again to continue; finished runs are not repeated.\n\n"
        "hermes-lab study configs/experiments/flagship.yaml --plan   (only print the plan)\n\n"
        "hermes-lab study configs/experiments/flagship.yaml\n\n"
        "hermes-lab study configs/experiments/flagship.yaml --so-far   (results of the finished runs)\n\n"
        "hermes-lab study configs/experiments/flagship.yaml -c out=runs/short -c learning.worlds=4   "
        "(override fields of the file, or of every run)\n\n"
        "hermes-lab study configs/experiments/flagship.yaml --so-far --plots pdf   (plots for a paper)\n\n"
        f"{MODEL_URL}=https://host/v1 {MODEL_NAME}=a-model hermes-lab study configs/experiments/flagship.yaml   "
        "(any OpenAI-compatible endpoint in place of the file's models)",
    )(study)


def study(
    file: Annotated[Path, typer.Argument(help="The study's YAML file; see docs/experiments.md.", show_default=False)],
    config: options.Config = None,
    only_plan: options.PlanOnly = False,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Print the results of the finished runs; run nothing.")
    ] = False,
    plots: Annotated[PlotFormat, typer.Option(help="The format of the plots.")] = PlotFormat.png,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab study`."""
    whole = found = read_study(file, config or [])
    pending: list[str] = []
    if so_far:
        found, pending = _finished(found)
    elif code := _run(found, only_plan=only_plan, quiet=quiet, json=json):
        return code
    if only_plan:
        return 0
    _answer(found, pending, registered_groups(whole), plots.value, quiet=quiet, json=json)
    incomplete = [run.folder for run in found.runs if not _is_finished(run.folder)]
    for folder in incomplete:
        output.say(f"incomplete, some episodes errored: {folder}; run the same command again to retry them")
    return _UNFINISHED if incomplete and not so_far else 0


_UNFINISHED = 3
"""The exit code of a run with missing episodes."""


def _finished(study: Study) -> tuple[Study, list[str]]:
    """The study with its finished runs only, and the folders of the others."""
    done = [run for run in study.runs if _is_finished(run.folder) or _is_over(run.folder)]
    if not done:
        raise ConfigError(f"{study.folder}: no run of this study is finished; leave out --so-far to run it")
    return study._replace(runs=done), [str(run.folder) for run in study.runs if run not in done]


def _is_finished(folder: Path) -> bool:
    from hermes_lab.analysis.data.runs import open_runs

    try:
        return not open_runs(folder)[0].pending
    except ConfigError:  # no run, or no episodes yet
        return False


def _is_over(folder: Path) -> bool:
    """Whether only errored episodes, and those that cannot run without them, are missing."""
    from hermes_lab.analysis.comparison.sequential import PROGRESS, progress_of
    from hermes_lab.analysis.data.columns import read_columns

    try:
        found = progress_of(folder, read_columns(folder, PROGRESS))
    except ConfigError:  # no run
        return False
    return found.finished > 0 and not found.under_way


def _run(study: Study, *, only_plan: bool, quiet: bool, json: bool) -> int:
    """Plans all runs, and runs the unfinished ones. A run that only errors left incomplete does not hold up the
    others."""
    # All are planned before the first is run, so that a mistake in the last one shows at once.
    plans = [plan_of("learn", run.sources, run.folder) for run in study.runs]
    if only_plan:
        described = {str(run.folder): describe(plan) for run, plan in zip(study.runs, plans, strict=True)}
        _show_plans(study, described, json=json)
        return 0
    _check_adapters(study, plans)
    register_groups(study)
    for number, (run, plan) in enumerate(zip(study.runs, plans, strict=True), 1):
        output.say(f"{run.folder} ({number} of {len(study.runs)})")
        begun = (run.folder / "run.json").is_file()
        code = run_plan(plan, resume=begun, quiet=quiet, json=json, show=_nothing)
        if code and not (code == _UNFINISHED and _is_over(run.folder)):
            output.say(f"the study stopped at {run.folder}; run the same command again to continue")
            return code
    return 0


def _check_adapters(study: Study, plans: list[RunPlan]) -> None:
    """Raises `ConfigError` if an unfinished run needs an adapter that is missing: it may come hours after the first."""
    from hermes_lab.models.adapters import check_folders

    for run, plan in zip(study.runs, plans, strict=True):
        try:
            check_folders(plan.config.model, weights_of(plan.command, plan.config))
        except ConfigError as error:
            if not _is_finished(run.folder):
                raise ConfigError(f"variant {run.variant}: {error}") from None


def _answer(
    study: Study, pending: list[str], registered: frozenset[str], plots: str, *, quiet: bool, json: bool
) -> None:
    """Prints the results and writes reports and plots. `registered` are the groups chosen before the first run."""
    parts = list(_of_parts(study, quiet=quiet))
    groups = []
    for group in _of_groups(study):
        extended = extended_runs(study, group["name"])
        as_registered = group["name"] in registered and not extended
        groups.append(group | {"registered": as_registered, "extended": extended})
    costs = dict(_costs(study))
    plotted = [str(plot) for plot in _draw(study, plots)]
    if json:
        found = {"parts": parts, "groups": groups, "costs": costs, "plots": plotted, "pending": pending}
        output.print_json({"out": str(study.folder)} | found)
        return
    for answer in (*parts, *groups):
        typer.echo("\n".join([*_lines(answer), ""]))
    typer.echo("\n".join([*_cost_lines(costs), ""]))
    typer.echo(f"plots: {', '.join(plotted)}")
    for folder in pending:
        typer.echo(f"not finished, left out: {folder}")


def _show_plans(study: Study, plans: dict[str, ExperimentPlan], *, json: bool) -> None:
    """Prints what would be run, and the pooled power of each group of parts under one variant."""
    together = {}
    for group in study.groups:
        runs = max(study.of(group).values(), key=len, default=[])
        if powers := pooled_power([plans[str(folder)] for _, folder in runs]):
            together[group] = powers
    if json:
        output.print_json({"runs": plans, "groups": together})
        return
    for folder, plan in plans.items():
        typer.echo("\n".join([f"{folder}:", *(f"  {line}" for line in plan.lines())]))
    episodes = sum(plan.episodes for plan in plans.values())
    typer.echo(f"in all: {len(plans)} runs, {episodes:,} episodes")
    for group, powers in together.items():
        typer.echo(f"{group}:")
        for power in powers:
            typer.echo(f"  power {power.of}: {power.sentence}")
        typer.echo(f"  assumed: {powers[0].assumed}")


def _of_parts(study: Study, *, quiet: bool) -> Iterator[dict[str, Any]]:
    """The finding of each part: the effect of skills in each run, and the change between the compared variants."""
    from hermes_lab.analysis.comparison.study import part_finding

    for part, runs in study.parts():
        folders = {run.variant: run.folder for run in runs}
        report = study.folder / part / "report.html"
        compare = study.compare if study.compare and folders.keys() >= set(study.compare) else None
        save_report([folders[name] for name in compare or folders], report, quiet=quiet)
        yield {"parts": [part]} | part_finding(part, folders, compare).to_dict() | {"report": str(report)}


def _of_groups(study: Study) -> Iterator[dict[str, Any]]:
    """The findings of groups of parts."""
    from hermes_lab.analysis.comparison.study import group_finding

    for group in study.groups:
        runs = study.of(group)
        compare = study.compare if study.compare and runs.keys() >= set(study.compare) else None
        if runs:
            parts = tuple(dict.fromkeys(part for of_variant in runs.values() for part, _ in of_variant))
            trainings = {name: variants for name, variants in study.trainings.items() if runs.keys() >= set(variants)}
            yield {"parts": parts} | group_finding(group, runs, compare, trainings).to_dict()


def _costs(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    """The total cost of each variant's runs."""
    from hermes_lab.analysis.comparison.study import cost_of

    for variant in dict.fromkeys(run.variant for run in study.runs):
        yield variant, cost_of(run.folder for run in study.runs if run.variant == variant).to_dict()


def _cost_lines(costs: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "costs, with reviews:"
    names = ("episodes", "prompt_tokens", "completion_tokens")
    rows = [[who, *(f"{cost[name]:,}" for name in names), f"{cost['hours']:.2f}"] for who, cost in costs.items()]
    yield from (f"  {line}" for line in table(["", "episodes", "prompt tokens", "completion tokens", "hours"], rows))
    for who, cost in costs.items():
        if cost["uncounted_calls"]:
            yield f"  {who}: without {cost['uncounted_calls']:,} model calls that had no usage"


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    """A finding as text: a table of rates, and the verdicts."""
    of = "" if answer["parts"] == [answer["name"]] else f" ({', '.join(answer['parts'])})"
    yield f"{answer['name']}{of}: solved at the first submission{', ' * bool(answer['when'])}{answer['when']}"
    if extended := answer.get("extended"):
        yield f"  exploratory: worlds were added to {', '.join(extended)} after the groups were registered"
    elif not answer.get("registered", True):
        yield f"  {EXPLORATORY}"
    rates = answer["rates"]
    arms = sorted({arm for of_variant in rates.values() for arm in of_variant}, key=list(get_args(Arm)).index)
    rows = [[variant, *(_rate(of_arm.get(arm)) for arm in arms)] for variant, of_arm in rates.items()]
    yield from (f"  {line}" for line in table(["", *arms], rows))
    for name, verdict in answer["verdicts"].items():
        yield f"  {name}: {verdict['sentence']}"
        yield from (f"    {cause}" for cause in verdict["causes"])
    for name, over in answer.get("trainings", {}).items():
        yield f"  {name}: {over['sentence']}"
    for variant, curve in answer["curves"].items():
        yield f"  {variant}, on: {curve['sentence']}"
    if "report" in answer:
        yield f"  report: {answer['report']}"


def _rate(rate: dict[str, Any] | None) -> str:
    if not rate or not rate["of"]:
        return "-"
    return f"{rate['count']}/{rate['of']} = {100 * rate['rate']:.0f} % ({interval(rate['low'], rate['high'])})"


def _draw(study: Study, suffix: str) -> Iterator[Path]:
    """Plots a panel for each part and variant, and for each group and variant if there are groups."""
    from hermes_lab.analysis.comparison.study import pool
    from hermes_lab.analysis.data.load import load_episodes
    from hermes_lab.analysis.plots.study import COLUMNS, save_study

    frames = {
        part: {run.variant: load_episodes(run.folder, columns=COLUMNS) for run in runs} for part, runs in study.parts()
    }
    save_study(frames, path := study.folder / f"study.{suffix}")
    yield path
    if study.groups:
        every = {group: study.of(group) for group in study.groups if study.of(group)}
        pooled = {group: {name: pool(name, runs, COLUMNS) for name, runs in of.items()} for group, of in every.items()}
        save_study(pooled, path := study.folder / f"groups.{suffix}")
        yield path


def _nothing(content: dict[str, Any], *, json: bool) -> None:
    """Prints no summary of single runs; `hermes-lab summary` does."""
    del content, json
