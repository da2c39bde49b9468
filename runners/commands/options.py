"""Options shared by several commands."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", help="A YAML file or a `key=value` override; merged left to right.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only results.")]
Run = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]

Out = Annotated[Path | None, typer.Option("--out", "-o", help="The run folder.", show_default=False)]
Resume = Annotated[
    bool, typer.Option("--resume", help="Resume the run in --out; runs only missing and errored episodes.")
]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Print what would be run and its statistical power, then exit.")]
