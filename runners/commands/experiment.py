"""`experiment`: a study of several runs, from learning to report."""

from pathlib import Path
from typing import Annotated, Any

import typer

from runners.commands import options
from runners.commands.execute import run_all
from runners.commands.report import save_report
from runners.commands.run import PlanOnly, briefing_of, plan_of_learn
from runners.commands.summary import show_summary
from runners.study import MODEL_NAME, MODEL_URL, Run, Study, read_study


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "experiment",
        help="Run a study: the same experiment on several suites with several agents, then a report of each suite, "
        "a picture of all and the answers. Begun again it goes on where it was; what is finished is not run twice.\n\n"
        "hermes-lab experiment configs/experiments/flagship.yaml --plan   (only say what would be run)\n\n"
        "hermes-lab experiment configs/experiments/flagship.yaml\n\n"
        "hermes-lab experiment configs/experiments/flagship.yaml -c out=runs/short -c learning.worlds=4   "
        "(fields of the file, or of every run)\n\n"
        f"{MODEL_URL}=https://host/v1 {MODEL_NAME}=a-model hermes-lab experiment configs/experiments/flagship.yaml   "
        "(any OpenAI-compatible endpoint in place of the file's models)",
    )(experiment)


def experiment(
    file: Annotated[Path, typer.Argument(help="The study, a YAML file; docs/experiments.md.", show_default=False)],
    config: options.Config = None,
    only_plan: PlanOnly = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab experiment`."""
    study = read_study(file, config or [])
    # All are planned before the first is run, so that a mistake in the last costs no hours.
    plans = {str(run.folder): briefing_of(plan_of_learn(run.sources, run.folder)) for run in study.runs}
    if only_plan:
        if json:
            options.print_json(plans)
            return 0
        for folder, plan in plans.items():
            typer.echo("\n".join([f"{folder}:", *(f"  {line}" for line in plan.lines())]))
        return 0
    for number, run in enumerate(study.runs, 1):
        options.say(f"{run.folder} ({number} of {len(study.runs)})")
        begun = (run.folder / "run.json").is_file()
        planned = plan_of_learn(run.sources, run.folder)  # anew: the clock of its budget starts now
        if code := run_all(planned, resume=begun, quiet=quiet, json=json, show=_nothing if json else show_summary):
            options.say(f"the study ends here, at {run.folder}; the same command goes on")
            return code
    answers = [_answer(study, part, runs, quiet=quiet) for part, runs in study.parts()]
    picture = _draw(study)
    if json:
        options.print_json({"out": str(study.folder), "parts": answers, "picture": str(picture)})
        return 0
    for answer in answers:
        typer.echo(f"\n{answer['part']}")
        for name, sentence in answer["verdicts"].items():
            typer.echo(f"  {name}: {sentence}")
        typer.echo(f"  report: {answer['report']}")
    typer.echo(f"\npicture: {picture}")
    return 0


def _answer(study: Study, part: str, runs: list[Run], *, quiet: bool) -> dict[str, Any]:
    """Of each run of a part whether skills made it better, and what changed between the two that are compared."""
    from analysis.verdict import verdict

    verdicts = {run.variant: verdict(run.folder).sentence for run in runs}
    shown = [run.folder for run in runs]
    if study.compare:
        folders = {run.variant: run.folder for run in runs}
        shown = [folders[name] for name in study.compare]
        verdicts[" -> ".join(study.compare)] = verdict(*shown).sentence
    report = study.folder / part / "report.html"
    save_report(shown, report, quiet=quiet)
    return {"part": part, "verdicts": verdicts, "report": str(report)}


def _draw(study: Study) -> Path:
    from analysis.load import load_episodes
    from analysis.plots.study import COLUMNS, save_study

    frames = {
        part: {run.variant: load_episodes(run.folder, columns=COLUMNS) for run in runs} for part, runs in study.parts()
    }
    save_study(frames, path := study.folder / "study.png")
    return path


def _nothing(content: dict[str, Any], *, json: bool) -> None:
    """The summary of a run is no part of a study's one JSON object."""
    del content, json
