"""Matrix: the agent as a user of a homeserver, in rooms that are not encrypted."""

import hashlib
import importlib.util
import json
import logging
import os
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from hermes_lab.config.gateway import MatrixConfig
from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import (
    Accept,
    ChatType,
    Inbound,
    Judged,
    Outbound,
    PlatformError,
    Refused,
    Sender,
    Services,
    Undeliverable,
)
from hermes_lab.gateway.platforms import matrix_events as events
from hermes_lab.gateway.platforms.matrix_requests import (
    TYPES,
    NoConnection,
    SignedOut,
    asked,
    shown_name,
    sync_filter,
    uploaded,
    written,
)
from hermes_lab.gateway.split import Limit
from hermes_lab.sessions import SessionKey

_WAIT_MS = 30_000
_REQUEST_SECONDS = 15
_PAGE = 100  # what Synapse gives at most
_MOST_PAGES = 50
_ENCRYPTED = (
    "This room is encrypted, and I cannot read encrypted messages. Please invite me to a room without encryption; it "
    "can only be left off when a room is made."
)
_log = logging.getLogger("hermes_lab.gateway")


class MatrixPlatform:
    """See `Platform`. Raises `ConfigError` if the configuration has no homeserver or user."""

    name = "matrix"
    limit = Limit(16_000, "bytes")
    hint = "Your replies are shown in a Matrix room. Markdown is rendered; pictures cannot be embedded."
    # The homeserver knows a message by its device and transaction id, and both stay the same.
    idempotent = True

    def __init__(self, config: MatrixConfig) -> None:
        if importlib.util.find_spec("nio") is None:
            raise ConfigError("gateway.platforms: matrix needs its extra: pip install 'hermes-lab[matrix]'")
        if not re.match(r"https?://.", config.homeserver):
            raise ConfigError("gateway.matrix.homeserver: give its address, such as https://matrix.org")
        if not re.fullmatch(r"@[^:\s]+:\S+", config.user):
            raise ConfigError("gateway.matrix.user: give the bot's user id, such as @hermes:matrix.org")
        self._config = config
        self._signed_in: tuple[str, str] | None = None

    @asynccontextmanager
    async def connect(self, services: Services) -> AsyncIterator["MatrixConnection"]:
        """Signs in. Raises `Refused` for a wrong password."""
        import nio

        logging.getLogger("nio").setLevel(logging.CRITICAL)  # it logs what it cannot read
        config = self._config
        if not (password := os.environ.get(config.password_env, "")):
            raise Refused(f"{config.password_env} is not set")
        # Its own for each home, since the transaction ids of two homes may be the same.
        if not (device := await services.fact("device")):
            device = f"HERMES{secrets.token_hex(5).upper()}"
            await services.set_fact("device", device)
        settings = nio.AsyncClientConfig(
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=_REQUEST_SECONDS,
            encryption_enabled=False,
        )
        client = nio.AsyncClient(config.homeserver.rstrip("/"), config.user, device_id=device, config=settings)
        try:
            await self._sign_in(client, password)
            yield MatrixConnection(client, services, await shown_name(client), config)
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()

    async def _sign_in(self, client: Any, password: str) -> None:
        if self._signed_in:  # signing in for each connection would soon be too often for the homeserver
            user, token = self._signed_in
            client.user_id, client.access_token = user, token
            try:
                await asked(client.whoami())
                return
            except (SignedOut, Undeliverable):
                client.access_token = ""
        try:
            await asked(client.login(password, device_name="Hermes"))
        except Undeliverable as error:
            raise Refused(f"the homeserver refuses the user or password: {error}") from None
        self._signed_in = (client.user_id, client.access_token)


