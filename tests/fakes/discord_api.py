"""A double of Discord: the REST API and the gateway (`fakes.discord_gateway`), with one bot.

The rules come from Discord's documentation, https://docs.discord.com/developers: reference, topics/rate-limits,
topics/opcodes-and-status-codes, topics/threads, resources/channel, resources/message. discord.py works with it.

- `Authorization: Bot TOKEN`, else 401. A `User-Agent` of the form `DiscordBot (URL VERSION)`, else 403, without JSON.
- An id that is no snowflake: 400 50035. An unknown channel: 404 10003. One that the bot cannot see: 403 50001; one that
  it may not write to: 403 50013; a user who takes no messages from it: 403 50007.
- POST /users/@me/channels gives the same channel each time; an unknown user: 400 50033.
- A message: `content` of up to 2,000 code points, `nonce` of up to 25 characters, else 400 50035. Nothing to send: 400
  50006. With `enforce_nonce`, a nonce that the author used in the past few minutes gives the message of that time, in
  whatever channel. A reply needs the permission to read the history, else 400 160002, and a message that it answers,
  unless `fail_if_not_exists` is false. Only what `allowed_mentions` lets through mentions anybody; without it, all do.
  Files come with `payload_json`, up to ten, each of up to 10 MiB, else 413 40005. Unknown fields fail the test. A
  thread that the bot writes to, or is named in, is joined.
- GET messages: `limit` from 1 to 100; with `after` those that follow it; the newest come first.
- Rate limits: each answer has the headers; beyond the limit 429 with `retry_after` and `Retry-After`.
"""

import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from fakes.discord_gateway import DM_MESSAGES, GUILD_MESSAGES
from fakes.discord_world import ANN, BOT, HIDDEN, NO_HISTORY, READ_ONLY, SHY, TOKEN, DiscordWorld, Json

NONCE_SECONDS = 300
_FIELDS = {
    "content",
    "nonce",
    "enforce_nonce",
    "tts",
    "allowed_mentions",
    "message_reference",
    "flags",
    "attachments",
} | {*("embeds", "components", "sticker_ids", "poll")}
_MOST_BYTES = 10 << 20


