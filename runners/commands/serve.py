"""`serve`: a local vLLM that stays up for several runs."""

import anyio
import typer

from hermes_lab.config import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.models import open_server
from runners.commands import options


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "serve",
        help="Serve a model with a local vLLM until Ctrl-C.\n\n"
        "hermes-lab serve -c model.name=packaged -c model.server.port=8000\n\n"
        "Then: hermes-lab run -c FILE -c model.provider=openai -c model.base_url=http://127.0.0.1:8000/v1",
    )(serve)


def serve(config: options.Config = None) -> int:
    """`hermes-lab serve`."""
    loaded = load_config(["model.provider=vllm", *(config or [])])
    if loaded.model.provider != "vllm":
        raise ConfigError(f"model.provider: `serve` starts vllm, not {loaded.model.provider}")
    anyio.run(_serve, loaded)
    return 0
