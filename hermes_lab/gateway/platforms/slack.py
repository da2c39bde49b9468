"""Slack, as an app with Socket Mode."""

import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from hermes_lab.config.gateway import SlackConfig
from hermes_lab.gateway.platform import (
    Accept,
    Inbound,
    Judged,
    Outbound,
    PlatformError,
    Refused,
    Services,
    Undeliverable,
    Unsure,
)
from hermes_lab.gateway.platforms.slack_errors import failures
from hermes_lab.gateway.platforms.slack_events import Reader, escaped
from hermes_lab.gateway.platforms.slack_socket import check, close, envelopes, open_socket
from hermes_lab.gateway.split import Limit

if TYPE_CHECKING:
    import aiohttp
    from slack_sdk.web.async_client import AsyncWebClient

_CALL_SECONDS, _CONNECT_SECONDS = 15, 5
_OLD_SECONDS = 60.0  # a connection that was replaced ends within 10
_NAME_SECONDS = 1.5  # Slack sends an event again after 3
_MOST_NAMES = 10_000
_MOST_ASKED = 1_000
_MOST_BYTES = 50 << 20
_log = logging.getLogger("hermes_lab.gateway")


class SlackPlatform:
    """See `Platform`. Slack advises 4,000 characters a message, and cuts it off beyond 40,000."""

    name = "slack"
    limit = Limit(3900, "characters")  # the rest is for the line that says that a message is sent again
    hint = (
        "Your replies are shown in Slack, whose markup is not Markdown: *bold*, _italic_, ~struck~, `code`, ``` blocks "
        "and > quotes work; headings, tables and [links](address) do not, so write addresses as they are. Nobody is "
        "notified by an @name that you write. You only get the text of what people send; a line in brackets names "
        "anything else. Slack keeps what begins with a slash for itself: people write commands as !status, or "
        "after a mention of you."
    )
    idempotent = False

    def __init__(self, config: SlackConfig) -> None:
        self._config = config
        self._sent: dict[str, dict[str, str]] = {}

    @asynccontextmanager
    async def connect(self, services: Services) -> AsyncIterator["SlackBot"]:
        """Signs in, and opens the connection for events. Raises `Refused` without tokens or the package, and for
        tokens that Slack does not take."""
        config = self._config
        token = _secret(config.token_env, "the bot's token (xoxb-...), from OAuth & Permissions")
        app_token = _secret(config.app_token_env, "the app's token (xapp-...), from Basic Information")
        try:
            from slack_sdk.web.async_client import AsyncWebClient
        except ImportError:
            raise Refused("slack_sdk is missing; install it: pip install 'hermes-lab[slack]'") from None
        import aiohttp

        logging.getLogger("slack_sdk").setLevel(logging.WARNING)  # it logs tokens' owners and what is said
        waits = aiohttp.ClientTimeout(total=_CALL_SECONDS, sock_connect=_CONNECT_SECONDS)
        async with aiohttp.ClientSession(timeout=waits, trust_env=True) as session:
            web = AsyncWebClient(token, config.base_url, session=session, retry_handlers=[])
            web.proxy = None  # slack_sdk ignores no_proxy; the session reads all of these variables
            bot = SlackBot(web, session, config, services, self._sent)
            socket = await bot.start(app_token)
            try:
                yield bot
            finally:
                await close(socket)


