"""Discord's protocol: requests to the REST API, and the events of its gateway."""

import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import msgspec

from hermes_lab.gateway.platform import PlatformError, Refused, TryLater, Undeliverable, Unsure

if TYPE_CHECKING:
    import aiohttp

INTENTS = 1 << 0 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15
"""Guilds, messages and reactions there and in direct messages, and the content of messages."""
_QUERY = "v=10&encoding=json"
_USER_AGENT = "DiscordBot (https://pypi.org/project/hermes-lab, 1)"
_DISPATCH, _HEARTBEAT, _IDENTIFY, _RESUME, _RECONNECT, _INVALID, _HELLO, _ACK = 0, 1, 2, 6, 7, 9, 10, 11
_WRONG_TOKEN, _NO_SUCH_INTENTS = 4004, 4014
_REFUSED = range(4010, 4014)  # wrong shard, version or intents
_SESSION_OVER = (4003, 4007, 4009)
_HELLO_SECONDS = 20.0
_LONGEST_WAIT_SECONDS = 60.0
_MOST_TRIES = 5
UNKNOWN_CHANNEL, NO_HISTORY = 10003, 160002
_CODES = {
    10003: "there is no such chat",
    10008: "there is no such message",
    10013: "there is no such user",
    40005: "it is too large",
    50001: "the bot cannot see the chat",
    50007: "the user takes no direct messages from the bot",
    50008: "nothing can be written there",
    50013: "the bot may not write there",
    50035: "the message is not valid",
    160005: "the thread is locked",
}


class Answer(Undeliverable):
    """Discord refuses what was asked. `code` is its number for the reason; 0 if it gives none."""

    def __init__(self, status: int, code: int) -> None:
        super().__init__(f"Discord refuses ({status}, code {code}): {_CODES.get(code, 'see its list of codes')}")
        self.code = code


def client(token: str) -> "aiohttp.ClientSession":
    """A client that signs in with the token. One request takes at most 18 s."""
    import aiohttp

    return aiohttp.ClientSession(
        headers={"Authorization": f"Bot {token}", "User-Agent": _USER_AGENT},
        timeout=aiohttp.ClientTimeout(total=18, sock_connect=5),
    )


