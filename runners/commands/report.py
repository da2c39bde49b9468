"""`report`: writes one HTML page about one or more runs."""

from pathlib import Path
from typing import Annotated

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.bar import progress_bar


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "report",
        help="Write one self-contained HTML page about runs. It contains the verdict, effect, cost and regressions; "
        "curves, arms, skills and transfer; and trajectories side by side. It needs no network.\n\n"
        "hermes-lab report runs/demo\n\n"
        "hermes-lab report runs/base runs/tuned -o tuned.html   (compares the first with the last)\n\n"
        "hermes-lab report runs/large --trajectories 500   (the pairs that changed, then a sample)",
    )(report)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write.", show_default="report.html in the first run")
    ] = None,
    trajectories: Annotated[
        str, typer.Option(help="How many full trajectories to embed: a number, or `all`, up to 50 MB.")
    ] = "all",
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab report`."""
    if trajectories != "all" and not trajectories.isdecimal():
        raise ConfigError(f"--trajectories: give a number or `all`, not {trajectories!r}")
    if len({run.resolve() for run in runs}) < len(runs):
        raise ConfigError("RUNS: the same run is given twice")
    path = out or runs[0] / "report.html"
    if path.is_dir():
        raise ConfigError(f"--out: {path} is a folder; give a file, such as {path / 'report.html'}")
    save_report(runs, path, trajectories=None if trajectories == "all" else int(trajectories), quiet=quiet)
    typer.echo(path)


def save_report(runs: list[Path], path: Path, *, trajectories: int | None = None, quiet: bool) -> None:
    """Writes the page, and a progress bar and the page's size to stderr."""
    from hermes_lab.analysis.report.page import write_report
    from hermes_lab.runners.experiments.ground_truth import from_suite

    wanted = sum(read_manifest(run).wanted for run in runs)
    with progress_bar("episodes", wanted, shown=not quiet) as seen:
        written = write_report(runs, path, trajectories=trajectories, from_suite=from_suite(runs), seen=seen)
    if not quiet:
        whole = "" if written.embedded == written.episodes else f", {written.embedded:,} of them with full trajectories"
        output.say(f"{written.size / 1e6:.1f} MB, {written.episodes:,} episodes{whole}")
