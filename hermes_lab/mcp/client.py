"""The SDK's client, and what the lab does with it by other ways than its methods."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

_CLOSED = ("Connection closed", "SSE stream ", "server answered a request with 202")


@asynccontextmanager
async def client_of(streams: Any, on_message: Any, *, defaults: bool) -> AsyncIterator[Any]:
    """The SDK's client over those streams; `on_message` receives the server's notifications and requests. What a server
    asks the user is answered by the `defaults` of its form, or declined."""
    import mcp_types
    from mcp import Client

    @asynccontextmanager
    async def given() -> AsyncIterator[Any]:
        yield streams

    us = mcp_types.Implementation(name="hermes-lab", version=version("hermes-lab"))
    answer = _by_defaults if defaults else _declined
    options: dict[str, Any] = {"message_handler": on_message, "client_info": us, "elicitation_callback": answer}
    async with Client(given(), cache=None, **options) as client:
        yield client


async def _by_defaults(context: Any, params: Any) -> Any:
    """Answers what a server asks the user by the defaults of its form, as nobody is there to ask; declines a question
    that has no fields, which asks for consent alone, and one that has a required field without a default."""
    import mcp_types

    form = getattr(params, "requested_schema", None)
    if not isinstance(form, dict):  # such as an address to visit
        return await _declined(context, params)
    fields = form.get("properties") or {}
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    if not fields or not set(form.get("required") or ()) <= set(content):
        return await _declined(context, params)
    return mcp_types.ElicitResult(action="accept", content=content)


async def _declined(context: Any, params: Any) -> Any:
    import mcp_types

    del context, params
    return mcp_types.ElicitResult(action="decline")


def is_closed(error: Any) -> bool:
    """Whether an error is the SDK's for a request that will get no answer. Servers have its number for errors of their
    own, so the words count, too."""
    from mcp_types import CONNECTION_CLOSED

    return bool(error.error.code == CONNECTION_CLOSED and error.error.message.startswith(_CLOSED))


async def asked(session: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, as sent over the wire.

    Not by the SDK's own methods, which throw away a whole list of tools for one wrong schema, and a whole result for a
    part that they do not know, or that does not fit the tool's output schema. Those of the pinned version are used that
    they are made of.
    """
    data: dict[str, Any] = {"method": method, "params": params}
    options: dict[str, Any] = {}
    session._stamp(data, options)
    answer: dict[str, Any] = await session._dispatcher.send_raw_request(method, data["params"], options)
    return answer
