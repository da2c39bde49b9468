"""`adapters`: what was trained, from what, and loading it into a running vLLM."""

from pathlib import Path
from typing import Annotated

import anyio
import typer

from runners.commands import options

Folder = Annotated[Path, typer.Argument(help="An adapter's folder.", show_default=False)]
Url = Annotated[str, typer.Option("--base-url", help="The running vLLM.")]
LOCAL = "http://127.0.0.1:8000/v1"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="LoRA adapters.", no_args_is_help=True)
    group.command("list", help="Adapters below a folder, with their base model, data and lock.")(list_)
    group.command("load", help="Load an adapter into a running vLLM under a name that holds its digest.")(load)
    group.command("unload", help="Take an adapter off a running vLLM.")(unload)
    app.add_typer(group, name="adapters")


def list_(
    root: Annotated[Path, typer.Argument(help="A folder of adapters.")] = Path("runs"),
    json: options.Json = False,
) -> None:
    """`hermes-lab adapters list`."""
    from training.adapters import list_adapters

    cards = list_adapters(root)
    if json:
        import msgspec

        rows = [{"folder": str(folder), **msgspec.structs.asdict(card)} for folder, card in cards]
        typer.echo(msgspec.json.encode(rows).decode())
        return
    for folder, card in cards:
        typer.echo(f"{folder}  {card.sentence()}")
    if not cards:
        options.say(f"{root}: no adapters; `hermes-lab train sft` makes one")


def load(folder: Folder, base_url: Url = LOCAL) -> None:
    """`hermes-lab adapters load`."""
    from hermes_lab.models.adapters import load_adapter
    from hermes_lab.models.endpoint import Endpoint

    async def request() -> None:
        async with Endpoint(base_url) as endpoint:
            adapter = await load_adapter(endpoint, folder)
        typer.echo(f"{adapter.name}  sha256 {adapter.digest}")

    anyio.run(request)


def unload(name: Annotated[str, typer.Argument(help="The name it is served under.")], base_url: Url = LOCAL) -> None:
    """`hermes-lab adapters unload`."""
    from hermes_lab.models.adapters import unload_adapter
    from hermes_lab.models.endpoint import Endpoint

    async def request() -> None:
        async with Endpoint(base_url) as endpoint:
            await unload_adapter(endpoint, name)

    anyio.run(request)
