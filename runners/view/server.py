"""The server of the page: on loopback, with a token in every address, and read-only."""

import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
import msgspec
from aiohttp import web

from hermes_lab.analysis.plots.palette import looks
from hermes_lab.analysis.report import charts
from hermes_lab.errors import ConfigError
from hermes_lab.runners.view import page
from hermes_lab.runners.view.run_reader import CurvePoint, RunReader, running_row, running_transcript
from hermes_lab.runners.view.runs import Runs

HOST = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": page.POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(runs: Runs, port: int = 0) -> AsyncIterator[str]:
    """Serves the page for the time of the block; yields its address. Raises `ConfigError` if the port is taken."""
    token = secrets.token_urlsafe(24)
    runner = web.AppRunner(_app(runs, token), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, HOST, port).start()
        except OSError as error:
            raise ConfigError(f"--port: {port} cannot be used: {error.strerror}") from None
        yield f"http://{HOST}:{runner.addresses[0][1]}/{token}/"
    finally:
        await runner.cleanup()


def _app(runs: Runs, token: str) -> web.Application:
    app = web.Application(middlewares=[_guard(token)])
    answers = _Answers(runs)
    texts = {"": (page.html(), "text/html"), "view.css": (page.style(), "text/css")}
    texts["view.js"] = (page.script(), "text/javascript")
    for name, (text, kind) in texts.items():
        app.router.add_get(f"/{{token}}/{name}", _fixed(text, kind))
    app.router.add_get("/{token}/api/now", answers.now)
    app.router.add_get("/{token}/api/transcript", answers.transcript)
    app.router.add_get("/{token}/api/search", answers.search)
    return app


def _guard(token: str) -> Any:
    """Refuses requests without the token, and those for another host name: a page elsewhere could have its own name
    lead here. Nothing is told about why."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        name, _, _ = request.host.rpartition(":")
        given = request.path.split("/")[1]
        if name not in (HOST, "localhost") or not hmac.compare_digest(given.encode(), token.encode()):
            return web.Response(status=403, text="403: open the address that hermes-lab view printed", headers=_HEADERS)
        try:
            response = await handler(request)
        except web.HTTPException as refused:
            return web.Response(status=refused.status, text=refused.reason, headers=_HEADERS)
        response.headers.update(_HEADERS)
        return response

    return guard


def _fixed(text: str, kind: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type=kind, charset="utf-8")

    return answer


class _Answers:
    """The requests of the page. Files are read in threads."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def now(self, request: web.Request) -> web.Response:
        """The list of runs, and of the run `run` its new rows after change `from` of the reading `begun`."""
        query = request.query
        since, begun = _number(query.get("from", "0")), query.get("begun", "")
        return await _json(self._now, query.get("run", ""), since, begun)

    async def transcript(self, request: web.Request) -> web.Response:
        """The episode `n`, or the running one with the key `key`."""
        run = self._run(request)
        if key := request.query.get("key"):
            return await _json(_running_one, run, key)
        return await _json(run.transcript, _number(request.query.get("n", "")))

    async def search(self, request: web.Request) -> web.Response:
        """The episodes from `from` on whose text holds `q`."""
        query = request.query
        return await _json(_search, self._run(request), query.get("q", ""), _number(query.get("from", "0")))

    def _run(self, request: web.Request) -> RunReader:
        if run := self._runs.get(request.query.get("run", "")):
            return run
        raise web.HTTPNotFound

    def _now(self, name: str, since: int, begun: str) -> dict[str, Any]:
        answer: dict[str, Any] = {"runs": self._runs.table(name)}
        if reader := self._runs.get(name):
            fresh = begun != str(reader.begun)
            rows, changes = reader.changes(0 if fresh else since)
            running, state = reader.running()
            answer["run"] = {
                "begun": str(reader.begun),
                "fresh": fresh,
                "rows": rows,
                "next": changes,
                "state": state,
                "running": [running_row(episode) for episode in running],
                "curves": _drawn(reader.curves()) if rows else None,
                "complete": reader.complete,
            }
        return answer


def _drawn(curves: dict[str, list[CurvePoint]]) -> list[dict[str, Any]]:
    """The curves in the order and look of the report."""
    return [
        {
            "arm": arm,
            "points": curves[arm],
            "colour": charts.colour(look),
            "marker": charts.marker_path(look),
            "dashes": charts.dash_array(look) or "",
        }
        for arm, look in looks(curves).items()
    ]


def _search(run: RunReader, query: str, since: int) -> dict[str, Any]:
    return run.search(query, since)._asdict()


def _running_one(run: RunReader, key: str) -> dict[str, Any] | None:
    episodes, _ = run.running()
    return next((running_transcript(episode) for episode in episodes if episode.key == key), None)


async def _json(work: Callable[..., Any], *given: Any) -> web.Response:
    body = await anyio.to_thread.run_sync(lambda: msgspec.json.encode(work(*given)))
    return web.Response(body=body, content_type="application/json")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise web.HTTPBadRequest
    return int(text)
