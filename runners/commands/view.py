"""`view`: serves a local page on runs, while they run and afterwards."""

import webbrowser
from pathlib import Path
from typing import Annotated

import anyio
import anyio.to_thread
import typer

from hermes_lab.runners import output


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "view",
        help="Show runs in a browser, live. The page shows progress, what each running episode waits for, transcripts "
        "and curves.\n\n"
        "hermes-lab view            (all runs below ./runs)\n\n"
        "hermes-lab view runs/demo  (one run)\n\n"
        "The page is only served to this machine, at an address with a token. Ctrl-C stops the server; runs go on.",
    )(view)


def view(
    runs: Annotated[Path, typer.Argument(help="A run folder, or a folder with several.", metavar="[RUNS]")] = Path(
        "runs"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 0,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """`hermes-lab view`."""
    anyio.run(_serve, runs, port, open_)


async def _serve(runs: Path, port: int, open_: bool) -> None:
    from hermes_lab.runners.view.runs import Runs
    from hermes_lab.runners.view.server import serve

    async with serve(Runs(runs), port) as address:
        typer.echo(address)
        output.say("stop with Ctrl-C")
        if open_:
            await anyio.to_thread.run_sync(webbrowser.open, address)
        await anyio.sleep_forever()
