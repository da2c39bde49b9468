"""Requests to a Matrix homeserver: what their refusals mean, and the content of messages."""

import mimetypes
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import msgspec

from hermes_lab.gateway.platform import PlatformError, TryLater, Undeliverable, Unsure
from hermes_lab.gateway.platforms.matrix_events import clean, text

TYPES = ["m.room.message", "m.reaction", "m.room.redaction", "m.room.encrypted", "m.room.member"]
"""The types of the events that are read."""
_MOST_FORMATTED = 60_000  # an event may have 65,536 bytes
_NOT_FOR_EVER = re.compile(r"M_(UNKNOWN_TOKEN|MISSING_TOKEN|USER_\w+|RESOURCE_LIMIT_EXCEEDED|UNRECOGNIZED)")


class NoConnection(PlatformError):
    """Nothing was sent."""


class SignedOut(PlatformError):
    """The access token is void."""


async def asked(request: Awaitable[Any]) -> Any:
    """The answer to a request. Errors have the homeserver's code alone: its words may hold names and ids."""
    import aiohttp
    import nio

    try:
        answer = await request
    except aiohttp.ClientConnectorError as error:
        raise NoConnection(f"the homeserver cannot be reached ({type(error).__name__})") from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unsure(f"the homeserver does not answer ({type(error).__name__})") from None
    if not isinstance(answer, nio.ErrorResponse):
        return answer
    status = answer.transport_response.status if answer.transport_response else 0
    code = found[0] if (found := re.match(r"M_[A-Z_]+", str(answer.status_code))) else ""
    why = f"the homeserver answered {code or 'no Matrix error'} (HTTP {status})"
    if status == 429 or code == "M_LIMIT_EXCEEDED":
        raise TryLater((answer.retry_after_ms or 5000) / 1000)
    if code in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
        raise SignedOut(why)
    if 400 <= status < 500 and code and not _NOT_FOR_EVER.fullmatch(code):
        raise Undeliverable(why)
    raise PlatformError(why)


async def _first(request: Awaitable[tuple[Any, Any]]) -> Any:
    return (await request)[0]


def written(text: str) -> dict[str, Any]:
    """The content of a message, with its Markdown as HTML if both fit."""
    from markdown_it import MarkdownIt

    body = clean(text)
    # Without mentions, "@room" in a reply calls nobody.
    plain = {"msgtype": "m.text", "body": body, "m.mentions": {}}
    html = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"]).disable("image")
    formatted = plain | {"format": "org.matrix.custom.html", "formatted_body": html.render(body).strip()}
    return formatted if len(msgspec.json.encode(formatted)) <= _MOST_FORMATTED else plain


async def uploaded(client: Any, path: Path) -> dict[str, Any]:
    """The content of a message with a file, once it is uploaded. Raises as `asked` does."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        # Its bytes, not its path: nio leaves a file open that the server answers before all of it is read.
        content = await anyio.Path(path).read_bytes()
        upload = client.upload(lambda *_: content, content_type=kind, filename=path.name, filesize=len(content))
        got = await asked(_first(upload))
    except OSError as error:
        raise Undeliverable(f"a file cannot be read: {error.strerror}") from None
    return {
        "msgtype": "m.image" if kind.startswith("image/") else "m.file",
        "body": path.name,
        "url": got.content_uri,
        "info": {"mimetype": kind, "size": len(content)},
        "m.mentions": {},
    }


async def shown_name(client: Any) -> str:
    """The bot's display name; "" if it has none."""
    try:
        return text((await asked(client.get_displayname())).displayname)
    except Undeliverable:
        return ""


def sync_filter(most: int) -> dict[str, Any]:
    """What a sync gives: `most` events of each room, without what is not read."""
    none: dict[str, Any] = {"types": []}
    room = {
        "timeline": {"limit": most, "types": TYPES},
        "state": none,
        "ephemeral": none,
        "account_data": none,
    }
    return {"presence": none, "account_data": none, "room": room}
