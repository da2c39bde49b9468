"""`serve`: runs a local vLLM server for several runs."""

from pathlib import Path
from typing import Annotated

import anyio
import typer

from hermes_lab.config.schema import ModelConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "serve",
        help="Serve a model with local vLLM until Ctrl-C.\n\n"
        "hermes-lab serve -c model.name=packaged -c model.server.port=8000\n\n"
        "Then: hermes-lab run -c FILE -c model.provider=openai -c model.base_url=http://127.0.0.1:8000/v1",
    )(serve)


def serve(
    config: options.Config = None,
    log: Annotated[Path, typer.Option(help="The file for vLLM's output.")] = Path("runs/server.log"),
) -> None:
    """`hermes-lab serve`."""
    # Clients set the limit of their replies.
    model = load_config(["model.provider=vllm", "model.sampling.max_tokens=null", *(config or [])]).model
    if model.provider != "vllm":
        raise ConfigError(f"model.provider: `serve` supports only vllm, not {model.provider}")
    if model.merge:
        raise ConfigError(
            "model.merge: `serve` keeps adapters apart from the weights, so that a run can check which one it uses; "
            "remove it, or merge in the run itself (model.provider=vllm, without `serve`)"
        )
    anyio.run(_serve, model, log)


async def _serve(model: ModelConfig, log: Path) -> None:
    from hermes_lab.models.adapters import adapter_folder, identify
    from hermes_lab.models.lora_files import max_rank
    from hermes_lab.models.server import VllmServer
    from hermes_lab.models.weights import resolve

    weights = resolve(model.name, output.say)
    folder = adapter_folder(model.adapter) or Path(model.adapter) if model.adapter else None
    rank = max_rank(identify(folder, weights)[0]) if folder else 1
    starting = VllmServer(weights, model.server, name=model.name, log=log, say=output.say, rank=rank)
    async with starting as server, server.watched():
        if folder:
            adapter = await server.load_adapter(folder)
            output.say(f"adapter {adapter.name}")
        output.say(f"serving {model.name} at {server.base_url}; stop with Ctrl-C")
        await anyio.sleep_forever()
