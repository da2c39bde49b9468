"""`skills uplift`: the causal effect of each skill, from rerunning tasks without it."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_lab.analysis.libraries import home_proposals
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.execute import run_plan
from hermes_lab.runners.engine.execute import RunPlan
from hermes_lab.runners.experiments.uplift import libraries_digest, open_source, plan_uplift
from hermes_lab.runners.tables import table
from hermes_lab.text.counted import counted

if TYPE_CHECKING:
    from hermes_lab.analysis.skill_effects.uplift import Uplift


def uplift(
    run: Annotated[str, typer.Argument(help="An experiment, as RUN or RUN:LANE; or a finished uplift run.")],
    out: options.Out = None,
    arm: Annotated[str, typer.Option(help="For RUN: the arm whose skills are left out, one at a time.")] = "on",
    skills: Annotated[
        str, typer.Option(help="Skill names, separated by commas.", show_default="all that prompts list")
    ] = "",
    tasks: Annotated[int, typer.Option(help="Maximum number of tasks per skill and lane; 0: all.", min=0)] = 0,
    proposed: Annotated[
        bool, typer.Option("--proposed", help="Only the skills that the agent proposes (`skills promote`).")
    ] = False,
    about: Annotated[
        bool, typer.Option("--about", help="Only tasks that the skill is about: cheaper, but misses harm elsewhere.")
    ] = False,
    config: options.Config = None,
    resume: options.Resume = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab skills uplift`."""
    from hermes_lab.analysis.data.runs import open_runs

    if Path(run).is_dir() and (opened := open_runs(Path(run))[0]).manifest.command == "uplift":
        if out:
            raise ConfigError(f"{run}: is an uplift run; give an experiment, or leave out --out to print its table")
        output.warn(opened.warning())
        _show(Path(run), {}, json=json)
        return 0
    source = open_source(run, arm, config or [])
    if not out:
        raise ConfigError("--out: give a folder for the reruns")
    output.warn(source.warning)
    names = [name.strip() for name in skills.split(",") if name.strip()]
    if proposed:
        names = [name for name in home_proposals().pending() if not names or name in names]
        if not names:
            output.say("nothing to measure: there are no proposals")
            return 0
    lanes = plan_uplift(source, skills=names, about=about, most=tasks)
    plan = RunPlan("uplift", source.config, out, source.suite, lanes, libraries_digest(lanes))
    if not (quiet or json):
        without = len(lanes) - len(source.lanes)
        output.say(
            f"{counted(plan.wanted, 'episode')}: {counted(len(source.lanes), 'lane')}, {without} without a skill"
        )
    return run_plan(plan, resume=resume, quiet=quiet, json=json, show=partial(_show, out))


def _show(folder: Path, summary: dict[str, Any], *, json: bool) -> None:
    """Prints the table of an uplift; `summary` is empty if nothing was run."""
    from hermes_lab.analysis.data.load import load_episodes
    from hermes_lab.analysis.skill_effects.uplift import uplift_sentence, uplifts

    found = uplifts(load_episodes(folder))
    if json:
        rows = [each.to_dict() for each in found]
        output.print_json({"uplift": rows} | ({"summary": summary} if summary else {}))
        return
    if not found:
        output.say(f"{folder}: {uplift_sentence(found)}")
        return
    several = len({each.world for each in found}) > 1
    header = ["SKILL", *(["WORLD"] if several else []), "PAIRS", "WITH", "WITHOUT", "HELPED", "HARMED", "UPLIFT"]
    lines = [(each.skill, *([str(each.world)] if several else []), *_cells(each)) for each in found]
    for line in table([*header, "P (HOLM)", "EFFECT"], lines):
        typer.echo(line)
    typer.echo(uplift_sentence(found))


def _cells(each: "Uplift") -> tuple[str, ...]:
    low, high = (f"{100 * end:+.0f}" for end in each.interval)
    return (
        str(each.pairs) + (f" of {counted(each.tasks, 'task')}" if each.tasks < each.pairs else ""),
        f"{each.with_it.successes}/{each.pairs}",
        f"{each.without_it.successes}/{each.pairs}",
        str(each.helped),
        str(each.harmed),
        f"{100 * each.difference:+.0f} points ({low} to {high})",
        f"{each.p_holm:.2g}",
        each.effect,
    )
