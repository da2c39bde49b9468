"""A Bot API server on loopback, as strict as Telegram's.

    async with TelegramApi() as api: ...                   # `base_url` is api.url, the token is TOKEN
    PYTHONPATH=tests python -m fakes.telegram_api --port 8081     # as a program, to which `/control/...` belongs

Its rules are those of https://core.telegram.org/bots/api and of Telegram's own server
(https://github.com/tdlib/telegram-bot-api), with their error texts:

- a token that is none gets 404, one of no bot 401, a method that does not exist 404;
- getUpdates: an `offset` forgets the updates below it, all others are given again each time; one that is more than 10
  beyond the newest counts as none; `limit` is 1 to 100 and `timeout` at most 50 s; `allowed_updates` holds for updates
  that come later, and stays until it is given again. A second request ends the one that waits with 409;
- a message needs text, at most 4,096 UTF-16 units of it, a chat that the bot knows, a thread and a message to reply to
  that exist. 403 from who blocked the bot. A group that has become a supergroup names its new id;
- a photo is a PNG or JPEG of at most 10 MB, with sides that are not too uneven; a file has at most 50 MB;
- the names of commands are `[a-z0-9_]{1,32}`, their descriptions have 1 to 256 characters, and there are at most 100;
- with `flood`, one message a second and chat, and 30 a second in all, else 429 with `retry_after`.

It forgets nothing: `sent` holds every message that it took, `history` every update, `calls` each request. `faults` are
done to the requests of a method (in lower case), one each: "502", "429", "cut" and "hang" before it is done, "cut
after" when it was done. `rates` are their chances, for all methods or as `sendmessage cut` for one, and those of
"duplicate" and "reorder" for answers to getUpdates, by `random`.

The program says its address in its first line. What people do, and what happens to the server, is posted to it as
JSON, such as `curl -H 'Content-Type: application/json' -d '{"user": 7, "text": "hello"}' URL/control/say`:

    say, react, edit, group, topic, shut, migrate, repeat     the methods of `Chats`, with their arguments
    faults   {"sendmessage": ["cut after"]}       are added to those that are there
    rates    {"duplicate": 0.1, "cut": 0.02}      replace those that are there
    flood    {"on": true}
    cut      {}                                   closes all connections
    sent     {"since": 0}                         the messages from that index on
    waiting  {}                                   the updates that the bot has not confirmed
"""

import argparse
import asyncio
import json
import random
import re
import struct
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from fakes.telegram_chats import DEFAULT_UPDATES, Chats

TOKEN = "123456789:AAF-double_of_the_Bot_API_0123456789ab"
USERNAME = "hermes_lab_bot"
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")


class _Error(Exception):
    def __init__(self, code: int, description: str, **parameters: int) -> None:
        self.code, self.description, self.parameters = code, description, parameters


class _Cut(Exception):
    """Closes the connection."""