class DiscordApi(DiscordWorld):
    """The server. `failures` are met by the next messages that are sent: a status, "blocked" (by Cloudflare), "cut"
    (taken, but not answered), or None."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, str]] = []
        self.failures: list[int | str | None] = []
        self.limit = 1000
        self.limit_seconds = 0.3
        self.files: dict[str, bytes] = {}
        self.clock: Callable[[], float] = time.monotonic
        self._nonces: dict[str, tuple[float, Json]] = {}
        self._used: dict[str, list[float]] = {}
        self.base_url = ""

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator["DiscordApi"]:
        """Runs it on a free port."""
        api = cls()
        app = web.Application(client_max_size=1 << 26)
        app.router.add_get("/gateway{tail:.*}", api.gateway.connect)
        for method, path, handler in (
            ("GET", "/users/@me", api._me),
            ("GET", "/gateway/bot", api._gateway_bot),
            ("GET", "/oauth2/applications/@me", api._application),
            ("POST", "/users/@me/channels", api._open_dm),
            ("GET", "/channels/{channel}", api._channel),
            ("GET", "/channels/{channel}/messages", api._history),
            ("POST", "/channels/{channel}/messages", api._create),
        ):
            app.router.add_route(method, f"/api/v10{path}", api._checked(handler))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
            api.base_url, api.gateway.url = f"http://127.0.0.1:{port}/api/v10", f"ws://127.0.0.1:{port}/gateway"
            yield api
        finally:
            api.gateway.abort()
            await runner.cleanup()

    def _checked(
        self, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def checked(request: web.Request) -> web.Response:
            self.requests.append((request.method, request.path_qs.removeprefix("/api/v10")))
            if not re.fullmatch(r"DiscordBot \(\S+ \S+\).*", request.headers.get("User-Agent", "")):
                return web.Response(status=403, text="error code: 1010")
            if request.headers.get("Authorization") != f"Bot {TOKEN}":
                return _refusal(401, 0, "401: Unauthorized")
            channel = request.match_info.get("channel", "1")
            if not re.fullmatch(r"\d{1,20}", channel):
                return _refusal(400, 50035, f'Invalid Form Body: Value "{channel}" is not snowflake.')
            used = self._used.setdefault(f"{request.method} {request.path}", [])
            now = time.monotonic()
            used[:] = [at for at in used if at > now - self.limit_seconds]
            left = used[0] + self.limit_seconds - now if used else self.limit_seconds
            headers = {"X-RateLimit-Limit": str(self.limit), "X-RateLimit-Bucket": request.method, "Via": "1.1 google"}
            headers |= {"X-RateLimit-Reset-After": f"{left:.3f}", "X-RateLimit-Reset": f"{time.time() + left:.3f}"}
            if len(used) >= self.limit:
                body = {"message": "You are being rate limited.", "retry_after": round(left, 3), "global": False}
                headers |= {"X-RateLimit-Remaining": "0", "Retry-After": "1", "X-RateLimit-Scope": "user"}
                return _answer(body, status=429, headers=headers)
            used.append(now)
            response = await handler(request)
            response.headers.update(headers | {"X-RateLimit-Remaining": str(self.limit - len(used))})
            return response

        return checked

    async def _me(self, request: web.Request) -> web.Response:
        del request
        return _answer(self.users[BOT])

    async def _application(self, request: web.Request) -> web.Response:
        del request
        team: Json = {"rpc_origins": [], "verify_key": "", "team": None, "owner": self.users[ANN], "flags": 0}
        more: Json = {"id": BOT, "name": "hermes", "description": "", "icon": None, "bot_public": True, "summary": ""}
        return _answer(team | more | {"bot_require_code_grant": False, "hook": True})

    async def _gateway_bot(self, request: web.Request) -> web.Response:
        del request
        limit = {"total": 1000, "remaining": self.gateway.starts_left, "reset_after": 120_000, "max_concurrency": 1}
        return _answer({"url": self.gateway.url, "shards": 1, "session_start_limit": limit})

    async def _open_dm(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert set(body) == {"recipient_id"}, body
        if body["recipient_id"] not in self.users or body["recipient_id"] == BOT:
            return _refusal(400, 50033, "Invalid Recipient(s)")
        return _answer(self.channels[self.dm(body["recipient_id"])])

    async def _channel(self, request: web.Request) -> web.Response:
        return self._visible(request) or _answer(self.channels[request.match_info["channel"]])

    def _visible(self, request: web.Request) -> web.Response | None:
        if (id := request.match_info["channel"]) not in self.channels:
            return _refusal(404, 10003, "Unknown Channel")
        return _refusal(403, 50001, "Missing Access") if id == HIDDEN else None

    async def _history(self, request: web.Request) -> web.Response:
        if refusal := self._visible(request):
            return refusal
        limit, after = request.query.get("limit", "50"), request.query.get("after", "")
        if not limit.isdigit() or not 1 <= int(limit) <= 100 or not re.fullmatch(r"\d{0,20}", after):
            return _refusal(400, 50035, "Invalid Form Body")
        found = [each for each in self.messages if each["channel_id"] == request.match_info["channel"]]
        if after:
            found = [each for each in found if int(each["id"]) > int(after)][: int(limit)]
        return _answer(found[-int(limit) :][::-1])

    async def _create(self, request: web.Request) -> web.Response:
        files: Json = {}
        if request.content_type == "multipart/form-data":
            form = await request.post()
            payload: Any = form["payload_json"]
            body = json.loads(payload)
            files = {key: value for key, value in form.items() if key != "payload_json"}
        else:
            body = await request.json()
        assert set(body) <= _FIELDS, f"unknown fields: {set(body) - _FIELDS}"
        assert set(files) == {f"files[{each['id']}]" for each in body.get("attachments", ())}, files
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, int):
            return _refusal(failure, 0, "500: Internal Server Error")
        if failure == "blocked":
            return web.Response(status=403, text="error code: 1015")
        if refusal := self._visible(request) or self._refused(request.match_info["channel"], body, files):
            return refusal
        message = await self._taken(request.match_info["channel"], body, files)
        if failure == "cut":
            assert request.transport
            request.transport.abort()
        return _answer(message)

    def _refused(self, channel: str, body: Json, files: Json) -> web.Response | None:
        content, nonce = body.get("content") or "", body.get("nonce", "")
        if channel == READ_ONLY:
            return _refusal(403, 50013, "Missing Permissions")
        if channel == self.dm(SHY):
            return _refusal(403, 50007, "Cannot send messages to this user")
        if len(content) > 2000 or not isinstance(content, str):
            return _refusal(400, 50035, "Invalid Form Body: content: Must be 2000 or fewer in length.")
        if not isinstance(nonce, str | int) or len(str(nonce)) > 25 or len(files) > 10:
            return _refusal(400, 50035, "Invalid Form Body")
        if not content.strip() and not files:
            return _refusal(400, 50006, "Cannot send an empty message")
        if any(len(each.file.read()) > _MOST_BYTES or each.file.seek(0) for each in files.values()):
            return _refusal(413, 40005, "Request entity too large")
        if channel == NO_HISTORY and body.get("message_reference"):
            return _refusal(400, 160002, "Cannot reply without permission to read message history")
        if (reference := body.get("message_reference")) and reference.get("fail_if_not_exists", True):
            known = {each["id"] for each in self.messages}
            if str(reference["message_id"]) not in known:
                return _refusal(400, 50035, "Invalid Form Body: message_reference: Unknown message")
        return None

    async def _taken(self, channel: str, body: Json, files: Json) -> Json:
        nonce = str(body.get("nonce", ""))
        if nonce and body.get("enforce_nonce") and nonce in self._nonces:
            at, message = self._nonces[nonce]
            if self.clock() < at + NONCE_SECONDS:
                return message
        allowed = body.get("allowed_mentions")
        pings = allowed is None or bool(set(allowed.get("parse", ())))
        extra: Json = {"flags": body.get("flags", 0)}
        if reference := body.get("message_reference"):
            extra |= {"message_reference": reference}
        for each in body.get("attachments", ()):
            self.files[each["filename"]] = files[f"files[{each['id']}]"].file.read()
        extra["attachments"] = [
            {"id": self._id(), "filename": each["filename"], "size": 1, "url": "", "proxy_url": ""}
            for each in body.get("attachments", ())
        ]
        message = self._message(BOT, channel, body.get("content") or "", pings=pings, **extra)
        if nonce:
            self._nonces[nonce] = (self.clock(), message)
        await self._joins(channel)
        await self._happens("MESSAGE_CREATE", message | {"nonce": nonce}, DM_MESSAGES, GUILD_MESSAGES)
        return message


def _answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = json.dumps(data).encode()  # without a charset, as Discord's are
    return web.Response(body=body, status=status, headers={"Content-Type": "application/json"} | (headers or {}))


def _refusal(status: int, code: int, why: str) -> web.Response:
    return _answer({"message": why, "code": code}, status=status)
