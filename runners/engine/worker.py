"""A worker: a process that runs many concurrent rollouts for a driver process, on the same machine or another one."""

import logging
import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import msgspec

from hermes_lab.activity import Activities
from hermes_lab.config.schema import RunConfig
from hermes_lab.contexts import open_contexts
from hermes_lab.errors import HermesLabError, McpError
from hermes_lab.harness.installed import Installed
from hermes_lab.harness.state import States
from hermes_lab.knowledge import Knowledge
from hermes_lab.mcp.servers import Servers
from hermes_lab.mcp.snapshot import tools_digest
from hermes_lab.models import open_again
from hermes_lab.models.adapters import PACKAGED, adapter_folder
from hermes_lab.protocols import Suite
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.runners.engine.garbage import collect_rarely
from hermes_lab.runners.engine.keys import secret_variables
from hermes_lab.runners.engine.log_relay import episode_context
from hermes_lab.runners.engine.open_files import raise_open_file_limit
from hermes_lab.sandbox import probe
from hermes_lab.types import ModelIdentity

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setup:
    """Everything a worker needs to start. `models` holds the adapter and model identity of each of the driver's
    contexts; `environment` holds the API keys and secrets that the run reads; `tools` is the digest of what the MCP
    servers offered to the driver."""

    config: RunConfig
    digest: str
    suite: Suite
    models: tuple[tuple[str, ModelIdentity], ...]
    environment: Mapping[str, str]
    workspaces: Path | None = None
    program: Installed | None = None
    states: States | None = None
    blobs: Path | None = None
    tools: str = ""


def setup_of(config: RunConfig, contexts: Sequence[RolloutContext], adapters: Sequence[str]) -> Setup:
    """The setup for workers that run `contexts`; `adapters` are the names their models were opened with."""
    environment = {name: value for name in secret_variables(config) if (value := os.environ.get(name))}
    models = tuple((_absolute(name), context.model.identity) for name, context in zip(adapters, contexts, strict=True))
    first = contexts[0]
    blobs = first.servers.blobs if isinstance(first.servers, Servers) else None
    return Setup(
        config,
        first.config_digest,
        first.suite,
        models,
        environment,
        # A worker on Ray has another working directory.
        first.workspaces and first.workspaces.absolute(),
        first.program,
        first.states,
        blobs and blobs.absolute(),
        _tools_of(first),
    )


def encode_request(spec: RolloutSpec, knowledge: Knowledge) -> bytes:
    """Encodes the `request` of `Worker.run_episode`."""
    return pickle.dumps((spec, knowledge), pickle.HIGHEST_PROTOCOL)


class Worker:
    """Runs rollouts once `serve` has opened the models. All methods run in one event loop."""

    def __init__(self, setup: Setup) -> None:
        os.environ.update(setup.environment)
        self._setup = setup
        self._contexts: list[RolloutContext] = []
        self._activities = Activities()
        self._opened, self._closing, self._closed = anyio.Event(), anyio.Event(), anyio.Event()
        self._rollouts: set[anyio.CancelScope] = set()
        self._left = anyio.Event()
        self._failure = ""

    async def serve(self) -> None:
        """Opens the models and holds them open until `close`, since the task that opens them must close them."""
        config = self._setup.config
        try:
            raise_open_file_limit(config.run.concurrency)
            async with AsyncExitStack() as stack:
                stack.enter_context(collect_rarely())
                await probe(config.sandbox)
                opened = open_again(
                    config.model,
                    [adapter for adapter, _ in self._setup.models],
                    [identity for _, identity in self._setup.models],
                    tool_format=config.agent.tool_format,
                    concurrency=config.run.concurrency,
                    say=_log.info,  # the driver has already shown it
                )
                models = await stack.enter_async_context(opened)
                setup = self._setup
                opening = open_contexts(
                    config,
                    setup.suite,
                    models,
                    say=_log.info,
                    warn=_log.info,
                    workspaces=setup.workspaces,
                    program=setup.program,
                    states=setup.states,
                    blobs=setup.blobs,
                    activities=self._activities,
                )
                contexts = await stack.enter_async_context(opening)
                if _tools_of(contexts[0]) != setup.tools:
                    raise McpError("mcp.servers: their tools are not those with which the run began")
                self._contexts = [replace(context, config_digest=setup.digest) for context in contexts]
                self._opened.set()
                await self._closing.wait()
        except HermesLabError as error:
            self._failure = str(error)
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
        finally:
            self._opened.set()  # wakes `ready` even after a failure
            self._closed.set()

    async def ready(self) -> str:
        """Waits until rollouts can start. Returns "", or the reason why they cannot."""
        await self._opened.wait()
        return self._failure

    async def run_episode(self, number: int, request: bytes) -> bytes | None:
        """Runs one rollout in context `number` and returns its record as JSON; None if the worker was closed meanwhile.
        `request` comes from `encode_request`."""
        spec, knowledge = cast(tuple[RolloutSpec, Knowledge], pickle.loads(request))
        with anyio.CancelScope() as scope, episode_context(spec.key):
            self._rollouts.add(scope)
            try:
                return msgspec.json.encode(await run_episode(self._contexts[number], spec, knowledge))
            finally:
                self._rollouts.discard(scope)
                self._left.set()
        return None

    async def running(self) -> bytes:
        """What its rollouts are doing now: a list of `Running`, as JSON."""
        return await anyio.to_thread.run_sync(lambda: msgspec.json.encode(self._activities.now()))

    async def close(self) -> None:
        """Cancels all rollouts, waits for their sandboxes to close, and closes the models."""
        for scope in list(self._rollouts):
            scope.cancel()
        while self._rollouts:
            self._left = anyio.Event()
            await self._left.wait()
        self._closing.set()
        await self._closed.wait()


def _tools_of(context: RolloutContext) -> str:
    return tools_digest("", context.servers.served) if isinstance(context.servers, Servers) else ""


def _absolute(adapter: str) -> str:
    """The adapter's absolute path if it is a folder, so that it resolves in any working directory; else its name."""
    folder: Path | None = None if adapter in ("", PACKAGED) else adapter_folder(adapter)
    return str(folder.resolve()) if folder else adapter
