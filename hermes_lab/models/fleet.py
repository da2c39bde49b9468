"""Several servers of the same weights. Each rollout goes to the least busy one and stays there, where its prefix is
cached."""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import anyio
import anyio.abc
import msgspec

from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.client import EndpointClient
from hermes_lab.models.endpoint import backoff, is_retryable
from hermes_lab.models.listener import Listener
from hermes_lab.models.refusals import NoReply, Refused
from hermes_lab.models.weights import Say
from hermes_lab.protocols import OnText
from hermes_lab.types import Generation, Message, ModelIdentity, Task

LOOK_SECONDS = 5.0
"""Seconds between two checks of a server that was taken out."""
_ANSWER_SECONDS = 30.0
"""Seconds for a server to report what it serves and to load adapters."""
_WRONG_SERVER = frozenset({401, 403, 404, 405})
"""HTTP statuses which suggest that another server answers now, or that the path never existed."""


@dataclass(eq=False)
class Server:
    """A server as used by a fleet.

    `find` returns a client for each of the weights, and loads adapters that the server lost. It raises `ModelError` or
    `ConfigError` if that fails.
    """

    base_url: str
    find: Callable[[], Awaitable[Sequence[EndpointClient]]]
    clients: Sequence[EndpointClient] = ()
    running: int = 0
    sick: bool = False
    since: float = 0.0


@asynccontextmanager
async def open_fleet(servers: Sequence[Server], max_retries: int, say: Say) -> AsyncIterator[Sequence["FleetModel"]]:
    """Opens one model for each of the weights served by all `servers`.

    Servers that do not answer start as taken out. If all fail, all are retried up to `max_retries` times. Closing the
    fleet does not close the servers' endpoints. Raises `ModelError` if no server answers, `ConfigError` if they serve
    different weights.
    """
    failed: dict[Server, ModelError] = {}
    for server in servers:
        try:
            server.clients = await _found(server)
        except ModelError as error:
            failed[server] = error
    sound = [server for server in servers if server not in failed]
    if not sound:
        raise failed[servers[-1]]
    _check_alike(sound)
    urls = ", ".join(server.base_url for server in servers)
    async with anyio.create_task_group() as tasks:
        fleet = Fleet(servers, [client.identity.policy for client in sound[0].clients], max_retries, say, tasks)
        for server, reason in failed.items():
            fleet.take_out(server, reason)
        yield [
            FleetModel(fleet, number, msgspec.structs.replace(client.identity, base_url=urls))
            for number, client in enumerate(sound[0].clients)
        ]
        tasks.cancel_scope.cancel()


async def _found(server: Server) -> Sequence[EndpointClient]:
    """Calls `find`. Raises `NoReply` if it takes too long, as with a hanging server."""
    with anyio.move_on_after(_ANSWER_SECONDS):
        return await server.find()
    raise NoReply(f"{server.base_url} did not answer within {_ANSWER_SECONDS:g} s")


def _check_alike(servers: Sequence[Server]) -> None:
    first, *others = servers
    for other in others:
        for ours, theirs in zip(first.clients, other.clients, strict=True):
            if ours.identity.policy != theirs.identity.policy:
                raise ConfigError(
                    f"model.base_url: {first.base_url} serves {ours.identity.policy}, and {other.base_url} "
                    f"{theirs.identity.policy}; all must serve the same weights"
                )


