"""`compare`: two runs, or two arms of one."""

from pathlib import Path
from typing import Annotated

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.summary import say_warnings_of


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "compare",
        help="Did it get better? Two runs on the same tasks, paired; or two arms of one run.\n\n"
        "hermes-lab compare runs/base runs/tuned\n\nhermes-lab compare runs/demo\n\n"
        "hermes-lab compare runs/one-rule --arms placebo,on   (what the content of the skills is worth)\n\n"
        "hermes-lab compare runs/one-rule --arms off,on,placebo,oracle   (each against the first)\n\n"
        "hermes-lab compare runs/base runs/tuned --arms on   (of two runs, one arm of both)",
    )(compare)


def compare(
    before: Annotated[Path, typer.Argument(help="A run folder.", show_default=False)],
    after: Annotated[Path | None, typer.Argument(help="A second one, on the same tasks.", show_default=False)] = None,
    arms: Annotated[
        str,
        typer.Option(
            help="Of one run: the arms, each against the first [default: off,on]. Of two: the one arm that is compared "
            "[default: all together].",
            show_default=False,
        ),
    ] = "",
    json: options.Json = False,
) -> None:
    """`hermes-lab compare`."""
    from hermes_lab.analysis.comparison.compare import compare_runs, compare_to_first
    from hermes_lab.analysis.comparison.verdict import of_report, verdict

    if arms and after:
        if "," in arms:
            raise ConfigError(f"--arms: give one arm of two runs, such as on, not {arms!r}")
        found = [of_report(compare_runs(before, after, arms), "runs")]
    elif arms:
        found = [of_report(report, "arms") for report in compare_to_first(before, _several(arms))]
    else:
        found = [verdict(before, after) if after else verdict(before)]
        if found[0].comparison is None:
            raise ConfigError(found[0].sentence)
    if json:
        reports = [each.comparison.report() | {"verdict": each.report()} for each in found if each.comparison]
        output.print_json(reports[0] if len(reports) == 1 else {"reports": reports})
        return
    for each in found:
        typer.echo(str(each))
    say_warnings_of(*filter(None, (before, after)))


def _several(arms: str) -> list[str]:
    names = [name.strip() for name in arms.split(",")]
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise ConfigError(f"--arms: give two arms or more, such as placebo,on, not {arms!r}")
    return names