class SlackBot:
    """See `Connection`. `sent` are the ids of the parts that were sent of messages under way, by their keys."""

    def __init__(
        self,
        web: "AsyncWebClient",
        session: "aiohttp.ClientSession",
        config: SlackConfig,
        services: Services,
        sent: dict[str, dict[str, str]],
    ) -> None:
        self._web = web
        self._session = session
        self._config = config
        self._services = services
        self._sent = sent
        self._app_token = ""
        self._first: aiohttp.ClientWebSocketResponse | None = None
        self._reader: Reader | None = None
        self._names: dict[str, str] = {}
        self._asked: dict[tuple[str, str, str], None] = {}
        self._one_by_one = anyio.Lock()

    async def start(self, app_token: str) -> "aiohttp.ClientWebSocketResponse":
        """Signs in; returns the connection for events."""
        self._app_token = app_token
        with failures(self._config.token_env):
            me = await self._web.auth_test()
        if not me.get("bot_id"):
            raise Refused(f"{self._config.token_env} is not a bot's token (xoxb-...)")
        commands = [name for name, _ in self._services.commands]
        self._reader = Reader(me["user_id"], me["user"] or "", commands, self._name)
        self._first = await self._open()
        return self._first

    async def receive(self, accept: Accept) -> None:
        """See `Connection.receive`. Slack sends an event again until it is acknowledged, to any connection."""
        assert self._first is not None
        async with anyio.create_task_group() as group:

            async def read(socket: "aiohttp.ClientWebSocketResponse") -> None:
                replaced = False
                try:
                    with anyio.CancelScope() as scope:
                        async for envelope in envelopes(socket):
                            if envelope.get("type") != "disconnect":
                                await self._take(socket, envelope, accept)
                                continue
                            check(envelope)
                            if not replaced:  # before the old one ends, so that nothing is missed
                                group.start_soon(read, await self._open())
                                replaced, scope.deadline = True, anyio.current_time() + _OLD_SECONDS
                finally:
                    await close(socket)
                if not replaced:
                    raise PlatformError("Slack closed the connection")

            await read(self._first)

    async def _open(self) -> "aiohttp.ClientWebSocketResponse":
        with failures(self._config.app_token_env):
            url = (await self._web.apps_connections_open(app_token=self._app_token))["url"]
            return await open_socket(self._session, url)

    async def _take(
        self, socket: "aiohttp.ClientWebSocketResponse", envelope: Mapping[str, Any], accept: Accept
    ) -> None:
        if not (id := envelope.get("envelope_id")):
            return
        async with self._one_by_one:
            if envelope.get("type") == "events_api":
                event = await self._event(envelope)
                if event is not None:
                    await accept(event)
            with suppress(ConnectionError):  # the connection has ended, and the event comes again
                await socket.send_json({"envelope_id": id})

    async def _event(self, envelope: Mapping[str, Any]) -> Inbound | Judged | None:
        assert self._reader is not None
        try:
            event = await self._reader.event(envelope["payload"]["event"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # it would come again, and fail again
            _log.error("slack: an event cannot be read (%s), and is left out", type(error).__name__)
            return None
        if not isinstance(event, Inbound) or event.chat_type == "dm":
            return event
        asked = (event.chat, event.thread, event.sender.id)
        if event.addressed:
            self._asked[asked] = None
            if len(self._asked) > _MOST_ASKED:
                del self._asked[next(iter(self._asked))]
        elif asked in self._asked or await self._services.fact(_thread(event.chat, event.thread)):
            return msgspec.structs.replace(event, addressed=True)
        return event

    async def _name(self, user: str) -> str:
        """The name that Slack shows for a user; "" if it does not say in time, or the scope `users:read` is missing."""
        if user not in self._names:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            try:
                with anyio.fail_after(_NAME_SECONDS), failures(self._config.token_env, sending=True):
                    found = (await self._web.users_info(user=user))["user"]
            except (Refused, Undeliverable):
                found = {}
            except (PlatformError, TimeoutError):
                return ""
            profile = found.get("profile") or {}
            shown = profile.get("display_name") or profile.get("real_name") or found.get("name")
            self._names[user] = str(shown or "")
        return self._names[user]

    async def send(self, message: Outbound) -> str:
        """See `Connection.send`: the text, then all files. A further attempt repeats no part that was sent. Without a
        text, the id is that of a file."""
        text = bool(message.text.strip())
        if not text and not message.files:
            raise Undeliverable("Slack takes no message without visible text")
        sent = self._sent.setdefault(message.key, {})
        try:
            if text and "text" not in sent:
                sent["text"] = await self._post(message, message.text)
            if message.files and "files" not in sent:
                sent["files"], sent["notes"] = await self._attach(message)
            if sent.get("notes"):
                sent.setdefault("text", await self._post(message, sent["notes"]))
        except Undeliverable:
            del self._sent[message.key]
            raise
        del self._sent[message.key]
        return sent.get("text") or sent["files"]

    async def _post(self, message: Outbound, text: str) -> str:
        if message.thread:
            await self._services.set_fact(_thread(message.chat, message.thread), "1")
        with failures(self._config.token_env, sending=True):
            posted = await self._web.chat_postMessage(
                channel=message.chat,
                thread_ts=message.thread or None,
                text=escaped(text),
                unfurl_links=False,
                unfurl_media=False,
            )
            return str(posted["ts"])

    async def _attach(self, message: Outbound) -> tuple[str, str]:
        """Sends the files. The id of the first, and what to say about those that cannot be sent."""
        uploaded: list[dict[str, str | None]] = []
        notes: list[str] = []
        for path in message.files:
            try:
                uploaded.append({"id": await self._upload(path), "title": path.name})
            except (_Unreadable, Refused, Undeliverable) as error:
                notes.append(f"({path.name} is not attached: {error})")
            except Unsure as error:  # nobody sees a file that is not completed
                raise PlatformError(str(error)) from None
        if uploaded:
            try:
                with failures(self._config.token_env, sending=True):
                    await self._web.files_completeUploadExternal(
                        files=uploaded, channel_id=message.chat, thread_ts=message.thread or None
                    )
            except (Refused, Undeliverable) as error:
                notes += [f"({each['title']} is not attached: {error})" for each in uploaded]
        return str(uploaded[0]["id"]) if uploaded else "", "\n".join(notes)

    async def _upload(self, path: Path) -> str:
        content = await _read(path)
        with failures(self._config.token_env, sending=True):
            given = await self._web.files_getUploadURLExternal(filename=path.name, length=len(content))
            async with self._session.post(given["upload_url"], data=content) as answer:
                status = answer.status
        if status != 200:
            raise PlatformError(f"Slack does not take a file: HTTP status {status}")
        return str(given["file_id"])


class _Unreadable(Exception):
    """A file that cannot be sent."""


PLATFORM = SlackPlatform


async def _read(path: Path) -> bytes:
    try:
        content = await anyio.Path(path).read_bytes()
    except OSError as error:
        raise _Unreadable(error.strerror or "it cannot be read") from None
    if not content:
        raise _Unreadable("it is empty")
    if len(content) > _MOST_BYTES:
        raise _Unreadable(f"it has more than {_MOST_BYTES >> 20} MB")
    return content


def _thread(chat: str, thread: str) -> str:
    return f"in {chat} {thread}"


def _secret(variable: str, what: str) -> str:
    if not (value := os.environ.get(variable, "").strip()):
        raise Refused(f"{variable} is not set: give {what} at https://api.slack.com/apps")
    return value
