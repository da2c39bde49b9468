"""A worker: a process of a Ray cluster that runs many rollouts at once, as the local executor does."""

import logging
import os
import pickle
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import cast

import anyio
import msgspec
import ray

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import HermesLabError
from hermes_lab.knowledge import Knowledge
from hermes_lab.models import open_again, open_auxiliary
from hermes_lab.protocols import Suite
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.runners.engine.open_files import raise_open_file_limit
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.types import ModelIdentity
from hermes_lab.web import open_web

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setup:
    """What a worker is made from. `models` has an adapter and an identity for each lab of the driver, which has opened
    them already; `environment` has the keys that the configuration names."""

    config: RunConfig
    digest: str
    suite: Suite
    models: tuple[tuple[str, ModelIdentity], ...]
    environment: Mapping[str, str]


class Worker:
    """The class of the actors; all of its methods run in one event loop."""

    def __init__(self, setup: Setup) -> None:
        os.environ.update(setup.environment)
        self._setup = setup
        self._labs: list[RolloutContext] = []
        self._opened, self._closing, self._closed = anyio.Event(), anyio.Event(), anyio.Event()
        self._rollouts: set[anyio.CancelScope] = set()
        self._left = anyio.Event()
        self._failure = ""

    async def serve(self) -> None:
        """Holds the models open until `close`; they are closed by the task that opened them."""
        config = self._setup.config
        try:
            raise_open_file_limit(config.run.concurrency)
            async with AsyncExitStack() as stack:
                await probe(config.sandbox)
                opened = open_again(
                    config.model,
                    [adapter for adapter, _ in self._setup.models],
                    [identity for _, identity in self._setup.models],
                    tool_format=config.agent.tool_format,
                    concurrency=config.run.concurrency,
                    say=_log.warning,
                )
                models = await stack.enter_async_context(opened)
                auxiliary = await stack.enter_async_context(open_auxiliary(config, say=_log.warning))
                sandbox, web = partial(open_sandbox, config.sandbox), open_web(config.web)
                self._labs = [
                    RolloutContext(config, self._setup.digest, self._setup.suite, model, sandbox, web, auxiliary)
                    for model in models
                ]
                self._opened.set()
                await self._closing.wait()
        except HermesLabError as error:
            self._failure = str(error)
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
        finally:
            self._opened.set()  # whoever waits for it must not wait for ever
            self._closed.set()

    async def ready(self) -> str:
        """Waits until rollouts can begin; what is in the way, or ""."""
        await self._opened.wait()
        return self._failure

    async def run_episode(self, number: int, request: bytes) -> bytes | None:
        """The record of a rollout of the lab of that number, as JSON; None where it was closed meanwhile. `request`
        is a pickled job and knowledge."""
        spec, knowledge = cast(tuple[RolloutSpec, Knowledge], pickle.loads(request))
        with anyio.CancelScope() as scope:
            self._rollouts.add(scope)
            try:
                return msgspec.json.encode(await run_episode(self._labs[number], spec, knowledge))
            finally:
                self._rollouts.discard(scope)
                self._left.set()
        return None

    async def close(self) -> None:
        """Ends all rollouts, with their sandboxes, and closes the models."""
        for scope in list(self._rollouts):
            scope.cancel()
        while self._rollouts:
            self._left = anyio.Event()
            await self._left.wait()
        self._closing.set()
        await self._closed.wait()

    async def where(self) -> tuple[str, str]:
        """Host and process, for a person, and the id of the node."""
        return f"{os.uname().nodename}, process {os.getpid()}", ray.get_runtime_context().get_node_id()
