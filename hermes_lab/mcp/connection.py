"""One connection to one MCP server."""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from hermes_lab.config.mcp import REFERENCE, McpServerConfig
from hermes_lab.errors import ConfigError, InfraError, McpError, SandboxError
from hermes_lab.mcp.client import asked, client_of, is_closed
from hermes_lab.mcp.transport import Pipes, SandboxPipes, host_pipes, messages_over
from hermes_lab.protocols import Sandbox
from hermes_lab.text.printable import printable

_MOST_PAGES = 100
_CLOSE_SECONDS = 10.0
_KEY_REFUSED = (401, 403)
_NO_SESSION = re.compile(r"\bsession\b|\bnot initialized\b", re.IGNORECASE)
"""Matches the HTTP 400 with which some servers, after a restart, reject a session; the specification says 404."""
_ADDRESS = re.compile(r"(https?://)(?:[^\s/?#@]*@)?([^\s?#'\"]*)(?:[?#][^\s'\"]*?(?=[:;,.)]*(?:[\s'\"]|$)))?")
_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where a server in a sandbox runs: the sandbox, and how the program is called in it."""

    sandbox: Sandbox
    command: Sequence[str]
    environment: Mapping[str, str]


class Listing(NamedTuple):
    """What a server says of itself and of its tools, the tools as sent over the wire."""

    server: str
    version: str
    protocol: str
    tools: tuple[dict[str, Any], ...]


class Connection:
    """A connection that lives in a task of its own: a failure in it reaches callers as an error of their call, and
    never ends their task. `changes` counts how often the server has said that its tools have changed since it was
    opened. `defaults`: what the server asks the user is answered by the defaults of its form; else it is declined."""

    def __init__(
        self, name: str, config: McpServerConfig, place: Place | None = None, *, defaults: bool = False
    ) -> None:
        self.name = name
        self.changes = 0
        self._config = config
        self._place = place
        self._defaults = defaults
        self._pipes: Pipes | None = None
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._opened, self._closing = asyncio.Event(), asyncio.Event()
        self._failure = ""
        self._status = 0

    @property
    def ended(self) -> bool:
        """Whether it was open and has ended."""
        return self._task is not None and (self._task.done() or bool(self._failure))

    async def open(self) -> Listing:
        """Connects, and lists the tools. Raises `McpError` that says what failed; nothing of the server is left."""
        self._task = asyncio.get_running_loop().create_task(self._serve())
        try:
            with anyio.fail_after(self._config.startup_seconds):
                await self._opened.wait()
                if self._failure:
                    raise McpError(self._named(self._failure))
                known = self.changes
                listing = await self.list()
                self.changes -= known
                return listing
        except TimeoutError:
            late = f"not ready after {self._config.startup_seconds:g} seconds (startup_seconds){self._said()}"
            await self.aclose()
            raise McpError(self._named(late)) from None
        except BaseException:
            await self.aclose()
            raise

    async def _serve(self) -> None:
        try:
            async with (
                self._streams() as streams,
                client_of(streams, self._on_message, defaults=self._defaults) as client,
            ):
                self._client = client
                self._opened.set()
                await self._closing.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failure = self._failure or f"{self._reason(error)}{self._answered()}{self._said()}"
        finally:
            self._client = None
            self._opened.set()

    async def _on_response(self, response: Any) -> None:
        if response.request.method == "POST":
            self._status = response.status_code

    async def _on_message(self, message: Any) -> None:
        import mcp_types

        if isinstance(getattr(message, "root", message), mcp_types.ToolListChangedNotification):
            self.changes += 1

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        config = self._config
        if config.url:
            from mcp.client.streamable_http import streamable_http_client
            from mcp.shared._httpx_utils import create_mcp_http_client

            headers = {name: resolved(value, f"mcp.servers.{self.name}.headers.{name}") for name, value in _of(config)}
            async with (
                create_mcp_http_client(headers=headers) as http,
                streamable_http_client(self._address(), http_client=http) as streams,
            ):
                http.event_hooks = {"response": [self._on_response]}
                yield streams
        elif self._place:
            sandbox, command, environment = self._place
            self._pipes = SandboxPipes(await sandbox.start(command, environment))
            async with messages_over(self._pipes) as streams:
                yield streams
        else:
            env = {name: resolved(text, f"mcp.servers.{self.name}.env.{name}") for name, text in config.env.items()}
            async with host_pipes(config.program, env) as self._pipes, messages_over(self._pipes) as streams:
                yield streams

    async def list(self, seconds: float | None = None) -> Listing:
        """What the server offers now. Raises `McpTimeout` if it does not say so in time, and `McpError`."""
        from mcp.shared.exceptions import MCPError

        tools: list[dict[str, Any]] = []
        cursor = None
        client = self._live()
        async with _explained(self):
            with anyio.fail_after(seconds):
                for _ in range(_MOST_PAGES):
                    try:
                        page = await asked(client.session, "tools/list", {"cursor": cursor} if cursor else {})
                    except MCPError as error:
                        if is_closed(error) or self._status >= 400:
                            raise
                        raise McpError(self._named(f"it does not list its tools: {error.error.message}")) from None
                    listed = page.get("tools")
                    if not isinstance(listed, list):
                        raise McpError(self._named("the server's list of tools breaks the protocol"))
                    tools += (tool for tool in listed if isinstance(tool, dict) and isinstance(tool.get("name"), str))
                    if (cursor := page.get("nextCursor")) is None:
                        break
                else:
                    raise McpError(self._named(f"its list of tools has more than {_MOST_PAGES} pages"))
        info = client.server_info
        name, release = (info.name, info.version) if info else ("", "")
        return Listing(name, release, client.protocol_version, tuple(tools))

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call, as sent over the wire. Raises `McpTimeout` if there is none in time, and `McpError` if
        the server has ended or breaks the protocol."""
        client = self._live()
        async with _explained(self):
            with anyio.fail_after(self._config.timeout):
                return await asked(client.session, "tools/call", {"name": tool, "arguments": dict(arguments)})

    def _live(self) -> Any:
        if self._client is None:
            raise McpError(self._named(self._failure or f"the server has ended{self._said()}"))
        return self._client

    def lost(self, why: str) -> McpError:
        """Marks the connection as unusable, and returns the error to raise."""
        self._failure = self._failure or f"{why}{self._said()}"
        self._closing.set()
        return McpError(self._named(self._failure))

    async def aclose(self) -> None:
        """Disconnects, and ends the server if it started one."""
        if self._task is None:
            return
        self._closing.set()
        with anyio.CancelScope(shield=True):
            if not self._opened.is_set():
                self._task.cancel()
            done, _ = await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)
            if not done:
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)

    def _named(self, message: str) -> str:
        prefix = f"mcp.servers.{self.name}"
        return printable(message if message.startswith(f"{prefix}.") else f"{prefix}: {message}")

    def _is_refused(self, message: str) -> bool:
        """Whether the latest answer, an error, says that no later call on this connection can work."""
        unknown = self._status == 404 or (self._status == 400 and _NO_SESSION.search(message) is not None)
        return unknown or self._status in _KEY_REFUSED

    def _address(self) -> str:
        return resolved(self._config.url, f"mcp.servers.{self.name}.url")

    def _reason(self, error: BaseException) -> str:
        """What ended the connection, without keys in the address."""
        if not (url := self._config.url) or isinstance(error, ConfigError):
            return _reason(error, url)
        return _ADDRESS.sub(r"\1\2", _reason(error, url).replace(self._address(), url))

    def _answered(self) -> str:
        """The status of an HTTP server's latest answer, for a message, if it is an error."""
        key = "; is the key in `headers` right?" if self._status in _KEY_REFUSED else ""
        return f" (HTTP {self._status}){key}" if self._status >= 400 else ""

    def _said(self) -> str:
        """The last line of the server's stderr, for a message."""
        lines = [line.strip() for line in (self._pipes.errors() if self._pipes else "").splitlines() if line.strip()]
        return f"; it said: {lines[-1][:300]}" if lines else ""


