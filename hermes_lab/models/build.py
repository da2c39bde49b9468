"""Opens the `ModelClient`s that a `ModelConfig` describes."""

import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio.to_thread

from hermes_lab.config.schema import ModelConfig, RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.models.scripted import ScriptedModel, load_policy
from hermes_lab.models.weights import Say
from hermes_lab.protocols import ModelClient
from hermes_lab.types import ModelIdentity
from hermes_lab.types.trajectory import ToolFormat


@asynccontextmanager
async def open_auxiliary(config: RunConfig, *, say: Say) -> AsyncIterator[ModelClient | None]:
    """Opens the model that writes summaries (`auxiliary`); yields None if none is configured."""
    async with _open_second(config.auxiliary, "auxiliary", config.run.concurrency, say) as model:
        yield model


@asynccontextmanager
async def open_judge_model(config: RunConfig, *, say: Say) -> AsyncIterator[ModelClient | None]:
    """Opens the model that grades answers (`judge.model`); yields None if none is configured."""
    model = config.judge.model if config.judge else None
    async with _open_second(model, "judge.model", config.run.concurrency, say) as opened:
        yield opened


@asynccontextmanager
async def _open_second(
    config: ModelConfig | None, section: str, concurrency: int, say: Say
) -> AsyncIterator[ModelClient | None]:
    if config is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        opened = open_model(config, tool_format="native", log=Path(os.devnull), concurrency=concurrency, say=say)
        try:
            model = await stack.enter_async_context(opened)
        except ConfigError as error:  # rename fields: the error refers to `model.`
            raise ConfigError(re.sub(r"\bmodel\.(?=[a-z])", f"{section}.", str(error))) from None
        yield model


REMOTE = frozenset({"openai", "anthropic", "responses"})
"""Providers of an endpoint run by somebody else."""


@asynccontextmanager
async def open_model(
    config: ModelConfig, *, tool_format: ToolFormat, log: Path, concurrency: int, say: Say
) -> AsyncIterator[ModelClient]:
    """Opens the model that `config` names; see `open_models`."""
    opened = open_models(config, [config.adapter], tool_format=tool_format, log=log, concurrency=concurrency, say=say)
    async with opened as (model,):
        yield model


@asynccontextmanager
async def open_models(
    config: ModelConfig, adapters: Sequence[str], *, tool_format: ToolFormat, log: Path, concurrency: int, say: Say
) -> AsyncIterator[Sequence[ModelClient]]:
    """Opens the model that `config` names once per adapter ("" for none), in place of `config.adapter`.

    `concurrency` limits the number of simultaneous requests to all of them. `provider: vllm` downloads the weights and
    runs one server, whose output goes to `log`. An adapter given as a folder is loaded into the server; one given by
    name must be served already. Raises `ConfigError` if the model or an adapter does not exist, `ModelError` if the
    server does not answer.
    """
    if config.provider == "scripted":
        policy = load_policy(config.name, config.options)
        yield [ScriptedModel(policy, name=config.name, tool_format=tool_format)] * len(adapters)
        return
    if config.provider == "replay":
        yield [await anyio.to_thread.run_sync(_open_replay, Path(config.name))] * len(adapters)
        return
    # Imported here, so that scripted runs do not load an HTTP client.
    from hermes_lab.models.remote import open_endpoints, open_vllm

    if config.provider in REMOTE:
        opened = open_endpoints(config, adapters, tool_format=tool_format, concurrency=concurrency, say=say)
    else:
        opened = open_vllm(config, adapters, tool_format=tool_format, log=log, concurrency=concurrency, say=say)
    async with opened as clients:
        yield clients


@asynccontextmanager
async def open_again(
    config: ModelConfig,
    adapters: Sequence[str],
    identities: Sequence[ModelIdentity],
    *,
    tool_format: ToolFormat,
    concurrency: int,
    say: Say,
) -> AsyncIterator[Sequence[ModelClient]]:
    """Connects to models that another process opened under `adapters` and keeps open.

    No server is started, and adapter folders need not exist on this machine. Raises as `open_models`.
    """
    if config.provider == "vllm":
        from hermes_lab.models.remote import open_served

        async with open_served(config, identities, tool_format=tool_format, concurrency=concurrency) as served:
            yield served
    elif config.provider in REMOTE:
        from hermes_lab.models.remote import open_endpoints

        async with open_endpoints(
            config, adapters, tool_format=tool_format, concurrency=concurrency, say=say, known=identities
        ) as known:
            yield known
    else:
        async with open_models(
            config, adapters, tool_format=tool_format, log=Path(os.devnull), concurrency=concurrency, say=say
        ) as models:
            yield models


def _open_replay(run: Path) -> ModelClient:
    from hermes_lab.manifest import read_manifest
    from hermes_lab.models.replay import ReplayModel
    from hermes_lab.records import read_episodes

    read_manifest(run)  # raises if the folder contains no run
    return ReplayModel(read_episodes(run))
