"""A Slack on loopback, as strict as Slack: the Web API, and Socket Mode.

    async with SlackApi() as api: ...        # `base_url` is api.url, the tokens are BOT_TOKEN and APP_TOKEN

Its rules are those of https://docs.slack.dev (reference/methods, apis/events-api/using-socket-mode, apis/web-api/
rate-limits, messaging/formatting-message-text, reference/events):

- a call answers 200 with `ok` and `error`; it needs `Authorization: Bearer`, the right kind of token, and its scope;
- chat.postMessage needs a channel that exists, has the bot in it and is not archived, and a text, which is cut off
  after 40,000 characters; `thread_ts` is the `ts` of a parent, never of a reply. With `flood`, one message per
  `flood_seconds` (Slack: 1) and channel, else 429 with Retry-After;
- a file has three steps: an address for its name and length, the bytes, and the call that shares it, once;
- an address of apps.connections.open opens one connection, which begins with `hello`; an app has up to 10;
- an event is sent to any one connection. It is sent again, with `retry_attempt`, when it is not acknowledged by its
  `envelope_id` within `ack_seconds` (Slack: 3), or its connection ends first; three times at most;
- `disconnect` names its reason, and the connection ends soon after it;
- a message that names the bot is an `app_mention`, too, except in direct messages; the bot's own messages are events
  as everybody's; an edit is a `message_changed`;
- the clients keep what begins with a slash.

`messages` holds all messages by channel and ts, `sent` those of the bot, `calls` each request, `acked` the events that
were acknowledged in time, `late` the other acknowledgements, `wrong` what a client may not do. `faults` are done to the
requests of a method, one each: an error code, "503", "html", "text", "hang" and "cut" before it is done, "cut after"
when it was done.
"""

import asyncio
import itertools
import json
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from aiohttp import WSMsgType, web

BOT_TOKEN = "-".join(("xoxb", "2222", "3333", "doubleofslack"))
APP_TOKEN = "-".join(("xapp", "1", "A111", "2222", "doubleofslack"))
BOT, BOT_ID = "UBOT00001", "BBOT00001"
_SCOPES = {
    "chat.postMessage": "chat:write",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "users.info": "users:read",
}
_MOST_TEXT, _MOST_SOCKETS, _MOST_RETRIES = 40_000, 10, 3


class _Refusal(Exception):
    def __init__(self, code: str, status: int = 200, **more: Any) -> None:
        self.code, self.status, self.more = code, status, more


class _Cut(Exception):
    """Closes the connection."""


