"""`compare`: compares two runs, or arms of one run."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.summary import say_warnings_of, warnings_of_runs

if TYPE_CHECKING:
    from hermes_lab.analysis.comparison.verdict import ComparisonResult


FailIf = StrEnum("FailIf", ["worse"])


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "compare",
        help="Did it get better? Compare two runs task by task, or the arms of one run.\n\n"
        "hermes-lab compare runs/base runs/tuned\n\nhermes-lab compare runs/demo\n\n"
        "hermes-lab compare runs/one-rule --arms placebo,on   (the effect of what the skills say)\n\n"
        "hermes-lab compare runs/one-rule --arms off,on,placebo,oracle   (each against the first)\n\n"
        "hermes-lab compare runs/base runs/tuned --arms on   (one arm in both runs)\n\n"
        "hermes-lab compare runs/base runs/tuned --fail-if worse --plot verdict.png   (for scheduled jobs and CI)",
    )(compare)


def compare(
    before: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    after: Annotated[Path | None, typer.Argument(help="A second run on the same tasks.", show_default=False)] = None,
    arms: Annotated[
        str,
        typer.Option(
            help="In one run: the arms to compare, each against the first. In two runs: the arm to compare.",
            show_default="off,on in one run; all arms together in two",
        ),
    ] = "",
    fail_if: Annotated[
        FailIf | None,
        typer.Option(
            help="Exit with 1 if a fall is shown, and with 2 or 3 if nothing was measured.", show_default=False
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where to plot the rates: a .png, .svg or .pdf file.", show_default=False),
    ] = None,
    json: options.Json = False,
) -> int:
    """`hermes-lab compare`."""
    from hermes_lab.analysis.comparison.verdict import compare, wanted_arms

    if plot:
        from hermes_lab.analysis.plots.style import check_suffix

        check_suffix(plot)
    chosen = [name.strip() for name in arms.split(",")] if arms else []
    if chosen and (wanted := wanted_arms(chosen, of_two_runs=after is not None)):
        raise ConfigError(f"--arms: give {wanted}, such as {'on' if after else 'placebo,on'}, not {arms}")
    result = compare(before, after, arms=chosen)
    found = [result, *result.others]
    if plot:
        from hermes_lab.analysis.plots import save, verdict_figure

        save(verdict_figure(found), plot)
    runs = [run for run in (before, after) if run]
    if json:
        reports = [each.comparison.to_dict() | {"verdict": each.to_dict()} for each in found if each.comparison]
        warnings = [f"{run}: {warning}" for run, warning in warnings_of_runs(*runs, arms=chosen)]
        # First, where a reader of a part of it finds them.
        output.print_json({"warnings": warnings} | (reports[0] if len(reports) == 1 else {"reports": reports}))
        return _exit_code(found) if fail_if else 0
    typer.echo(str(result))
    say_warnings_of(*runs, told=str(result), arms=chosen)
    if plot:
        typer.echo(f"plot: {plot}")
    return _exit_code(found) if fail_if else 0


def _exit_code(found: "Sequence[ComparisonResult]") -> int:
    """1 if a comparison shows a fall, else 3 if one has no result."""
    if any(each.shown and each.difference is not None and each.difference < 0 for each in found):
        return 1
    return 3 if any(each.difference is None for each in found) else 0