class MatrixConnection:
    """See `Connection`."""

    def __init__(self, client: Any, services: Services, shown_name: str, config: MatrixConfig) -> None:
        self._client = client
        self._services = services
        self._config = config
        self._me: str = client.user_id
        self._names = (shown_name, self._me[1:].partition(":")[0])
        self._members: dict[str, Mapping[str, str]] = {}
        self._encrypted: set[str] = set()

    async def receive(self, accept: Accept) -> None:
        """See `Connection.receive`. What was in the rooms before the first connection of all is not read."""
        name = f"since {self._config.homeserver} {self._me}"
        since = await self._services.fact(name)
        while True:
            most = _PAGE if since else 1
            try:
                got = await asked(
                    self._client.sync(timeout=_WAIT_MS, since=since or None, sync_filter=sync_filter(most))
                )
            except Undeliverable as error:
                raise PlatformError(str(error)) from None
            for room, invitation in got.rooms.invite.items():
                await self._invited(room, invitation.invite_state)
            for room, joined in got.rooms.join.items() if since else ():
                await self._read(room, await self._events(room, joined.timeline, since), accept)
            if got.next_batch != since:
                since = got.next_batch
                await self._services.set_fact(name, since)

    async def _invited(self, room: str, state: Sequence[Any]) -> None:
        """Joins a room if the one who invites may write; direct chats also with strangers if it is configured."""
        invitation = next((each for each in state if self._is_own(each, "invite")), None)
        if invitation is None:
            return
        direct = self._config.invitations == "direct" and invitation.content.get("is_direct") is True
        if not (direct or await self._services.may_write(invitation.sender)):
            _log.info("matrix: an invitation of a stranger was left unanswered")
            return
        try:
            await asked(self._client.join(room))
        except NoConnection:
            raise
        except (PlatformError, Undeliverable) as error:  # a room that cannot be joined must not hold up all others
            _log.warning("matrix: an invitation could not be accepted (%s): invite the bot once more", error)

    async def _events(self, room: str, timeline: Any, since: str) -> Sequence[Any]:
        """The events of a room since a point in time; of one that was joined since then, those after the invitation."""
        found = list(timeline.events)
        joined = any(self._is_own(each, "join") and each.prev_membership != "join" for each in found)
        if timeline.limited:
            self._members.pop(room, None)
            found[:0] = await self._earlier(room, timeline.prev_batch, None if joined else since)
        if joined:
            own = {each.membership: n for n, each in enumerate(found) if self._is_own(each, "join", "invite")}
            found = found[own.get("invite", own["join"]) :]
        return found

    async def _earlier(self, room: str, start: str | None, since: str | None) -> Sequence[Any]:
        """The events of a room before `start`: those after `since`, or else those after the bot was invited."""
        found: list[Any] = []
        for _ in range(_MOST_PAGES):
            if not start or (since is None and any(self._is_own(each, "invite") for each in found)):
                break
            request = self._client.room_messages(room, start, end=since, limit=_PAGE, message_filter={"types": TYPES})
            try:
                page = await asked(request)
            except Undeliverable as error:
                _log.warning("matrix: earlier messages of a room cannot be read: %s", error)
                break
            found[:0] = reversed(page.chunk)
            start = page.end if page.chunk else None
        else:
            _log.warning("matrix: over %d events came to a room; older ones are not read", _MOST_PAGES * _PAGE)
        return found

    async def _read(self, room: str, found: Sequence[Any], accept: Accept) -> None:
        for each in found:
            event = events.fields(each.source)
            kind, id = event.get("type"), events.text(event.get("event_id"))
            sender = events.text(event.get("sender"))
            content = events.fields(event.get("content"))
            if kind == "m.room.member":
                self._members.pop(room, None)
            elif not id or not sender or sender == self._me:
                continue
            elif kind == "m.room.message" and (said := events.said(content)):
                await self._message(room, id, sender, content, said, accept)
            elif kind == "m.reaction":
                await self._reaction(room, id, sender, events.fields(content.get("m.relates_to")), accept)
            elif kind == "m.room.redaction":
                taken = events.text(event.get("redacts")) or events.text(content.get("redacts"))
                await self._taken_back(room, id, taken, accept)
            elif kind == "m.room.encrypted":
                await self._cannot_read(room, sender)

    async def _message(
        self, room: str, id: str, sender: str, content: Mapping[str, Any], said: str, accept: Accept
    ) -> None:
        kind, thread = await self._kind(room), events.thread_of(content)
        addressed = (
            kind == "dm"
            or events.mentions(content, self._me, self._names)
            or await self._wrote(room, events.answered(content))
            or await self._wrote(room, thread)
        )
        await accept(
            Inbound(
                update=id,
                chat=room,
                chat_type=kind,
                thread=thread,
                sender=Sender(sender, self._members.get(room, {}).get(sender, "")),
                text=events.without_name(said, self._me, self._names),
                addressed=addressed,
                message=id,
            )
        )

    async def _reaction(self, room: str, id: str, sender: str, relation: Mapping[str, Any], accept: Accept) -> None:
        good = events.verdict(relation.get("key"))
        message = events.text(relation.get("event_id"))
        if good is None or not message or not await self._services.may_write(sender):
            return
        # A reaction that is taken back names neither its message nor what it was.
        about = f"verdicts {room} {message} {sender}"
        given = json.loads(await self._services.fact(about) or "{}") | {id: good}
        await self._services.set_fact(about, json.dumps(given))
        await self._services.set_fact(f"reaction {room} {id}", json.dumps([message, sender]))
        await accept(Judged(id, room, "", Sender(sender), message, good))

    async def _taken_back(self, room: str, id: str, taken: str, accept: Accept) -> None:
        """Of several verdicts of one person, the last that stands counts."""
        if not (known := await self._services.fact(f"reaction {room} {taken}")):
            return
        message, sender = json.loads(known)
        about = f"verdicts {room} {message} {sender}"
        given: dict[str, bool] = json.loads(await self._services.fact(about) or "{}")
        given.pop(taken, None)
        await self._services.set_fact(about, json.dumps(given))
        await accept(Judged(id, room, "", Sender(sender), message, next(reversed(given.values()), None)))

    async def _cannot_read(self, room: str, sender: str) -> None:
        if room in self._encrypted or not await self._services.may_write(sender):
            return
        self._encrypted.add(room)
        _log.warning("matrix: a room is encrypted, and its messages cannot be read")
        place = SessionKey("matrix", room, chat_type=await self._kind(room))
        await self._services.post(f"encrypted {room}", place, _ENCRYPTED)

    async def _kind(self, room: str) -> ChatType:
        """A room of two is a direct chat, whatever it was made as."""
        if room not in self._members:
            found = (await asked(self._client.joined_members(room))).members
            self._members[room] = {each.user_id: events.text(each.display_name) for each in found}
        return "dm" if len(self._members[room]) <= 2 else "group"

    async def _wrote(self, room: str, id: str) -> bool:
        """Whether that message is the bot's."""
        if not id:
            return False
        try:
            found = await asked(self._client.room_get_event(room, id))
        except Undeliverable:
            return False
        return bool(events.fields(found.event.source).get("sender") == self._me)

    def _is_own(self, event: Any, *memberships: str) -> bool:
        """Whether an event says one of these about the bot."""
        return getattr(event, "state_key", None) == self._me and getattr(event, "membership", None) in memberships

    async def send(self, message: Outbound) -> str:
        """See `Connection.send`. The text comes before the files."""
        room, sent = message.chat, ""
        relation = await self._relation(message)
        if message.text.strip():
            sent = await self._put(room, written(message.text) | relation, message.key)
        for number, path in enumerate(message.files):
            id = await self._put(room, await uploaded(self._client, path) | relation, f"{message.key} file {number}")
            sent = sent or id
        return sent

    async def _relation(self, message: Outbound) -> dict[str, Any]:
        """Where a message belongs: to a thread, or as an answer; in direct chats it is clear what it answers."""
        answer = {"m.in_reply_to": {"event_id": message.reply_to or message.thread}}
        if message.thread:
            thread = {"rel_type": "m.thread", "event_id": message.thread, "is_falling_back": True}
            return {"m.relates_to": thread | answer}
        answers = message.reply_to and await self._kind(message.chat) != "dm"
        return {"m.relates_to": answer} if answers else {}

    async def _put(self, room: str, content: Mapping[str, Any], key: str) -> str:
        transaction = hashlib.sha256(key.encode()).hexdigest()[:32]
        sent = await asked(self._client.room_send(room, "m.room.message", content, tx_id=transaction))
        return str(sent.event_id)


PLATFORM = MatrixPlatform
