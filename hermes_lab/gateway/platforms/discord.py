"""Discord, as a bot: the gateway for what arrives, the REST API for what is sent."""

import hashlib
import io
import json
import logging
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio

from hermes_lab.config.gateway import DiscordConfig
from hermes_lab.gateway.platform import Accept, Outbound, Refused, Services, Undeliverable
from hermes_lab.gateway.platforms.discord_events import Json, Place, Reader, bot_roles, place
from hermes_lab.gateway.platforms.discord_parts import Part, parts
from hermes_lab.gateway.platforms.discord_wire import (
    NO_HISTORY,
    UNKNOWN_CHANNEL,
    Answer,
    Event,
    Gateway,
    Rest,
    Session,
    client,
)
from hermes_lab.gateway.split import Limit

LIMIT = Limit(2000, "characters")
_SUPPRESS_EMBEDS = 1 << 2
_PAGE = 100
_MOST_CHANNELS = 200
_CHANNELS = "channels"
_REACTIONS = {"MESSAGE_REACTION_ADD": True, "MESSAGE_REACTION_REMOVE": False}
_MOVES = (
    "THREAD_CREATE",
    "THREAD_UPDATE",
    "THREAD_DELETE",
    "THREAD_MEMBERS_UPDATE",
    "CHANNEL_UPDATE",
    "CHANNEL_DELETE",
)
_ID = re.compile(r"[0-9]{1,20}")
T = TypeVar("T")
_log = logging.getLogger("hermes_lab.gateway")


class DiscordPlatform:
    """See `Platform`. A message that is sent again arrives once, but only for some minutes: not `idempotent`."""

    name = "discord"
    limit = LIMIT
    hint = (
        "Your replies are shown in Discord, which renders a part of Markdown: emphasis, headings, lists, quotes, links "
        "and code blocks, but no tables and no pictures by their address. Keep replies short. Nobody is notified by a "
        "mention that you write. You only get the text of what people send; a line in brackets names anything else. "
        "People give you commands as `!status`, or as `/status` after your name, since Discord keeps a `/` at "
        "the start for its own menu."
    )
    idempotent = False

    def __init__(self, config: DiscordConfig) -> None:
        self._config = config
        self._session: Session | None = None

    @asynccontextmanager
    async def connect(self, services: Services) -> AsyncIterator["DiscordBot"]:
        """Signs in. Raises `Refused` without a token, for one that Discord does not know, and for a bot that may not
        read messages."""
        variable = self._config.token_env
        if not (token := os.environ.get(variable, "").strip()):
            raise Refused(f"{variable} is not set: give the token of the bot, from the Developer Portal")
        async with client(token) as http:
            rest = Rest(http, self._config.base_url, variable)
            gateway = await self._open(rest, token)
            final = False
            try:
                yield DiscordBot(rest, gateway, services, await _salt(services))
            except anyio.get_cancelled_exc_class():
                final = True  # the daemon ends
                raise
            finally:
                if final or gateway.session.over:
                    self._session = None
                with anyio.CancelScope(shield=True):
                    await gateway.close(final)

    async def _open(self, rest: Rest, token: str) -> Gateway:
        try:
            gateway = await Gateway.open(rest, token, self._session)
        finally:
            if self._session and self._session.over:
                self._session = None
        self._session = gateway.session
        return gateway


