"""`adapters`: list, inspect, score, serve, merge and prune LoRA adapters."""

from pathlib import Path
from typing import Annotated

import anyio
import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options

Adapter = Annotated[
    str,
    typer.Argument(help="`packaged`, an adapter's folder, or its name or version in --root.", show_default=False),
]
Root = Annotated[Path, typer.Option(help="The folder that holds all adapters.")]
Url = Annotated[str, typer.Option("--base-url", help="The address of the running vLLM server.")]
LOCAL = "http://127.0.0.1:8000/v1"
ADAPTERS = Path("runs/adapters")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="LoRA adapters.", no_args_is_help=True)
    group.command(
        "list",
        help="List the adapters in a folder, with their base model, data and lock.\n\nhermes-lab adapters list runs",
    )(list_)
    group.command(
        "show",
        help="Show an adapter's lineage, with the scores of each version.\n\nhermes-lab adapters show sft-v2",
    )(show)
    group.command(
        "score",
        help="Add an adapter's score in a finished run to its card.\n\nhermes-lab adapters score sft-v2 runs/heldout",
    )(score)
    group.command(
        "load",
        help="Load an adapter into a running vLLM server. Its name there contains its digest.\n\n"
        "hermes-lab adapters load sft-v2",
    )(load)
    group.command(
        "unload",
        help="Unload an adapter from a running vLLM server.\n\nhermes-lab adapters unload sft-v2-0123456789ab",
    )(unload)
    group.command(
        "merge",
        help="Merge an adapter into its base model. Writes a folder that any server can load.\n\n"
        "hermes-lab adapters merge sft-v2 -o models/mine",
    )(merge)
    group.command(
        "prune",
        help="List adapter versions that are no longer needed. These are unfinished ones, and superseded ones without "
        "children or runs. --apply removes them.\n\nhermes-lab adapters prune --apply",
    )(prune)
    app.add_typer(group, name="adapters")


def list_(
    root: Annotated[Path, typer.Argument(help="A folder of adapters.")] = Path("runs"),
    json: options.Json = False,
) -> None:
    """`hermes-lab adapters list`."""
    from hermes_lab.training.adapters import list_adapters

    cards = list_adapters(root)
    if json:
        import msgspec

        rows = [{"folder": str(folder), **msgspec.structs.asdict(card)} for folder, card in cards]
        output.print_json(rows)
        return
    for folder, card in cards:
        typer.echo(f"{folder}  {card.sentence()}")
    if not cards:
        output.say(f"{root}: no adapters; train one with `hermes-lab train sft`")


def show(adapter: Adapter, root: Root = ADAPTERS, json: options.Json = False) -> None:
    """`hermes-lab adapters show`."""
    from hermes_lab.training.adapters import find_adapter
    from hermes_lab.training.lineage import lineage

    found = lineage(find_adapter(adapter, root), root)
    if json:
        output.print_json(found.to_dict())
        return
    for line in found.lines():
        typer.echo(line)


def score(adapter: Adapter, run: options.Run, root: Root = ADAPTERS, json: options.Json = False) -> None:
    """`hermes-lab adapters score`."""
    from hermes_lab.errors import ConfigError
    from hermes_lab.models.adapters import PACKAGED
    from hermes_lab.training.adapters import find_adapter
    from hermes_lab.training.evaluations import score

    if adapter == PACKAGED:
        raise ConfigError(
            f"{PACKAGED}: the packaged adapter is read-only; copy its folder to {root} and score the copy"
        )
    evaluations = score(find_adapter(adapter, root), run)
    if json:
        output.print_json(evaluations)
        return
    for evaluation in evaluations:
        typer.echo(evaluation.sentence())


def load(adapter: Adapter, root: Root = ADAPTERS, base_url: Url = LOCAL) -> None:
    """`hermes-lab adapters load`."""
    from hermes_lab.models.adapters import load_adapter
    from hermes_lab.models.endpoint import Endpoint

    folder = _folder(adapter, root)

    async def request() -> None:
        async with Endpoint(base_url) as endpoint:
            loaded = await load_adapter(endpoint, folder)
        typer.echo(f"{loaded.name}  sha256 {loaded.digest}")

    anyio.run(request)


def unload(
    name: Annotated[str, typer.Argument(help="The name that the server lists it under.")], base_url: Url = LOCAL
) -> None:
    """`hermes-lab adapters unload`."""
    from hermes_lab.models.adapters import unload_adapter
    from hermes_lab.models.endpoint import Endpoint

    async def request() -> None:
        async with Endpoint(base_url) as endpoint:
            await unload_adapter(endpoint, name)

    anyio.run(request)


def merge(
    adapter: Adapter,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.", show_default=False)],
    base: Annotated[str, typer.Option(help="The base model.", show_default="the one on the adapter's card")] = "",
    float32: Annotated[
        bool, typer.Option("--float32", help="Write float32: twice the size, without rounding.")
    ] = False,
    root: Root = ADAPTERS,
) -> None:
    """`hermes-lab adapters merge`."""
    from hermes_lab.models import weights
    from hermes_lab.models.adapters import identify
    from hermes_lab.models.cards import has_card, read_card

    folder, _ = identify(_folder(adapter, root))
    card = read_card(folder) if has_card(folder) else None
    if not base and not card:
        raise ConfigError(f"merge: {folder} has no card that names the base model; give it with --base")
    if out.exists():
        raise ConfigError(f"merge: {out} exists; give another folder")
    found = weights.resolve(base or (card.base_model if card else ""), output.say)
    if card and weights.digest(found) != card.base_digest:
        raise ConfigError(f"merge: {found} is not the base model that {card.name} was trained on (see its card)")
    weights.merge_into(out, found, folder, output.say, dtype="float32" if float32 else "auto")
    typer.echo(str(out))


def prune(
    root: Root = ADAPTERS,
    runs: Annotated[Path, typer.Option(help="The folder of runs; adapters that they use are kept.")] = Path("runs"),
    apply: Annotated[bool, typer.Option("--apply", help="Remove them instead of only listing them.")] = False,
) -> None:
    """`hermes-lab adapters prune`."""
    from hermes_lab.training.prune import needless, remove

    items = needless(root, runs)
    if apply:
        remove(items)
    for item in items:
        typer.echo(f"{'removed' if apply else 'would remove'} {item.folder}: {item.why}")
    if not items:
        output.say(f"{root}: nothing to remove")
    elif not apply:
        output.say("nothing removed; repeat with --apply to remove them")


def _folder(adapter: str, root: Path) -> Path:
    """The folder of an adapter, whether it is in the registry or from elsewhere (without a card)."""
    from hermes_lab.models.adapters import adapter_folder
    from hermes_lab.training.adapters import find_adapter

    return adapter_folder(adapter) or find_adapter(adapter, root)
