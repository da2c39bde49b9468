"""The websocket gateway of the double of Discord. See `fakes.discord_api`.

The rules come from Discord's documentation, https://docs.discord.com/developers/events/gateway and
https://docs.discord.com/developers/topics/opcodes-and-status-codes:

- The address has `v=10` (or 9) and `encoding=json`, else it closes with 4012. `compress=zlib-stream` is understood.
- HELLO comes first. A payload over 4,096 bytes, or that is no JSON object with `op` and `d`, closes with 4002; an
  unknown opcode with 4001; anything but HEARTBEAT, IDENTIFY and RESUME before signing in with 4003; a second IDENTIFY
  with 4005.
- IDENTIFY needs `token` (4004), `properties` (4002), and `intents` (4013 if there are none or unknown ones; 4014 for
  privileged ones that were not switched on). It takes one of the sessions that may be started; if none is left, INVALID
  SESSION comes.
- READY has the session's id and the address to resume at. Then a GUILD_CREATE for each guild.
- An event comes only to sessions with its intent. Without MESSAGE_CONTENT, content is empty, save in direct messages,
  in the bot's own messages, and in those that mention it.
- HEARTBEAT is answered by HEARTBEAT ACK. Without one for too long, the connection is closed.
- RESUME sends the events after `seq`, then RESUMED; INVALID SESSION (false) if the session is over; 4007 if `seq` was
  never sent. A close by the client with 1000 or 1001 ends the session; any other leaves it.
"""

import asyncio
import contextlib
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

GUILDS, GUILD_MESSAGES, GUILD_REACTIONS = 1 << 0, 1 << 9, 1 << 10
DM_MESSAGES, DM_REACTIONS, CONTENT = 1 << 12, 1 << 13, 1 << 15
PRIVILEGED = 1 << 1 | 1 << 8 | CONTENT
_ALL = (1 << 17) - 1 | 1 << 20 | 1 << 21 | 1 << 24 | 1 << 25
_MOST_BYTES = 4096
Json = dict[str, Any]


@dataclass(eq=False)
class Session:
    """A session, with all of its events."""

    id: str
    intents: int
    events: list[Json] = field(default_factory=list)
    socket: "Socket | None" = None
    over: bool = False


class Closed(Exception):
    """Close the connection with a code."""


class Socket:
    """One connection."""

    def __init__(self, gateway: "FakeGateway", response: web.WebSocketResponse, compressed: bool) -> None:
        self.session: Session | None = None
        self.beats: list[Any] = []
        self._closed = False
        self._gateway = gateway
        self._response = response
        self._zlib = zlib.compressobj() if compressed else None

    async def send(self, payload: Json) -> None:
        text = json.dumps(payload).encode()
        with contextlib.suppress(ConnectionError):
            if self._zlib:
                await self._response.send_bytes(self._zlib.compress(text) + self._zlib.flush(zlib.Z_SYNC_FLUSH))
            else:
                await self._response.send_str(text.decode())

    async def close(self, code: int) -> None:
        self._closed = True
        await self._response.close(code=code)

    def abort(self) -> None:
        """Cuts the connection, without a code."""
        transport = self._response._req and self._response._req.transport
        if transport:
            transport.abort()

    async def run(self) -> None:
        interval = self._gateway.heartbeat_seconds
        await self.send({"op": 10, "d": {"heartbeat_interval": int(interval * 1000)}, "s": None, "t": None})
        late = asyncio.get_running_loop().time() + 2 * interval
        try:
            while True:
                left = late - asyncio.get_running_loop().time()
                message = await self._response.receive(timeout=max(left, 0.001))
                if message.type != WSMsgType.TEXT:
                    break
                if await self._take(message.data):
                    late = asyncio.get_running_loop().time() + 2 * interval
        except TimeoutError:
            await self.close(4000)
        except Closed as closed:
            await self.close(closed.args[0])
        if self.session and self.session.socket is self:
            self.session.socket = None
            if self._response.close_code in (1000, 1001) and not self._closed:
                self.session.over = True

    async def _take(self, text: str) -> bool:
        """Handles a payload; whether it was a heartbeat."""
        try:
            payload = json.loads(text)
            op, data = payload["op"], payload["d"]
        except (ValueError, KeyError, TypeError):
            raise Closed(4002) from None
        if len(text.encode()) > _MOST_BYTES:
            raise Closed(4002)
        if op == 1:
            self.beats.append(data)
            if not self._gateway.silent:
                await self.send({"op": 11, "d": None, "s": None, "t": None})
            return True
        if op not in (2, 3, 4, 6, 8, 31):
            raise Closed(4001)
        if op not in (2, 6) and self.session is None:
            raise Closed(4003)
        if self.session is not None and op in (2, 6):
            raise Closed(4005)
        if op in (2, 6):
            if not isinstance(data, dict):
                raise Closed(4002)
            if data.get("token") != self._gateway.token:
                raise Closed(4004)
            await (self._identify(data) if op == 2 else self._resume(data))
        return False

    async def _identify(self, data: Json) -> None:
        gateway = self._gateway
        if not {"os", "browser", "device"} <= set(data.get("properties") or ()):
            raise Closed(4002)
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~_ALL:
            raise Closed(4013)
        if intents & PRIVILEGED & ~gateway.privileged:
            raise Closed(4014)
        if gateway.starts_left < 1:
            await self.send({"op": 9, "d": False, "s": None, "t": None})
            return
        gateway.starts_left -= 1
        self.session = Session(f"session{len(gateway.sessions)}", intents, socket=self)
        gateway.sessions.append(self.session)
        guilds = [{"id": guild["id"], "unavailable": True} for guild in gateway.guilds]
        ready = {
            "v": 10,
            "user": gateway.me,
            "guilds": guilds,
            "session_id": self.session.id,
            "resume_gateway_url": f"{gateway.url}/resume",
            "application": {"id": gateway.me["id"], "flags": 0},
        }
        await gateway.dispatch_to(self.session, "READY", ready)
        if intents & GUILDS:
            for guild in gateway.guilds:
                await gateway.dispatch_to(self.session, "GUILD_CREATE", gateway.guild_create(guild))

    async def _resume(self, data: Json) -> None:
        if not isinstance(data.get("seq"), int) or not isinstance(data.get("session_id"), str):
            raise Closed(4002)
        found = next((each for each in self._gateway.sessions if each.id == data["session_id"]), None)
        if found is None or found.over:
            await self.send({"op": 9, "d": False, "s": None, "t": None})
            return
        if data["seq"] > len(found.events):
            raise Closed(4007)
        self.session = found
        found.socket = self
        self._gateway.resumes += 1
        for event in found.events[data["seq"] :]:
            await self.send(event)
        await self._gateway.dispatch_to(found, "RESUMED", {})