@asynccontextmanager
async def _explained(connection: Connection) -> AsyncIterator[None]:
    """Turns failures of the SDK into `McpError`."""
    from mcp.shared.exceptions import MCPError

    try:
        yield
    except TimeoutError:
        raise McpTimeout(connection._named(f"no answer within {connection._config.timeout:g} seconds")) from None
    except MCPError as error:
        if is_closed(error) or connection._is_refused(error.error.message):
            raise connection.lost(f"the connection was lost{connection._answered()}") from None
        if connection._status >= 429:
            raise McpTimeout(connection._named(f"no answer{connection._answered()}")) from None
        raise McpRefused(error.error.message) from None
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        raise connection.lost("the connection was lost") from None


class McpTimeout(McpError):
    """A call got no answer in time, or that of a server that is too busy or failing (HTTP 429 and above)."""


class McpRefused(McpError):
    """The server answered a call with an error of the protocol."""


def resolved(text: str, field: str) -> str:
    """The text with each `${NAME}` replaced by that environment variable. Raises `ConfigError` if it is not set."""

    def value(match: re.Match[str]) -> str:
        if (found := os.environ.get(match[1])) is None:
            raise ConfigError(f"{field}: set {match[1]} in the environment")
        return found

    return REFERENCE.sub(value, text)


def _of(config: McpServerConfig) -> Sequence[tuple[str, str]]:
    return tuple(config.headers.items())


def _reason(error: BaseException, url: str) -> str:
    """One line for what ended a connection, which the SDK may have wrapped several times."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if type(error).__name__ in ("ConnectError", "ConnectTimeout"):  # of httpx2, which is not loaded here
        return f"{url} cannot be reached; is the server running?"
    if type(error).__name__ == "MCPError":
        said = " ".join(str(error).split())[:300]
        return f"{url}: {said}" if url else "it ended before it was ready" if said == "Connection closed" else said
    if isinstance(error, InfraError | ConfigError | OSError | SandboxError):
        return str(error)
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
