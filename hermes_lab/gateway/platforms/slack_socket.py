"""Socket Mode: the connection on which Slack sends events.

slack_sdk has a client for it, which is not used: it reads events side by side, so that their order is lost, reconnects
for ever without a word, and logs what was said.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from hermes_lab.gateway.platform import PlatformError, Refused

if TYPE_CHECKING:
    import aiohttp

_HELLO_SECONDS, _CLOSE_SECONDS = 10.0, 2.0
_PING_SECONDS = 10.0


async def open_socket(session: "aiohttp.ClientSession", address: str) -> "aiohttp.ClientWebSocketResponse":
    """A connection to the address that Slack gave, once Slack has said hello. Raises `PlatformError`, and aiohttp's
    errors. It ends when Slack answers no ping."""
    from yarl import URL

    url = URL(address)
    url = url.with_scheme("https" if url.scheme == "wss" else "http")  # aiohttp finds proxies by these names
    socket = await session.ws_connect(url, heartbeat=_PING_SECONDS)
    try:
        with anyio.move_on_after(_HELLO_SECONDS):
            async for envelope in envelopes(socket):
                if envelope.get("type") == "hello":
                    return socket
                check(envelope)
        raise PlatformError("Slack did not say hello")
    except BaseException:
        await close(socket)
        raise


async def envelopes(socket: "aiohttp.ClientWebSocketResponse") -> AsyncIterator[Mapping[str, Any]]:
    """What Slack sends, until the connection ends."""
    from aiohttp import WSMsgType

    async for frame in socket:
        if frame.type is WSMsgType.ERROR:
            return
        if frame.type is WSMsgType.TEXT and isinstance(envelope := _decoded(frame.data), Mapping):
            yield envelope


async def close(socket: "aiohttp.ClientWebSocketResponse") -> None:
    """Ends a connection, whoever is cancelled."""
    with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
        await socket.close()


def check(envelope: Mapping[str, Any]) -> None:
    """Raises the error of a `disconnect`, unless a new connection is all that it asks for."""
    if envelope.get("type") != "disconnect":
        return
    reason = str(envelope.get("reason", ""))
    if reason == "link_disabled":
        raise Refused("Socket Mode is switched off in the app's settings")
    if reason not in ("warning", "refresh_requested"):
        known = reason if reason.replace("_", "").isalnum() and len(reason) < 80 else "no reason that is known"
        raise PlatformError(f"Slack ends the connection: {known}")


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
