"""HTTP: the agent as an endpoint of OpenAI's chat completions, and webhooks that start a turn."""

import hashlib
import hmac
import json
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from hermes_lab.config.gateway import HttpConfig
from hermes_lab.errors import HermesLabError
from hermes_lab.gateway.platform import CLIENT, Accept, Inbound, Outbound, PlatformError, Refused, Sender, Services
from hermes_lab.gateway.split import Limit
from hermes_lab.sessions import SessionKey

if TYPE_CHECKING:
    from aiohttp import web

SESSION = "X-Hermes-Session"
RETRY = "Idempotency-Key"
"""A request with a key that was used before, and the same message, gets the answer of the first, within 30 days."""
_RETRY_DAYS = 30.0  # as long as the inbox knows its messages
_CONVERSATION_DAYS = 90.0
_SIGNATURE = "X-Hub-Signature-256"
_DELIVERY = ("X-GitHub-Delivery", "X-Hermes-Delivery")
_RETRIED = "key-"
_MODEL = "hermes"
_MOST_BYTES = 4 << 20
_ALIVE_SECONDS = 15.0
_STOP_SECONDS = 1.0
_log = logging.getLogger("hermes_lab.gateway")


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text of all parts, with a line for each part that is none."""
        return "\n".join(map(_read, self.content)) if isinstance(self.content, list) else self.content or ""

    @property
    def is_blank(self) -> bool:
        """Whether no part has a text."""
        texts = [part for part in self.content if _is_text(part)] if isinstance(self.content, list) else self.content
        return not _Message(self.role, texts).text.strip()


class _Request(msgspec.Struct):
    messages: list[_Message]
    model: str = _MODEL
    stream: bool = False


class HttpPlatform:
    """See `Platform`."""

    name = "http"
    limit = Limit(1 << 40, "characters")
    hint = ""
    idempotent = True
    one_reply = True

    def __init__(self, config: HttpConfig) -> None:
        self._config = config

    @asynccontextmanager
    async def connect(self, services: Services) -> AsyncIterator["HttpServer"]:
        """Listens. Raises `PlatformError` if the port is taken, `Refused` without a key."""
        from aiohttp import web

        server = HttpServer(self._config, services)
        # A turn may take an hour: a stop must not wait for its request. The message is answered after the restart.
        runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._config.host, self._config.port)
            try:
                await site.start()
            except OSError as error:
                where = f"{self._config.host}:{self._config.port}"
                raise PlatformError(f"{where}: {error.strerror or error}; see gateway.http.port") from None
            server.address = runner.addresses[0][:2]
            _log.info("http listens at http://{}:{}/v1".format(*server.address))
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()


class HttpServer:
    """See `Connection`."""

    def __init__(self, config: HttpConfig, services: Services) -> None:
        self.address: tuple[str, int] = ("", 0)
        self._config = config
        self._services = services
        self._key = _secret(config.key_env)
        self._secrets = {name: _secret(hook.secret_env) for name, hook in config.webhooks.items()}
        self._accept: Accept | None = None
        self._asked: dict[str, _Asked] = {}

    def app(self) -> "web.Application":
        """The application."""
        from aiohttp import web

        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/webhook/{name}", self._webhook)
        return app

    async def receive(self, accept: Accept) -> None:
        """See `Connection.receive`."""
        self._accept = accept
        try:
            await anyio.sleep_forever()
        finally:
            self._accept = None

    async def send(self, message: Outbound) -> str:
        """See `Connection.send`. The answer to a client that has left is only in its session."""
        name = message.chat.removeprefix("webhook-")
        hook = self._config.webhooks.get(name) if name != message.chat else None
        if hook and hook.deliver:
            await self._services.post(f"webhook {message.key}", SessionKey.parse(hook.deliver), message.text)
            return message.key
        if message.reply_to.startswith(_RETRIED):
            await self._services.set_fact(f"answer {message.reply_to}", message.text, _RETRY_DAYS)
        if asked := self._asked.get(message.reply_to):
            asked.answer(message.text)
        return message.key

    async def _health(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        del request
        return web.json_response({"status": "ok" if self._accept else "starting"})

    async def _models(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        self._check_key(request)
        return web.json_response({"object": "list", "data": [{"id": _MODEL, "object": "model", "owned_by": _MODEL}]})

    async def _complete(self, request: "web.Request") -> "web.StreamResponse":
        from aiohttp import web

        self._check_key(request)
        try:
            asked = msgspec.json.decode(await request.read(), type=_Request)
        except msgspec.DecodeError as error:
            raise _refusal(web.HTTPBadRequest, str(error)) from None
        said = [message for message in asked.messages if message.role in ("user", "assistant")]
        if not said or said[-1].role != "user" or said[-1].is_blank:
            raise _refusal(web.HTTPBadRequest, "messages: the last one must be the user's, with a text")
        given = _header(request, SESSION)
        update = _update(_header(request, RETRY), given, said)
        chat, text = await self._place(given, said, update)
        rules = [message for message in asked.messages if message.role in ("system", "developer")]
        text, told = await self._with_rules(chat, rules, text)
        async with self._taken(chat, text, update) as pending:
            if told:
                await self._services.set_fact(f"rules {chat}", told, _CONVERSATION_DAYS)

            async def answered() -> str:
                answer = await self._answer(pending)
                if not given:
                    await self._remember(chat, said, answer)
                return answer

            if asked.stream:
                return await _streamed(request, answered)
            return web.json_response(_completion(await answered()))

    async def _webhook(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        name, body = request.match_info["name"], await request.read()
        if (hook := self._config.webhooks.get(name)) is None:
            raise _refusal(web.HTTPNotFound, f"no webhook {name}")
        right = "sha256=" + hmac.new(self._secrets[name].encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(right.encode(), _bytes(request.headers.get(_SIGNATURE, ""))):
            raise _refusal(web.HTTPUnauthorized, f"{_SIGNATURE} is missing or wrong")
        text = hook.prompt.replace("{body}", body.decode(errors="replace"))
        if not text.strip():
            raise _refusal(web.HTTPBadRequest, "the message to the agent would be empty: send a body")
        if text.lstrip().startswith("/"):  # whoever writes an issue or a mail must not give commands
            text = f"/{text.lstrip()}"
        given = next(filter(None, (_header(request, each) for each in _DELIVERY)), "")
        if hook.deliver:
            await self._arrive(f"webhook {name} {given or uuid.uuid4().hex}", f"webhook-{name}", text, "")
            return web.json_response({"accepted": True}, status=202)
        async with self._taken(f"webhook-{name}", text, _update(given, name, [_Message("user", text)])) as pending:
            return web.json_response({"answer": await self._answer(pending)})

    async def _place(self, given: str, said: Sequence[_Message], new: str) -> tuple[str, str]:
        """The chat of a request and the message for it: that of the session that it names, or else that whose
        conversation so far is the same, or a `new` one, which is told about the conversation."""
        last, before = said[-1].text, said[:-1]
        if given:
            return f"session-{given}", last
        if not before:
            return new, last
        known = await self._services.fact(seen := _digest(before))
        # A chat that has gone on since is another conversation: the client went back, or is another one.
        if known and await self._services.fact(f"at {known}") == seen:
            return known, last
        lines = "\n".join(f"{message.role}: {message.text}" for message in before)
        return new, f"The conversation so far:\n\n{lines}\n\nThe message to answer:\n\n{last}"

    async def _with_rules(self, chat: str, rules: Sequence[_Message], text: str) -> tuple[str, str]:
        """The message with the client's instructions before it, and their digest; without them, and "", if the chat has
        them already. A command is nothing else: the message after it has them."""
        said = "\n\n".join(filter(None, (message.text.strip() for message in rules)))
        digest = _digest(rules)
        if not said or text.lstrip().startswith("/") or await self._services.fact(f"rules {chat}") == digest:
            return text, ""
        whole = f"Instructions of the client for this conversation:\n\n{said}\n\nThe message to answer:\n\n{text}"
        return whole, digest

    async def _remember(self, chat: str, said: Sequence[_Message], answer: str) -> None:
        now = _digest([*said, _Message("assistant", answer)])
        known = await self._services.fact(now)
        if known and await self._services.fact(f"at {known}") == now:
            return  # a retry, or the same conversation once more
        await self._services.set_fact(now, chat, _CONVERSATION_DAYS)
        await self._services.set_fact(f"at {chat}", now, _CONVERSATION_DAYS)

    @asynccontextmanager
    async def _taken(self, chat: str, text: str, update: str) -> AsyncIterator["_Asked"]:
        """A message that has arrived, and whose answer is waited for. A client that leaves does not stop the turn."""
        asked = self._asked.setdefault(update, _Asked())
        asked.waiting += 1
        try:
            if update.startswith(_RETRIED) and (answer := await self._services.fact(f"answer {update}")):
                asked.answer(answer)
            else:
                await self._arrive(update, chat, text, update)
            yield asked
        finally:
            asked.waiting -= 1
            if not asked.waiting:
                del self._asked[update]

    async def _answer(self, asked: "_Asked") -> str:
        from aiohttp import web

        try:
            with anyio.fail_after(self._config.timeout):
                return await asked.wait()
        except TimeoutError:
            raise _refusal(web.HTTPGatewayTimeout, "no answer in time; the turn goes on") from None

    async def _arrive(self, update: str, chat: str, text: str, message: str) -> None:
        from aiohttp import web

        if self._accept is None:
            raise _refusal(web.HTTPServiceUnavailable, "starting")
        sender = Sender(CLIENT)
        try:
            await self._accept(Inbound(update=update, chat=chat, sender=sender, text=text, message=message))
        except HermesLabError as error:  # such as a full disk; it may name paths of this machine
            _log.error("http could not take a message: %s", error)
            raise _refusal(web.HTTPServiceUnavailable, "the message could not be taken; send it again later") from None

    def _check_key(self, request: "web.Request") -> None:
        from aiohttp import web

        given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if not hmac.compare_digest(_bytes(given), _bytes(self._key)):
            raise _refusal(web.HTTPUnauthorized, "wrong key: send Authorization: Bearer and the key of this gateway")


class _Asked:
    """A message whose answer is waited for, by one request or by several with its key."""

    def __init__(self) -> None:
        self.waiting = 0
        self._text = ""
        self._given = anyio.Event()

    def answer(self, text: str) -> None:
        """Gives the answer."""
        self._text = text
        self._given.set()

    async def wait(self) -> str:
        """The answer, once it is given."""
        await self._given.wait()
        return self._text


PLATFORM = HttpPlatform


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") == "text"


def _read(part: dict[str, Any]) -> str:
    """What the agent reads of a part of a message."""
    if _is_text(part):
        return str(part.get("text", ""))
    what = "a picture" if str(part.get("type", "")).startswith("image") else "a file"
    return f"[{what}: only text reaches you]"


def _bytes(text: str) -> bytes:
    """The bytes of a header or an environment variable, which may be no UTF-8."""
    return text.encode(errors="surrogateescape")


def _header(request: "web.Request", name: str) -> str:
    """A header that becomes an id; "" if it is missing. Refuses one that is no UTF-8."""
    from aiohttp import web

    value = request.headers.get(name, "")
    if value != value.encode(errors="replace").decode():
        raise _refusal(web.HTTPBadRequest, f"{name}: is not UTF-8")
    return value


def _secret(variable: str) -> str:
    if not (value := os.environ.get(variable, "")):
        raise Refused(f"{variable} is not set: export a secret of your choice in it, and start the gateway again")
    return value


def _update(key: str, place: str, said: Sequence[_Message]) -> str:
    """The id of a message: the same for requests with the same key."""
    if not key:
        return uuid.uuid4().hex
    return _RETRIED + hashlib.sha256(msgspec.json.encode((key, place, _digest(said)))).hexdigest()


def _digest(messages: Sequence[_Message]) -> str:
    said = [(message.role, message.text) for message in messages]
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()


def _completion(answer: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": _MODEL,
        "choices": [choice],
    }


def _chunks(answer: str) -> list[dict[str, Any]]:
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": "chat.completion.chunk", "created": int(time.time())}
    said = {"role": "assistant", "content": answer}
    return [
        {**head, "model": _MODEL, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in ((said, None), ({}, "stop"))
    ]


async def _streamed(request: "web.Request", answered: Callable[[], Awaitable[str]]) -> "web.StreamResponse":
    """The answer as events, once there is one; or why there is none, as an event too."""
    from aiohttp import web

    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    events: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_keep_alive, response)
        try:
            events += map(json.dumps, _chunks(await answered()))
        except web.HTTPException as refusal:  # the status has been sent
            events.append(refusal.text or "")
        except HermesLabError as error:
            _log.error("http could not answer a message: %s", error)
            events.append(_refusal(web.HTTPServiceUnavailable, "the answer could not be sent").text or "")
        group.cancel_scope.cancel()
    with suppress(ConnectionResetError):  # the client has left
        for event in [*events, "[DONE]"]:
            await response.write(f"data: {event}\n\n".encode())
    return response


async def _keep_alive(response: "web.StreamResponse") -> None:
    with suppress(ConnectionResetError):  # the client has left; its turn goes on
        while True:
            await anyio.sleep(_ALIVE_SECONDS)
            await response.write(b": working\n\n")


def _refusal(kind: "type[web.HTTPException]", why: str) -> "web.HTTPException":
    body = json.dumps({"error": {"message": why, "type": "invalid_request_error"}})
    return kind(text=body, content_type="application/json")
