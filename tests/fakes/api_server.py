"""Base of the strict API fakes: a loopback server that checks requests and sends JSON or events."""

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self, TypeVar

from aiohttp import web

T = TypeVar("T")
KEY = "the-key"
"""The only key that the fakes accept."""
_SECRET = b"only the fakes know it"


class Refusal(Exception):
    """A rejected request: the HTTP status, the API's name for the kind of error, and the message."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param


def seal(content: str) -> str:
    """A signature that only the fakes can create."""
    return hmac.new(_SECRET, content.encode(), hashlib.sha256).hexdigest()


class ApiServer:
    """Starts and stops; `requests` and `headers` hold what arrived, refused or not.

    Streams are sent in pieces of `split` bytes, 0 is one piece an event. A subclass says what is refused, and how
    errors look.
    """

    path = ""

    def __init__(self, *, split: int = 0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refusals: list[str] = []
        self.base_url = ""
        self._answered = 0
        self._split = split
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/v1/models", self._guarded(self.models))
        app.router.add_post("/v1" + self.path, self._guarded(self.create))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def models(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    async def create(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    def next_of(self, script: Sequence[T] | Callable[[dict[str, Any]], T], body: dict[str, Any]) -> T:
        """The next item of the script, repeating the last one, or the result of calling it with the request's body."""
        turn = self._answered
        self._answered += 1
        return script(body) if callable(script) else script[min(turn, len(script) - 1)]

    def error(self, refusal: Refusal) -> dict[str, Any]:
        raise NotImplementedError

    def _guarded(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            self.headers.append(dict(request.headers))
            try:
                return await handler(request)
            except Refusal as refusal:
                self.refusals.append(refusal.message)
                return web.json_response(self.error(refusal), status=refusal.status)

        return answer

    async def send_events(self, request: web.Request, events: Sequence[dict[str, Any]]) -> web.StreamResponse:
        """Server-sent events as both APIs write them: the event's name, then its data, which repeats it as `type`."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        written = [f"event: {e['type']}\ndata: {json.dumps(e, ensure_ascii=False)}\n\n".encode() for e in events]
        whole = b"".join(written)
        pieces = written if not self._split else [whole[i : i + self._split] for i in range(0, len(whole), self._split)]
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response


def pieces_of(text: str, length: int = 7) -> list[str]:
    """Splits a text into chunks, as in a stream."""
    return [text[i : i + length] for i in range(0, len(text), length)]
