"""`skills promote`: makes skills live that the agent proposed, once they have been measured."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_lab.analysis.libraries import WITH_PROPOSALS, home_proposals
from hermes_lab.errors import ConfigError
from hermes_lab.lane import WHOLE
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.execute import run_plan
from hermes_lab.runners.engine.execute import RunPlan
from hermes_lab.runners.experiments.uplift import libraries_digest, open_source, plan_uplift
from hermes_lab.runners.plans import plan_of
from hermes_lab.runners.tables import table
from hermes_lab.skills.library import load_snapshot
from hermes_lab.skills.storage.proposals import Proposals, same_text
from hermes_lab.text.counted import counted
from hermes_lab.types import Skill

if TYPE_CHECKING:
    from hermes_lab.analysis.skill_effects.uplift import Uplift

_CHANGED = "not measured: it has changed since"
MaybeNames = Annotated[list[str] | None, typer.Argument(help="Proposals to promote.", show_default="all")]


def promote(
    skills: MaybeNames = None,
    uplift: Annotated[
        Path | None,
        typer.Option(help="The run of `skills uplift` that measured them. Without it, they are only listed."),
    ] = None,
    config: options.Config = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Measure them first, on the tasks of -c, in this folder.")
    ] = None,
    resume: options.Resume = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """`hermes-lab skills promote`."""
    if bool(config) != bool(out) or (out and uplift):
        raise ConfigError("give --uplift, or both -c and --out")
    proposals = home_proposals()
    pending = proposals.pending()
    chosen = _chosen(pending, skills or [])
    if not chosen or not (uplift or out):
        _list(proposals, chosen, json, quiet)
        return 0
    if config and out:
        if code := _measure(config, out, list(chosen), resume=resume, quiet=quiet or json):
            return code
        uplift = out / "uplift"
    assert uplift is not None
    measured = _measured(uplift, chosen)
    passed = [name for name, found in measured.items() if found.passed]
    if passed:
        # The measurement may have taken hours, in which chats went on: only what was measured goes live.
        reason = "; ".join(f"promoted {name}: {measured[name].why}" for name in passed)
        done = proposals.promote({name: chosen[name] for name in passed}, reason)
        measured |= {name: _Found(False, _CHANGED) for name in passed if name not in done}
        passed = done
    if json:
        output.print_json(
            {"promoted": passed, "waiting": {name: each.why for name, each in measured.items() if not each.passed}}
        )
        return 0
    rows = [(name, "promoted" if each.passed else "still a proposal", each.why) for name, each in measured.items()]
    for line in table(("SKILL", "", "UPLIFT"), rows):
        typer.echo(line)
    if not quiet:
        output.say(f"{counted(len(passed), 'skill')} promoted, {len(pending) - len(passed)} still proposed")
    return 0


def _measure(config: list[str], out: Path, names: list[str], *, resume: bool, quiet: bool) -> int:
    """Runs the tasks with all proposals, and then without each; returns the exit code."""
    library = out / "library"
    sources = [*config, "learning.arms=[frozen]", f"skills.library={WITH_PROPOSALS}"]
    if not _is_complete(library):
        again = resume and (library / "run.json").is_file()
        if code := run_plan(plan_of("learn", sources, library), resume=again, quiet=quiet, json=False, show=_nothing):
            return code
    source = open_source(str(library), "frozen", [])
    lanes = plan_uplift(source, skills=names)
    measured = out / "uplift"
    plan = RunPlan("uplift", source.config, measured, source.suite, lanes, libraries_digest(lanes))
    again = resume and (measured / "run.json").is_file()
    return run_plan(plan, resume=again, quiet=quiet, json=False, show=_nothing)


def _is_complete(run: Path) -> bool:
    from hermes_lab.analysis.data.runs import open_runs

    return (run / "run.json").is_file() and not open_runs(run)[0].warning()


def _nothing(content: dict[str, Any], *, json: bool) -> None:
    """Prints nothing: the result is which skills are promoted."""


class _Found:
    """What the measurement of a proposal says: whether it may go live, and why."""

    def __init__(self, passed: bool, why: str) -> None:
        self.passed = passed
        self.why = why


def _chosen(pending: Mapping[str, Skill], names: list[str]) -> Mapping[str, Skill]:
    for name in names:
        if name not in pending:
            raise ConfigError(f"{name}: no proposal; there are: {', '.join(pending) or 'none'}")
    return {name: skill for name, skill in pending.items() if not names or name in names}


def _list(proposals: Proposals, chosen: Mapping[str, Skill], json: bool, quiet: bool) -> None:
    new = chosen.keys() - proposals.live.load().skills.keys()
    if json:
        output.print_json({"promoted": [], "waiting": dict.fromkeys(chosen, "not measured")})
        return
    rows = [(name, "new" if name in new else "changed", skill.description) for name, skill in chosen.items()]
    for line in table(("PROPOSAL", "", "DESCRIPTION"), rows) if rows else ():
        typer.echo(line)
    if quiet:
        return
    output.say(counted(len(chosen), "proposal"))
    if chosen:
        output.say("measure and promote them with: hermes-lab skills promote -c CONFIG --out FOLDER")


def _measured(run: Path, chosen: Mapping[str, Skill]) -> dict[str, _Found]:
    """Raises `ConfigError` if the folder is no uplift run."""
    from hermes_lab.analysis.data.load import load_episodes
    from hermes_lab.analysis.data.runs import open_runs
    from hermes_lab.analysis.skill_effects.funnel import read_seen
    from hermes_lab.analysis.skill_effects.uplift import uplifts

    (opened,) = open_runs(run)
    if opened.manifest.command != "uplift":
        raise ConfigError(
            f"--uplift: {run} is a `{opened.manifest.command}` run; give one of `hermes-lab skills uplift`"
        )
    if warning := opened.warning():
        output.warn(warning)
    by_skill: dict[str, list[Uplift]] = {}
    for each in uplifts(load_episodes(run)):
        by_skill.setdefault(each.skill, []).append(each)
    with_all = [each for each in read_seen(run) if each.lane.startswith(WHOLE)]
    loaded = Counter(name for each in with_all for name in set(each.skills.loaded))
    other = _other_texts(run, {each.skills.snapshot for each in with_all}, chosen)
    return {
        name: _Found(False, _CHANGED) if name in other else _judged(by_skill.get(name, []), loaded[name])
        for name in chosen
    }


def _other_texts(run: Path, snapshots: Iterable[str], chosen: Mapping[str, Skill]) -> set[str]:
    """The proposals of which the run had another text in one of its libraries."""
    libraries = [load_snapshot(run / "skills" / snapshot).skills for snapshot in snapshots]
    return {
        name
        for name, skill in chosen.items()
        if any(name in library and not same_text(library[name], skill) for library in libraries)
    }


def _judged(found: "list[Uplift]", loaded: int) -> _Found:
    """May go live: in no world the tasks solved with it are fewer than those solved without it. A skill that no task
    loaded makes no difference, which says nothing about it."""
    if not found:
        return _Found(False, "not measured: no task listed it")
    if not loaded:
        return _Found(False, "not measured: no task loaded it")
    worst = min(found, key=lambda each: each.difference)
    low, high = (f"{100 * end:+.0f}" for end in worst.interval)
    where = f" in the worst of {len(found)} worlds" if len(found) > 1 else ""
    why = f"{100 * worst.difference:+.0f} points ({low} to {high}) over {counted(worst.pairs, 'pair')}{where}"
    why += f", loaded in {counted(loaded, 'task')}"
    return _Found(worst.difference >= 0, why)