class DiscordBot:
    """See `Connection`."""

    def __init__(self, rest: Rest, gateway: Gateway, services: Services, salt: str) -> None:
        self._rest = rest
        self._gateway = gateway
        self._services = services
        self._salt = salt
        self._places: dict[str, Place] = {}
        self._known: list[str] = []
        self._last: dict[str, int] = {}

    async def receive(self, accept: Accept) -> None:
        """See `Connection.receive`. Discord is not told what is done with. Events that were missed come again if the
        session goes on; otherwise the messages are read from the history of each known channel."""
        session = self._gateway.session
        reader = Reader(session.me, session.roles, {name for name, _ in self._services.commands})
        self._known = json.loads(await self._services.fact(_CHANNELS) or "[]")
        async with anyio.create_task_group() as group:
            group.start_soon(self._gateway.keep_alive)
            group.start_soon(self._gateway.read)
            if not session.caught_up:
                for channel in list(self._known):
                    await self._catch_up(channel, reader, accept)
                session.caught_up = True
            async for event in self._gateway.events:
                await self._event(event, reader, accept)
                session.seq = event.seq

    async def _event(self, event: Event, reader: Reader, accept: Accept) -> None:
        data = event.data
        if event.name == "MESSAGE_CREATE":
            await self._message(data, reader, accept)
        elif event.name in _REACTIONS:
            if where := await self._place(data["channel_id"]):
                update = f"{self._gateway.session.id} {event.seq}"
                if judged := _read(reader.reaction, data, where, update, _REACTIONS[event.name]):
                    await accept(judged)
        elif event.name == "GUILD_CREATE":
            self._gateway.session.roles.update(bot_roles(data, self._gateway.session.me))
        elif event.name in _MOVES:
            self._places.pop(data["id"], None)

    async def _message(self, message: Json, reader: Reader, accept: Accept) -> None:
        channel, author = message["channel_id"], message.get("author") or {}
        if author.get("id") == self._gateway.session.me or not (where := await self._place(channel)):
            return
        if inbound := _read(reader.message, message, where):
            await accept(inbound)
            await self._seen(channel, int(message["id"]))

    async def _catch_up(self, channel: str, reader: Reader, accept: Accept) -> None:
        """Reads what was written in a channel since its last message was seen. What was accepted is known by its id."""
        last = int(await self._services.fact(f"last {channel}") or 0)
        while True:
            try:
                page = await self._rest.get(f"/channels/{channel}/messages?after={last}&limit={_PAGE}")
            except Answer:  # the bot has been removed
                self._known.remove(channel)
                await self._services.set_fact(_CHANNELS, json.dumps(self._known))
                return
            for message in sorted(page, key=lambda message: int(message["id"])):
                await self._message(message, reader, accept)
                last = int(message["id"])
            if len(page) < _PAGE:
                return

    async def _seen(self, channel: str, message: int) -> None:
        """Remembers how far a channel was read."""
        if message > self._last.get(channel, 0):
            self._last[channel] = message
            await self._services.set_fact(f"last {channel}", str(message))
        if channel not in self._known:
            self._known = [*self._known, channel][-_MOST_CHANNELS:]
            await self._services.set_fact(_CHANNELS, json.dumps(self._known))

    async def _place(self, channel: str) -> Place | None:
        """The place of a channel; None if the bot cannot see it any more."""
        if channel not in self._places:
            try:
                found = _read(place, await self._rest.get(f"/channels/{channel}"))
            except Answer:
                return None
            if found is None:
                return None
            if found.chat_type == "dm":
                await self._services.set_fact(f"dm {found.chat}", channel)
            self._places[channel] = found
        return self._places[channel]

    async def send(self, message: Outbound) -> str:
        """See `Connection.send`. A chat is a channel, or a user for direct messages."""
        messages = await parts(message, LIMIT)
        if not messages:
            raise Undeliverable("Discord takes no message without text or a file")
        channel = await self._channel(message)
        sent = [await self._part(message, channel, number, part) for number, part in enumerate(messages)]
        return sent[0]

    async def _channel(self, message: Outbound) -> str:
        channel = message.thread or message.chat
        if not _ID.fullmatch(channel):
            raise Undeliverable("this is no id of a channel or user of Discord")
        if message.thread or channel in self._places:
            return channel
        if known := await self._services.fact(f"dm {channel}"):
            return known
        try:
            await self._rest.call("GET", f"/channels/{channel}")
        except Answer as error:
            if error.code != UNKNOWN_CHANNEL:
                raise
            opened = await self._rest.call("POST", "/users/@me/channels", json={"recipient_id": channel})
            await self._services.set_fact(f"dm {channel}", opened["id"])
            return str(opened["id"])
        return channel

    async def _part(self, message: Outbound, channel: str, number: int, part: Part) -> str:
        # Discord creates one message of a nonce, for some minutes, whatever the chat.
        nonce = hashlib.sha256(f"{self._salt} {message.key} {number}".encode()).hexdigest()[:25]
        asked: dict[str, Any] = {
            "content": part.text,
            "nonce": nonce,
            "enforce_nonce": True,
            "allowed_mentions": {"parse": []},
            "flags": _SUPPRESS_EMBEDS,  # else Discord would fetch every link of the model's
        }
        if number == 0 and _ID.fullmatch(message.reply_to) and channel in (message.chat, message.thread):  # no DM
            asked["message_reference"] = {"message_id": message.reply_to, "fail_if_not_exists": False}
        try:
            return await self._post(channel, asked, part.files)
        except Answer as error:
            if error.code != NO_HISTORY:
                raise
            del asked["message_reference"]
            return await self._post(channel, asked, part.files)

    async def _post(self, channel: str, asked: dict[str, Any], files: Sequence[tuple[str, bytes]]) -> str:
        import aiohttp

        path = f"/channels/{channel}/messages"
        if not files:
            return str((await self._rest.call("POST", path, json=asked))["id"])
        asked["attachments"] = [{"id": index, "filename": name} for index, (name, _) in enumerate(files)]
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("payload_json", json.dumps(asked), content_type="application/json")
        for index, (name, content) in enumerate(files):
            form.add_field(
                f"files[{index}]", io.BytesIO(content), filename=name, content_type="application/octet-stream"
            )
        return str((await self._rest.call("POST", path, data=form))["id"])


PLATFORM = DiscordPlatform


async def _salt(services: Services) -> str:
    """What makes the keys of this home its own."""
    if not (salt := await services.fact("salt")):
        salt = secrets.token_hex(8)
        await services.set_fact("salt", salt)
    return salt


def _read(reads: Callable[..., T], *args: Any) -> T | None:
    """What it reads. What cannot be read is left out: it would come again, and hold up all others."""
    try:
        return reads(*args)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        _log.error("discord: an event cannot be read (%s), and is left out", type(error).__name__)
        return None