class SlackApi:
    """See the module."""

    def __init__(self, ack_seconds: float = 3.0, flood: bool = False) -> None:
        self.ack_seconds, self.flood, self.flood_seconds = ack_seconds, flood, 1.0
        self.mention_first = False
        self.bot_id = BOT_ID
        self.scopes = {*_SCOPES.values()}
        self.tokens = {BOT_TOKEN: "", APP_TOKEN: ""}  # the error of each
        self.channels: dict[str, dict[str, Any]] = {"D1": {"is_im": True}, "D2": {"is_im": True}, "C1": {}, "C2": {}}
        self.users = {"U1": "Ann", "U2": "Bob", "U9": "Eve"}
        self.messages: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.sent: list[dict[str, Any]] = []
        self.shared: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.delivered: list[dict[str, Any]] = []
        self.acked: list[dict[str, Any]] = []
        self.wrong: list[str] = []
        self.late: list[str] = []
        self.faults: dict[str, deque[str]] = defaultdict(deque)
        self.sockets: list[web.WebSocketResponse] = []
        self.deaf = self.mute = False  # says no hello; answers no ping
        self.url = ""
        self._tickets: set[str] = set()
        self._files: dict[str, dict[str, Any]] = {}
        self._waiting: deque[dict[str, Any]] = deque()
        self._open: dict[str, tuple[dict[str, Any], web.WebSocketResponse, asyncio.TimerHandle]] = {}
        self._last: dict[str, float] = {}
        self._number = itertools.count(1)
        self._turn = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "SlackApi":
        app = web.Application(client_max_size=80 << 20)
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/link/", self._link)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/api/"
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for _event, _socket, timer in self._open.values():
            timer.cancel()
        assert self._runner is not None
        await self._runner.cleanup()

    # What people do.

    def say(self, user: str, text: str, channel: str = "D1", *, thread: str = "", **fields: Any) -> str:
        """Somebody writes, in Slack's markup; returns the `ts`, or "" for what the client keeps."""
        if text.startswith("/"):
            return ""
        return str(self._add(channel, {"user": user, "text": text, **fields}, thread)["ts"])

    def edit(self, channel: str, ts: str, text: str) -> None:
        """The author changes a message."""
        before = dict(self.messages[channel][ts])
        self.messages[channel][ts] |= {"text": text, "edited": {"user": before["user"], "ts": self._ts()}}
        now = self.messages[channel][ts]
        fields = {"subtype": "message_changed", "hidden": True, "message": now, "previous_message": before}
        self.emit({"type": "message", "channel": channel, "ts": self._ts(), **self._kind(channel), **fields})

    def react(self, user: str, channel: str, ts: str, reaction: str, *, removed: bool = False) -> None:
        """Somebody reacts to a message, or takes it back."""
        item = {"type": "message", "channel": channel, "ts": ts}
        author = self.messages[channel][ts]["user"]
        kind = "reaction_removed" if removed else "reaction_added"
        event = {"type": kind, "user": user, "reaction": reaction, "item_user": author, "item": item}
        self.emit({**event, "event_ts": self._ts()})

    def emit(self, event: Mapping[str, Any], kind: str = "events_api") -> None:
        """An event is to be sent."""
        payload = {"type": "event_callback", "event": dict(event), "event_id": f"Ev{next(self._number)}"}
        self._waiting.append({"type": kind, "payload": payload, "retry_attempt": 0, "retry_reason": ""})
        self._flush()

    def disconnect(self, reason: str, after: float | None = 0.1) -> None:
        """Slack ends every connection soon, or with `after` None only says so."""
        for socket in list(self.sockets):
            self._start(self._disconnect(socket, reason, after))

    @property
    def idle(self) -> bool:
        """Whether every event was acknowledged."""
        return not self._waiting and not self._open

    # Socket Mode.

    async def _link(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=401)
        self._tickets.remove(ticket)
        socket = web.WebSocketResponse(autoping=not self.mute)
        await socket.prepare(request)
        if len(self.sockets) >= _MOST_SOCKETS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            await socket.close()
            return socket
        self.sockets.append(socket)
        if not self.deaf:
            await socket.send_json({"type": "hello", "num_connections": len(self.sockets), "connection_info": {}})
        self._flush()
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                self._ack(frame.data)
        if socket in self.sockets:
            self.sockets.remove(socket)
        for id in [id for id, (_, where, _timer) in self._open.items() if where is socket]:
            self._again(id, "connection_closed")
        return socket

    def _ack(self, text: str) -> None:
        id = json.loads(text).get("envelope_id")
        if id not in self._open:
            sent = any(id == envelope["envelope_id"] for envelope in self.delivered)
            (self.late if sent else self.wrong).append(f"acknowledged what is not open: {id}")
            return
        envelope, _, timer = self._open.pop(id)
        timer.cancel()
        self.acked.append(envelope["payload"]["event"])

    def _flush(self) -> None:
        sockets = [socket for socket in self.sockets if not socket.closed]
        while self._waiting and sockets:
            envelope, socket = self._waiting.popleft(), sockets[next(self._turn) % len(sockets)]
            envelope["envelope_id"] = id = f"e-{next(self._number)}"
            timer = asyncio.get_running_loop().call_later(self.ack_seconds, self._again, id, "timeout")
            self._open[id] = (envelope, socket, timer)
            self.delivered.append(dict(envelope))
            self._start(_send(socket, dict(envelope)))

    def _again(self, id: str, why: str) -> None:
        envelope, _, timer = self._open.pop(id)
        timer.cancel()
        if envelope["retry_attempt"] < _MOST_RETRIES:
            self._waiting.append({**envelope, "retry_attempt": envelope["retry_attempt"] + 1, "retry_reason": why})
            self._flush()

    async def _disconnect(self, socket: web.WebSocketResponse, reason: str, after: float | None) -> None:
        await socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "wss-1"}})
        if after is not None:
            await asyncio.sleep(after)
            await socket.close()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The Web API.

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        given: dict[str, Any] = dict(request.query)
        if request.content_type == "application/json":
            given |= await request.json()
        elif request.method == "POST":
            given |= dict(await request.post())
        self.calls.append((method, given))
        fault = self.faults[method].popleft() if self.faults[method] else ""
        try:
            if fault == "hang":
                await asyncio.sleep(60)
            if fault in ("hang", "cut"):
                raise _Cut
            if fault in ("html", "text"):
                return web.Response(text="<html>", content_type="text/html" if fault == "html" else "text/plain")
            if fault.isdigit():
                return web.Response(status=int(fault), text="upstream")
            if fault and fault != "cut after":
                raise _Refusal(fault)
            self._check(request, method)
            answer = getattr(self, "_" + method.replace(".", "_"))(given)
            if fault == "cut after":
                raise _Cut
        except _Cut:
            assert request.transport is not None
            request.transport.abort()
            raise
        except _Refusal as refusal:
            headers = {"Retry-After": "1"} if refusal.status == 429 else {}
            body = {"ok": False, "error": refusal.code, **refusal.more}
            return web.json_response(body, status=refusal.status, headers=headers)
        return web.json_response({"ok": True, **answer})

    def _check(self, request: web.Request, method: str) -> None:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if not hasattr(self, "_" + method.replace(".", "_")):
            raise _Refusal("unknown_method")
        if kind != "Bearer" or not token:
            raise _Refusal("not_authed")
        if (error := self.tokens.get(token, "invalid_auth")) != "":
            raise _Refusal(error)
        if token.startswith("xapp") != (method == "apps.connections.open"):
            raise _Refusal("not_allowed_token_type")
        if (needed := _SCOPES.get(method)) and needed not in self.scopes:
            raise _Refusal("missing_scope", needed=needed, provided=",".join(self.scopes))

    def _auth_test(self, given: Mapping[str, Any]) -> dict[str, Any]:
        del given
        return {"user_id": BOT, "user": "hermes", "bot_id": self.bot_id, "team_id": "T1", "team": "Lab"}

    def _apps_connections_open(self, given: Mapping[str, Any]) -> dict[str, Any]:
        del given
        self._tickets.add(ticket := f"t{next(self._number)}")
        return {"url": f"{self.url.replace('http', 'ws', 1).removesuffix('api/')}link/?ticket={ticket}"}

    def _users_info(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if given.get("user") not in self.users:
            raise _Refusal("user_not_found")
        name = self.users[given["user"]]
        return {"user": {"id": given["user"], "name": name.lower(), "profile": {"display_name": name}}}

    def _chat_postMessage(self, given: Mapping[str, Any]) -> dict[str, Any]:
        channel, text = self._place(given.get("channel"), given.get("thread_ts")), given.get("text") or ""
        if not text.strip():
            raise _Refusal("no_text")
        if self.flood and time.monotonic() - self._last.get(channel, -1e9) < self.flood_seconds:
            raise _Refusal("ratelimited", 429)
        self._last[channel] = time.monotonic()
        fields = {"user": BOT, "bot_id": BOT_ID, "text": text[:_MOST_TEXT]}
        message = self._add(channel, fields, given.get("thread_ts") or "")
        self.sent.append({**message, "channel": channel, "unfurl_links": given.get("unfurl_links", True)})
        return {"channel": channel, "ts": message["ts"], "message": message}

    def _files_getUploadURLExternal(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if not given.get("filename") or not str(given.get("length", "")).isdigit() or not int(given["length"]):
            raise _Refusal("invalid_arguments")
        self._files[id := f"F{next(self._number)}"] = {"name": given["filename"], "length": int(given["length"])}
        return {"file_id": id, "upload_url": f"{self.url.removesuffix('api/')}upload/{id}"}

    async def _upload(self, request: web.Request) -> web.Response:
        file, content = self._files.get(request.match_info["file"]), await request.read()
        if file is None or len(content) != file["length"]:
            return web.Response(status=400, text="bad upload")
        file["content"] = content
        return web.Response(text=f"OK - {len(content)}")

    def _files_completeUploadExternal(self, given: Mapping[str, Any]) -> dict[str, Any]:
        listed = given.get("files") or "[]"
        files = json.loads(listed) if isinstance(listed, str) else listed
        if not files or any("content" not in self._files.get(each["id"], {}) for each in files):
            raise _Refusal("file_not_found")
        channel = self._place(given.get("channel_id"), given.get("thread_ts"))
        for each in files:
            shared = {"channel": channel, "thread_ts": given.get("thread_ts") or "", **self._files.pop(each["id"])}
            self.shared.append(shared)
        return {"files": files}

    def _place(self, id: Any, thread: Any) -> str:
        channel = self.channels.get(str(id))
        if channel is None:
            raise _Refusal("channel_not_found")
        if error := next((code for code in ("is_archived", "not_in_channel") if channel.get(code)), ""):
            raise _Refusal(error)
        if thread and self.messages[str(id)].get(str(thread), {"thread_ts": "x"}).get("thread_ts") not in (
            None,
            thread,
        ):
            raise _Refusal("invalid_thread_ts")
        return str(id)

    def _add(self, channel: str, fields: Mapping[str, Any], thread: str) -> dict[str, Any]:
        ts = self._ts()
        message: dict[str, Any] = {"type": "message", "ts": ts, "event_ts": ts, **fields}
        if thread:
            message |= {"thread_ts": thread, "parent_user_id": self.messages[channel][thread]["user"]}
        self.messages[channel][ts] = message
        events = [{**message, "channel": channel, **self._kind(channel)}]
        if f"<@{BOT}>" in message["text"] and not self.channels[channel].get("is_im") and message["user"] != BOT:
            mention = {key: value for key, value in events[0].items() if key not in ("channel_type", "parent_user_id")}
            events.insert(0 if self.mention_first else 1, mention | {"type": "app_mention"})
        for event in events:
            self.emit(event)
        return message

    def _kind(self, channel: str) -> dict[str, str]:
        return {"channel_type": "im" if self.channels[channel].get("is_im") else "channel"}

    def _ts(self) -> str:
        return f"1700000000.{next(self._number):06d}"


async def _send(socket: web.WebSocketResponse, envelope: Mapping[str, Any]) -> None:
    if not socket.closed:
        await socket.send_json({**envelope, "accepts_response_payload": False})