class Fleet:
    """Tracks which servers are up, busy or taken out. `policies` are the weights that all of them serve."""

    def __init__(
        self,
        servers: Sequence[Server],
        policies: Sequence[str],
        max_retries: int,
        say: Say,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self.max_retries = max_retries
        self._servers = servers
        self._policies = policies
        self._say = say
        self._tasks = tasks

    def least_busy(self, but: Collection[Server]) -> Server | None:
        """The healthy server with the fewest open requests; if none is healthy, the one taken out first.

        None if all are in `but`.
        """
        left = [server for server in self._servers if server not in but]
        sound = [server for server in left if not server.sick]
        if sound:
            return min(sound, key=lambda server: (server.running, random.random()))
        return min((server for server in left if server.clients), key=lambda server: server.since, default=None)

    def take_out(self, server: Server, error: ModelError) -> None:
        """Takes a server out until it serves the weights again."""
        if isinstance(error, Refused) and error.status == HTTPStatus.TOO_MANY_REQUESTS:
            return  # busy, not broken
        server.since = time.monotonic()
        if not server.sick:
            server.sick = True
            self._say(f"{server.base_url} is taken out: {error}")
            self._tasks.start_soon(self._until_well, server)

    async def serves(self, server: Server) -> bool:
        """Whether the server answers in time and serves the weights; lost adapters are loaded again."""
        try:
            clients = await _found(server)
        except (ModelError, ConfigError):  # down, or with other weights: the run continues without it
            return False
        if [client.identity.policy for client in clients] != self._policies:
            return False
        server.clients = clients
        return True

    async def _until_well(self, server: Server) -> None:
        while server.sick:
            await anyio.sleep(LOOK_SECONDS)
            if await self.serves(server):
                server.sick = False
                self._say(f"{server.base_url} is back")


class FleetModel:
    """A `ModelClient` over a fleet, for one of its weights (by index)."""

    def __init__(self, fleet: Fleet, number: int, identity: ModelIdentity) -> None:
        self.identity = identity
        self._fleet = fleet
        self._number = number

    def for_task(self, task: Task) -> "FleetModel":
        """The model for one rollout, which stays with one server."""
        del task
        return _Rollout(self._fleet, self._number, self.identity)

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        """One reply, from any server; see `ModelClient`."""
        return await _Rollout(self._fleet, self._number, self.identity).generate(messages, tools)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], on_text: OnText
    ) -> Generation:
        """One reply, told as it comes, from any server; see `StreamingModel`."""
        return await _Rollout(self._fleet, self._number, self.identity).stream(messages, tools, on_text)

    async def aclose(self) -> None:
        """Does nothing: the servers' connections belong to the caller."""


class _Rollout(FleetModel):
    _server: Server | None = None

    async def generate(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Generation:
        return await self._ask(lambda client: client.generate(messages, tools))

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], on_text: OnText
    ) -> Generation:
        listener = Listener(on_text)

        def ask(client: EndpointClient) -> Awaitable[Generation]:
            listener.restart()  # what another server said
            return client.stream(messages, tools, listener.tell)

        return await self._ask(ask)

    async def _ask(self, ask: Callable[[EndpointClient], Awaitable[Generation]]) -> Generation:
        error = ModelError("no server is available")
        for tried in range(self._fleet.max_retries + 1):
            if tried:
                await anyio.sleep(backoff(tried - 1))
            failed: set[Server] = set()
            while (server := self._choose(failed)) is not None:
                server.running += 1
                try:
                    return await ask(server.clients[self._number])
                except (NoReply, Refused) as failure:
                    # A bad request fails on every server, and a slow reply is as slow elsewhere.
                    if not await self._is_server_fault(server, failure):
                        raise
                    error = failure
                except ModelError as failure:
                    error = failure
                finally:
                    server.running -= 1
                failed.add(server)
                self._fleet.take_out(server, error)
        raise error

    async def _is_server_fault(self, server: Server, failure: NoReply | Refused) -> bool:
        """Whether the failure is the server's fault."""
        if isinstance(failure, Refused) and is_retryable(failure.status):
            return True
        may_be = isinstance(failure, NoReply) or failure.status in _WRONG_SERVER
        return may_be and not await self._fleet.serves(server)

    def _choose(self, failed: Collection[Server]) -> Server | None:
        """The server of the previous turn, or another one if that is out; None if all have failed."""
        if self._server is None or self._server.sick or self._server in failed:
            self._server = self._fleet.least_busy(failed)
        return self._server
