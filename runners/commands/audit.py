"""`audit`: checks published claims against their own arithmetic and against a run."""

from pathlib import Path
from typing import Annotated

import typer

from hermes_lab.runners import output
from hermes_lab.runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "audit",
        help="Check published learning curves against their own formula, and against a run.\n\n"
        "hermes-lab audit\n\nhermes-lab audit runs/learner",
    )(audit)


def audit(
    run: Annotated[Path | None, typer.Argument(help="A run folder for the measured column.")] = None,
    json: options.Json = False,
) -> None:
    """`hermes-lab audit`."""
    from hermes_lab.analysis.audit import claims
    from hermes_lab.analysis.audit.measurements import Measurements, measure
    from hermes_lab.analysis.data.load import load_episodes
    from hermes_lab.analysis.data.runs import open_runs
    from hermes_lab.analysis.skill_effects.treatment import setting
    from hermes_lab.runners.tables import table

    measured = Measurements({}, [])
    for opened in open_runs(run) if run else ():
        output.warn(opened.warning())
        most = setting(opened.manifest.config, "skills.max_listed")
        measured = measure(load_episodes(opened.folder), max_listed=most)
    found = claims.audit(measured.by_claim)
    if json:
        output.print_json({"claims": [claim.to_dict() for claim in found], "notes": measured.notes})
        return
    for line in table(claims.HEADER, [claim.cells() for claim in found]):
        typer.echo(line)
    typer.echo(claims.summary(found))
    for note in measured.notes:
        typer.echo(note)
    if run:
        typer.echo(f"Measured with the tasks and model of {run}, which differ from those of the claims.")