class FakeGateway:
    """The gateway, and what a test does to it."""

    def __init__(self, token: str, me: Json) -> None:
        self.token = token
        self.me = me
        self.url = ""
        self.guilds: list[Json] = []
        self.sessions: list[Session] = []
        self.resumes = 0
        self.privileged = CONTENT
        self.starts_left = 1000
        self.heartbeat_seconds = 41.25
        self.silent = False
        self.guild_create = dict

    @property
    def sockets(self) -> list[Socket]:
        """The connections that are signed in."""
        return [session.socket for session in self.sessions if session.socket]

    async def connect(self, request: web.Request) -> web.WebSocketResponse:
        """A client connects."""
        response = web.WebSocketResponse(timeout=1)
        await response.prepare(request)
        compress = request.query.get("compress")
        if request.query.get("v") not in ("9", "10") or request.query.get("encoding") != "json":
            await response.close(code=4012)
        elif compress not in (None, "zlib-stream"):
            await response.close(code=4002)
        else:
            await Socket(self, response, compress is not None).run()
        return response

    async def dispatch(self, name: str, data: Json, intent: int) -> None:
        """An event happens."""
        for session in self.sessions:
            if session.over or not session.intents & intent:
                continue
            seen = data
            mine = data.get("author", {}).get("id") == self.me["id"]
            named = any(user["id"] == self.me["id"] for user in data.get("mentions", ()))
            if "content" in data and not (session.intents & CONTENT or intent == DM_MESSAGES or mine or named):
                seen = data | {"content": "", "attachments": [], "embeds": [], "components": []}
            await self.dispatch_to(session, name, seen)

    async def dispatch_to(self, session: Session, name: str, data: Json) -> None:
        """An event of one session."""
        event = {"op": 0, "t": name, "s": len(session.events) + 1, "d": data}
        session.events.append(event)
        if session.socket:
            await session.socket.send(event)

    async def control(self, op: int, data: Any = None) -> None:
        """Sends a payload to each client: 1 asks for a heartbeat, 7 to connect again, 9 ends the session."""
        for session in self.sessions:
            if session.socket:
                if op == 9 and not data:
                    session.over = True
                await session.socket.send({"op": op, "d": data, "s": None, "t": None})

    async def close(self, code: int) -> None:
        """Closes each connection with a code."""
        for socket in self.sockets:
            await socket.close(code)

    def abort(self) -> None:
        """Cuts each connection."""
        for socket in self.sockets:
            socket.abort()