class Rest:
    """The REST API. `variable` is that of the token, for messages."""

    def __init__(self, client: "aiohttp.ClientSession", base_url: str, variable: str) -> None:
        self.client = client
        self.variable = variable
        self._base = base_url.rstrip("/")
        self._not_before: dict[str, float] = {}

    async def get(self, path: str) -> Any:
        """What is at a path; waits while there is a rate limit. Raises `PlatformError` and `Answer`."""
        for _ in range(_MOST_TRIES - 1):
            try:
                return await self.call("GET", path)
            except TryLater as error:
                if error.seconds > _LONGEST_WAIT_SECONDS:
                    raise
                await anyio.sleep(error.seconds)
        return await self.call("GET", path)

    async def call(self, method: str, path: str, **body: Any) -> Any:
        """The answer to one request. Raises `PlatformError` and `Answer`."""
        import aiohttp

        # A bot that goes on while it is limited is locked out in the end.
        route = f"{method} {path.partition('?')[0]}"
        wait = max(self._not_before.get(key, 0.0) for key in ("", route)) - time.monotonic()
        if wait > 0:
            raise TryLater(wait)
        writing = method == "POST"
        try:
            async with self.client.request(method, self._base + path, **body) as response:
                self._limited(route, response.headers)
                status, raw, headers = response.status, await response.read(), response.headers
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise PlatformError(f"Discord cannot be reached: {type(error).__name__}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            kind = Unsure if writing else PlatformError
            raise kind(f"Discord did not answer: {type(error).__name__}") from None
        if status < 300:
            return _json(raw)
        raise self._refusal(status, _json(raw), headers, writing)

    def _limited(self, route: str, headers: Mapping[str, str]) -> None:
        if headers.get("X-RateLimit-Remaining") == "0":
            self._not_before[route] = time.monotonic() + _number(headers.get("X-RateLimit-Reset-After"))
            if len(self._not_before) > 1000:
                now = time.monotonic()
                self._not_before = {key: until for key, until in self._not_before.items() if until > now}

    def _refusal(self, status: int, said: Any, headers: Mapping[str, str], writing: bool) -> Exception:
        if status == 401:
            return Refused(f"Discord does not know the token in {self.variable}: reset it in the Developer Portal")
        if status == 429:
            said = said if isinstance(said, dict) else {}
            seconds = max(_number(said.get("retry_after")), _number(headers.get("Retry-After"), 0.0)) or 1.0
            if said.get("global") or not said:
                self._not_before[""] = time.monotonic() + seconds
            return TryLater(seconds)
        if status >= 500:
            return (Unsure if writing else PlatformError)(f"Discord fails (status {status})")
        if not isinstance(said, dict):  # not Discord itself, but what stands before it
            return PlatformError(f"Discord refuses for now (status {status})")
        code = said.get("code")
        return Answer(status, code if isinstance(code, int) else 0)


@dataclass
class Session:
    """A session of the gateway, which can be gone on with. `seq`: the last event that is done with. `me`: the bot's
    id; `roles`: those that Discord made for it. `caught_up`: what was missed before the session has been read."""

    id: str
    url: str
    me: str
    seq: int | None = None
    roles: set[str] = field(default_factory=set)
    caught_up: bool = False
    over: bool = False


class Event(NamedTuple):
    """An event of the gateway."""

    name: str
    data: dict[str, Any]
    seq: int


class Gateway:
    """A connection to the gateway, which is signed in."""

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse", variable: str, session: Session | None) -> None:
        self._socket = socket
        self._variable = variable
        self._session = session
        self._seconds = 0.0
        self._answered = True
        self._waiting, self.events = anyio.create_memory_object_stream[Event](math.inf)

    @property
    def session(self) -> Session:
        """Its session."""
        assert self._session
        return self._session

    @classmethod
    async def open(cls, rest: Rest, token: str, session: Session | None) -> "Gateway":
        """Connects, and goes on with the session or begins one.

        Raises `PlatformError`, and `Refused` for a wrong token, or if the bot may not read messages.
        """
        import aiohttp

        url = session.url if session and session.url else await _address(rest, resuming=session is not None)
        try:
            with anyio.fail_after(_HELLO_SECONDS):
                socket = await rest.client.ws_connect(
                    f"{url.rstrip('/')}/?{_QUERY}", max_msg_size=0, timeout=aiohttp.ClientWSTimeout(ws_close=2)
                )
                gateway = cls(socket, rest.variable, session)
                try:
                    await gateway._sign_in(token)
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await gateway.close(final=False)
                    raise
        except (aiohttp.ClientError, TimeoutError) as error:
            if session:
                session.url = ""  # it is tried at the common address next
            raise PlatformError(f"Discord's gateway cannot be reached: {type(error).__name__}") from None
        return gateway

    async def close(self, final: bool) -> None:
        """Closes it. Unless it is final, the session can be gone on with for some minutes."""
        self._waiting.close()
        self.events.close()
        await self._socket.close(code=1000 if final else 4000)

    async def _sign_in(self, token: str) -> None:
        hello = await self._next()
        self._seconds = hello["d"]["heartbeat_interval"] / 1000
        if session := self._session:
            await self._send(_RESUME, {"token": token, "session_id": session.id, "seq": session.seq})
            return
        properties = {"os": "linux", "browser": "hermes-lab", "device": "hermes-lab"}
        await self._send(_IDENTIFY, {"token": token, "intents": INTENTS, "properties": properties})
        while True:
            said = await self._next()
            if said["op"] == _HEARTBEAT:
                await self._send(_HEARTBEAT, None)
            elif said["op"] == _INVALID:
                raise TryLater(5.0, "Discord takes no new session")
            elif said["op"] == _DISPATCH and said["t"] == "READY":
                ready = said["d"]
                self._session = Session(ready["session_id"], ready["resume_gateway_url"], ready["user"]["id"])
                self._session.seq = said["s"]
                return

    async def read(self) -> None:
        """Puts what arrives into `events`. Raises `PlatformError` when the connection ends."""
        while True:
            said = await self._next()
            match said["op"]:
                case 0:
                    self._waiting.send_nowait(Event(said["t"], said["d"], said["s"]))
                case 1:
                    await self._send(_HEARTBEAT, self.session.seq)
                case 7:
                    raise PlatformError("Discord asks to connect again")
                case 9:
                    self.session.over = not said["d"]
                    raise PlatformError("Discord has ended the session")
                case 11:
                    self._answered = True

    async def keep_alive(self) -> None:
        """Sends heartbeats. Raises `PlatformError` if one is not answered."""
        await anyio.sleep(self._seconds * random.random())
        while True:
            if not self._answered:
                raise PlatformError("Discord does not answer heartbeats")
            self._answered = False
            await self._send(_HEARTBEAT, self.session.seq)
            await anyio.sleep(self._seconds)

    async def _send(self, op: int, data: Any) -> None:
        try:
            await self._socket.send_str(msgspec.json.encode({"op": op, "d": data}).decode())
        except (ConnectionError, RuntimeError):
            raise PlatformError("the connection to Discord broke") from None

    async def _next(self) -> dict[str, Any]:
        from aiohttp import WSMsgType

        message = await self._socket.receive()
        if message.type == WSMsgType.TEXT:
            said: dict[str, Any] = msgspec.json.decode(message.data)
            return said
        code = self._socket.close_code
        if code == _WRONG_TOKEN:
            raise Refused(f"Discord does not know the token in {self._variable}: reset it in the Developer Portal")
        if code == _NO_SUCH_INTENTS:
            raise Refused(
                "the bot may not read messages: switch on the Message Content Intent on the page Bot of the Developer "
                "Portal"
            )
        if code in _REFUSED:
            raise Refused(f"Discord refuses the connection (code {code})")
        if self._session and code in _SESSION_OVER:
            self._session.over = True
        raise PlatformError(f"Discord closed the connection (code {code})")


async def _address(rest: Rest, resuming: bool) -> str:
    """The gateway's address. Too many new sessions a day would make Discord reset the token."""
    found = await rest.get("/gateway/bot")
    left = found.get("session_start_limit", {})
    if not resuming and left.get("remaining", 1) < 1:
        raise TryLater(left.get("reset_after", 60_000) / 1000, "Discord takes no new session")
    url: str = found["url"]
    return url


def _json(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None


def _number(given: Any, otherwise: float = 1.0) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        return otherwise