class TelegramApi(Chats):
    """See the module."""

    def __init__(self, port: int = 0, flood: bool = False, token: str = TOKEN, seed: int = 0) -> None:
        super().__init__()
        self.token, self.port, self.flood = token, port, flood
        self.id = int(token.partition(":")[0])
        self.sent: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.commands: list[dict[str, str]] = []
        self.faults: dict[str, deque[str]] = defaultdict(deque)
        self.rates: dict[str, float] = {}
        self.random = random.Random(seed)
        self.webhook = ""
        self.polled = False  # whether the bot has asked for updates
        self._last: dict[int, float] = {}
        self._times: deque[float] = deque()
        self._open: set[asyncio.BaseTransport] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """What `base_url` is set to."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> "TelegramApi":
        app = web.Application(client_max_size=80 << 20)
        app.router.add_route("*", "/bot{token}/{method}", self._call)
        app.router.add_post("/control/{what}", self._control)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._wake("")
        assert self._runner is not None
        await self._runner.cleanup()

    # What the bot does.

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"].lower()
        assert request.transport is not None
        self._open = {each for each in self._open if not each.is_closing()} | {request.transport}
        data: dict[str, Any] = {**request.query}
        try:
            data |= await (request.json() if request.content_type == "application/json" else request.post())
        except ConnectionError:  # the client has gone
            return web.Response()
        try:
            fault = self._fault(method)
            if fault == "cut":
                raise _Cut
            if fault == "429":
                raise _Error(429, "Too Many Requests: retry after 1", retry_after=1)
            if fault == "hang":
                await asyncio.sleep(60)
            if fault == "502":
                return web.Response(status=502, text="<html><h1>502 Bad Gateway</h1></html>", content_type="text/html")
            result = await self._done(request.match_info["token"], method, data)
            if fault == "cut after":
                raise _Cut
            return web.json_response({"ok": True, "result": result})
        except _Cut:
            if request.transport:
                request.transport.abort()
            return web.Response()
        except _Error as error:
            body: dict[str, Any] = {"ok": False, "error_code": error.code, "description": error.description}
            if error.parameters:
                body["parameters"] = error.parameters
            return web.json_response(body, status=error.code)

    def _fault(self, method: str) -> str:
        if self.faults[method]:
            return self.faults[method].popleft()
        for kind in ("502", "429", "cut", "hang", "cut after"):
            if self.random.random() < self.rates.get(f"{method} {kind}", self.rates.get(kind, 0)):
                return kind
        return ""

    async def _done(self, token: str, method: str, data: dict[str, Any]) -> Any:
        if not re.fullmatch(r"[1-9]\d*:[\w-]+", token):
            raise _Error(404, "Not Found")
        if token != self.token:
            raise _Error(401, "Unauthorized")
        self.calls.append((method, data))
        if method == "getme":
            return self._me
        if method == "getupdates":
            return await self._get_updates(data)
        if method == "setwebhook":
            self.webhook = str(data.get("url", ""))
            return True
        if method == "setmycommands":
            return self._set_commands(json.loads(data.get("commands", "[]")))
        if method in ("sendmessage", "sendphoto", "senddocument"):
            return self._send(method, data)
        raise _Error(404, "Not Found: method not found")

    @property
    def _me(self) -> dict[str, Any]:
        return {"id": self.id, "is_bot": True, "first_name": "Hermes", "username": USERNAME, "can_join_groups": True}

    async def _get_updates(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self.webhook:
            raise _Error(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the "
                "webhook first",
            )
        offset = int(data.get("offset", 0))
        limit = min(max(int(data.get("limit", 100)), 1), 100)
        timeout = min(max(int(data.get("timeout", 0)), 0), 50)
        if "allowed_updates" in data:
            self._allowed = tuple(json.loads(data["allowed_updates"])) or DEFAULT_UPDATES
        self.polled = True
        if offset < 0:
            kept = self.waiting[offset:]
            self._updates = {id: each for id, each in self._updates.items() if id in kept}
        elif offset <= self.next_update + 10:
            self._updates = {id: each for id, each in self._updates.items() if id >= offset}
        if timeout and not self._updates and not self._again:
            self._wake("conflict")
            poll = self._poll = asyncio.get_running_loop().create_future()
            try:
                woken = await asyncio.wait_for(poll, timeout)
            except TimeoutError:
                woken = ""
            if woken == "conflict":
                raise _Error(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                )
        again, self._again = self._again, []
        found = (again + [self._updates[id] for id in self.waiting])[:limit]
        if self.history and self.random.random() < self.rates.get("duplicate", 0):
            # Never one that has not been given yet: to confirm it would confirm those before it.
            last = max((each["update_id"] for each in found), default=self.next_update)
            found.append(self.random.choice([each for each in self.history if each["update_id"] <= last]))
        if self.random.random() < self.rates.get("reorder", 0):
            self.random.shuffle(found)
        return found

    def _set_commands(self, commands: list[dict[str, str]]) -> bool:
        if len(commands) > 100:
            raise _Error(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
        for each in commands:
            if not _COMMAND.fullmatch(each["command"]):
                raise _Error(400, "Bad Request: BOT_COMMAND_INVALID")
            if not 1 <= len(each["description"]) <= 256:
                raise _Error(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
        self.commands = commands
        return True

    def _send(self, method: str, data: Mapping[str, Any]) -> dict[str, Any]:
        text = str(data.get("text", ""))
        if method == "sendmessage" and not text:
            raise _Error(400, "Bad Request: message text is empty")
        chat = self._writable(str(data.get("chat_id", "")))
        fields: dict[str, Any] = {"from": self._me}
        if (thread := int(data.get("message_thread_id", 0))) and self._chats[chat].get("is_forum"):
            if thread not in self._topics[chat]:
                raise _Error(400, "Bad Request: message thread not found")
            fields |= {"message_thread_id": thread, "is_topic_message": True}
        reply = json.loads(data.get("reply_parameters", "{}"))
        if reply and reply["message_id"] in self.messages[chat]:
            fields["reply_to_message"] = self.messages[chat][reply["message_id"]]
        elif reply and not reply.get("allow_sending_without_reply"):
            raise _Error(400, "Bad Request: message to be replied not found")
        if method == "sendmessage":
            if not text.strip():
                raise _Error(400, "Bad Request: text must be non-empty")
            if len(text.encode("utf-16-le")) // 2 > 4096:
                raise _Error(400, "Bad Request: message is too long")
            fields["text"] = text
        else:
            fields |= _file(method.removeprefix("send"), data)
        self._count(chat)
        message = self._add(chat, fields)
        self.sent.append(message)
        return message

    def _writable(self, given: str) -> int:
        if not given:
            raise _Error(400, "Bad Request: chat_id is empty")
        chat = int(given) if re.fullmatch(r"-?\d+", given) else 0
        if chat not in self._chats:
            raise _Error(400, "Bad Request: chat not found")
        if chat in self._moved:
            why = "Bad Request: group chat was upgraded to a supergroup chat"
            raise _Error(400, why, migrate_to_chat_id=self._moved[chat])
        if chat in self._shut:
            raise _Error(403, f"Forbidden: {self._shut[chat]}")
        return chat

    def _count(self, chat: int) -> None:
        now = time.monotonic()
        while self._times and now - self._times[0] >= 1:
            self._times.popleft()
        if self.flood and (now - self._last.get(chat, 0) < 1 or len(self._times) >= 30):
            raise _Error(429, "Too Many Requests: retry after 1", retry_after=1)
        self._last[chat] = now
        self._times.append(now)

    async def _control(self, request: web.Request) -> web.Response:
        what, data = request.match_info["what"], await request.json()
        if what in ("say", "edit", "group", "topic", "shut", "migrate", "repeat"):
            return web.json_response({"result": getattr(self, what)(**data)})
        if what == "react":
            return web.json_response(
                {"result": self.react(data.pop("user"), data.pop("message"), *data.pop("emoji"), **data)}
            )
        if what == "sent":
            return web.json_response({"sent": [_shown(each) for each in self.sent[data.get("since", 0) :]]})
        if what == "waiting":
            return web.json_response({"waiting": self.waiting})
        if what == "rates":
            self.rates = data
        elif what == "flood":
            self.flood = data["on"]
        elif what == "faults":
            for method, kinds in data.items():
                self.faults[method.lower()].extend(kinds)
        elif what == "cut":
            for each in self._open:
                each.abort()  # type: ignore[attr-defined]
        else:
            return web.json_response({"error": f"there is no /control/{what}"}, status=404)
        return web.json_response({})


def _shown(message: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "chat": message["chat"]["id"],
        "id": message["message_id"],
        "thread": message.get("message_thread_id", 0),
        "text": message.get("text", ""),
        "file": message.get("document", {}).get("file_name", "") or ("photo" if "photo" in message else ""),
        "reply": message.get("reply_to_message", {}).get("message_id", 0),
    }


def _file(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    given = data.get(kind)
    if isinstance(given, str) and given.startswith("attach://"):
        given = data.get(given.removeprefix("attach://"))
    if not isinstance(given, web.FileField):
        raise _Error(400, f"Bad Request: there is no {kind} in the request")
    content = given.file.read()
    shown = {"file_id": "f", "file_unique_id": "u", "file_size": len(content)}
    if not content:
        raise _Error(400, "Bad Request: file must be non-empty")
    if len(content) > 50 << 20:
        raise _Error(413, "Request Entity Too Large")
    if kind == "document":
        return {"document": {**shown, "file_name": given.filename}}
    if len(content) > 10 << 20:
        raise _Error(400, f"Bad Request: file of size {len(content)} bytes is too big for a photo")
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", content[16:24])
    elif content.startswith(b"\xff\xd8\xff"):
        width = height = 1
    else:
        raise _Error(400, "Bad Request: IMAGE_PROCESS_FAILED")
    if width + height > 10_000 or max(width, height) > 20 * min(width, height):
        raise _Error(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
    return {"photo": [{**shown, "width": width, "height": height}]}


async def _main() -> None:
    parser = argparse.ArgumentParser(description="A double of Telegram's Bot API.")
    parser.add_argument("--port", type=int, default=0, help="the port; 0 (the default): any free one")
    parser.add_argument("--token", default=TOKEN, help="the bot's token")
    parser.add_argument("--flood", action="store_true", help="limit the rate of messages")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults that come by chance")
    given = parser.parse_args()
    async with TelegramApi(given.port, given.flood, given.token, given.seed) as api:
        print(f"{api.url} {given.token}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
