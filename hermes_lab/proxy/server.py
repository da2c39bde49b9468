"""The server of one episode: authenticates, records, counts, and answers in the program's dialect."""

import asyncio
import hmac
import socket
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import anyio
import msgspec
from aiohttp import web

from hermes_lab.activity import Activity
from hermes_lab.agent.loop import cost_of, unenforced_limit
from hermes_lab.config.schema import AgentConfig, PriceConfig
from hermes_lab.errors import ContextFull, InfraError, ModelError
from hermes_lab.models.refusals import Rejected
from hermes_lab.models.wires.loose import decode_json, mapping
from hermes_lab.proxy.conversations import Arrived, Conversations, Sorter
from hermes_lab.proxy.dialects import DIALECTS, Dialect
from hermes_lab.proxy.exchange import PASSED_ON, Answer, Exchange, Request
from hermes_lab.proxy.upstream import Upstream
from hermes_lab.types import Generation, Usage
from hermes_lab.types.trajectory import Budget

_LARGEST_BODY = 256 << 20
_PING_SECONDS = 15.0
_CHARACTERS_PER_TOKEN = 4
"""For estimates of a prompt's tokens, which some programs ask for."""
_MOST_REFUSALS = 20
"""Refused requests of the work in a row, after which a program that goes on asking is stopped."""


class Proxy:
    """Serves one episode while entered.

    Programs authenticate with `key`; `models` are the names that they may ask for, and any other name is answered all
    the same. `failure` is the first reply that could not be had: the episode then has no result, whatever the program
    makes of it. A prompt that does not fit the model is not a failure: it is `refused` as the program's own interface
    does, so that it can shorten it. `rejected` counts the endpoint's refusals of what the program itself asked for,
    such as a parameter that it tries: it gets them as they are (`RawUpstream`).

    Budgets end as in the lab's own loop. Tokens and cost are checked after a reply with calls, which is then withheld,
    so that none of them runs; iterations are checked at the next request of the work, since its last calls still run. A
    reply without calls ends nothing. `spent` is the budget that ended: every later request is refused, but those of
    reviews, which have `review_iterations`, tokens and cost of their own in each turn; they end with `review_spent`.
    """

    def __init__(
        self,
        upstream: Upstream,
        config: AgentConfig,
        price: PriceConfig,
        *,
        key: str,
        models: Sequence[str],
        sorter: Sorter,
        review_iterations: int,
        activity: Activity | None = None,
    ) -> None:
        self._upstream = upstream
        self._price = price
        self._key = key
        self._models = models
        self._sorter = sorter
        self._activity = activity or Activity()
        self._work = _Spending(config, config.max_iterations)
        self._review = _Spending(config, review_iterations)
        self._in_review = False
        self._runner: web.AppRunner | None = None
        self._stopped = anyio.Event()
        self._idle_since = time.monotonic()
        self.exchanges: list[Exchange] = []
        self.failure: InfraError | None = None
        self.in_flight = 0
        self.refused = 0
        self.rejected = 0
        self.refusal: ContextFull | Rejected | None = None
        self._in_a_row = 0
        self._late = False

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            with anyio.CancelScope(shield=True):
                await self._runner.shutdown()
                await self._runner.cleanup()

    async def serve(self, listener: socket.socket) -> None:
        """Begins to serve connections to `listener`, which is closed at the end."""
        assert self._runner is not None
        await web.SockSite(self._runner, listener).start()

    def begin_turn(self, *, review: bool = False) -> None:
        """Counts iterations from now on anew, as for each submission. `review`: the turn is nothing but a review, and
        `interrupted` waits for its budgets."""
        self._work.iterations = 0
        self._review = self._review.anew()
        self._in_review = review
        self.refusal, self._in_a_row, self._late = None, 0, False
        self._stopped = anyio.Event()
        self._check()

    @property
    def spent(self) -> Budget | None:
        """The budget of the work that ended."""
        return self._work.spent

    @property
    def review_spent(self) -> Budget | None:
        """The budget of this turn's review that ended."""
        return self._review.spent

    def conversations(self) -> Conversations:
        """The conversations so far."""
        return self._sorter.conversations()

    @property
    def lost(self) -> int:
        """The number of parts, such as images, that the record cannot hold: the most in one request."""
        return max((exchange.asked.lost for exchange in self.exchanges), default=0)

    def end_turn(self) -> None:
        """Refuses every further request of the turn; those in flight are still answered."""
        self._late = True

    async def interrupted(self) -> None:
        """Returns once the program must be stopped: there is a `failure`, a budget of the turn is spent, or it only
        repeats requests that are refused."""
        await self._stopped.wait()

    def _check(self) -> None:
        spent = (self._review if self._in_review else self._work).spent
        if self.failure or spent or self._in_a_row >= _MOST_REFUSALS:
            self._stopped.set()

    async def quiet(self, seconds: float) -> None:
        """Returns once no request has been in flight for so long."""
        while True:
            rest = seconds - (time.monotonic() - self._idle_since)
            if not self.in_flight and rest <= 0:
                return
            await anyio.sleep(max(rest, 0.01))

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        dialect = next((each for each in DIALECTS.values() if request.path.endswith(each.ending)), None)
        known = dialect or DIALECTS["messages" if "anthropic-version" in request.headers else "chat"]
        if not self._is_ours(request.headers):
            return _error(known, 401, "the key is not the one that this program was given")
        if request.method == "GET" and request.path.endswith("/models"):
            return _json({"object": "list", "data": [_model(name) for name in self._models], "has_more": False})
        if request.method == "POST" and request.path.endswith("/count_tokens"):
            return _json({"input_tokens": len(await request.read()) // _CHARACTERS_PER_TOKEN})
        if dialect is None or request.method != "POST":
            return _error(known, 404, f"{request.method} {request.path} is not offered here")
        try:
            body = decode_json(await request.read())
            asked = dialect.read(mapping(body))
        except (ModelError, ValueError) as error:
            return _error(dialect, 400, str(error))
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        return await self._exchange(request, dialect, Request(dialect.name, request.path, body, asked, headers))

    def _is_ours(self, headers: Mapping[str, str]) -> bool:
        given = headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.strip().encode(), self._key.encode())

    async def _exchange(self, http: web.Request, dialect: Dialect, request: Request) -> web.StreamResponse:
        if self.failure:
            return _error(dialect, 502, str(self.failure))
        if self._late:
            return _error(dialect, 429, str(_Spent("max_seconds")), retry=False)
        arrived = self._sorter.arrive(request.asked)
        spending = self._review if arrived.role == "review" else self._work
        if spent := spending.ended(counts=arrived.role != "side"):
            self._check()
            return _error(dialect, 429, str(_Spent(spent)), retry=False)
        exchange = Exchange(request.asked, time.monotonic())
        self.exchanges.append(exchange)
        number = self._activity.turn = len(self.exchanges)  # here, as others may arrive before it is asked
        self._activity.messages = list(request.asked.messages)
        self._activity.wait_for("model")
        self.in_flight += 1
        try:
            return await self._respond(
                http, dialect, request, self._answer(number, request, exchange, arrived, spending)
            )
        except BaseException as error:
            exchange.error = exchange.error or f"{type(error).__name__}: {error}"  # such as a client that hung up
            raise
        finally:
            self.in_flight -= 1
            self._idle_since = time.monotonic()
            exchange.ended = exchange.ended or self._idle_since
            self._activity.wait_for("command")

    async def _respond(
        self, http: web.Request, dialect: Dialect, request: Request, answer: Coroutine[Any, Any, Answer | Exception]
    ) -> web.StreamResponse:
        answering = asyncio.ensure_future(answer)
        try:
            stream = await self._keep_alive(http, dialect, request, answering)
            found = await answering
        except BaseException:
            answering.cancel()
            with suppress(asyncio.CancelledError):
                await answering
            raise
        if isinstance(found, Answer):
            return await _reply(http, dialect, request, found, stream)
        if stream is None:
            return _refusal(dialect, found)
        too_long = isinstance(found, ContextFull)
        await stream.write(dialect.broken_off(_status_of(found), str(found), too_long=too_long))
        await stream.write_eof()
        return stream

    async def _keep_alive(
        self, http: web.Request, dialect: Dialect, request: Request, answering: "asyncio.Future[Any]"
    ) -> web.StreamResponse | None:
        """Waits for the answer, and keeps a stream alive meanwhile. Returns the stream, if it was begun."""
        stream = None
        while True:
            await asyncio.wait([answering], timeout=_PING_SECONDS)
            if answering.done() or not request.asked.stream:
                return stream
            if stream is None:
                stream = await _begin_stream(http)
            await stream.write(dialect.ping())

    async def _answer(
        self, number: int, request: Request, exchange: Exchange, arrived: Arrived, spending: "_Spending"
    ) -> Answer | Exception:
        """The answer to the `number`th request, or why the program gets none."""
        try:
            answer = await self._upstream.answer(request)
        except (ContextFull, Rejected) as error:
            self.refused += isinstance(error, ContextFull)
            self.rejected += isinstance(error, Rejected)
            if self._sorter.is_main(request.asked, arrived):
                self.refusal = error
                self._in_a_row += 1
                self._check()
            exchange.error = str(error)
            return error
        except InfraError as error:
            return self._failed(exchange, error)
        except Exception as error:
            return self._failed(exchange, ModelError(f"{type(error).__name__}: {error}"))
        if self._sorter.is_main(request.asked, arrived):
            self.refusal, self._in_a_row = None, 0
        exchange.generation = answer.generation
        exchange.ended = time.monotonic()
        self._sorter.add(number, exchange, arrived)
        self._activity.messages = [*exchange.asked.messages, answer.generation.message]
        try:
            spent = spending.add(answer.generation, self._price, counts=arrived.role != "side")
        except ModelError as error:
            return self._failed(exchange, error)
        if spent:
            self._check()
            return _Spent(spent)
        return answer

    def _failed(self, exchange: Exchange, error: InfraError) -> InfraError:
        exchange.error = str(error)
        self.failure = self.failure or error
        self._check()
        return error


class _Spent(Exception):
    """A budget has ended."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(f"the budget of this episode is used up ({budget})")


@dataclass
class _Spending:
    """What the work, or a review, has used of its budgets. It counts as the lab's own loop does
    (`hermes_lab.agent.loop`)."""

    config: AgentConfig
    max_iterations: int
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    iterations: int = 0
    spent: Budget | None = None

    def anew(self) -> "_Spending":
        """The same budgets, unused."""
        return _Spending(self.config, self.max_iterations)

    def ended(self, *, counts: bool) -> Budget | None:
        """The budget that refuses a request. `counts`: the request would be an iteration if it led to calls."""
        self.spent = self.spent or self._exhausted()
        if counts and not self.spent and self.iterations >= self.max_iterations:
            self.spent = "max_iterations"
        return self.spent

    def add(self, generation: Generation, price: PriceConfig, *, counts: bool) -> Budget | None:
        """Counts a reply. Returns the budget that ended before its calls run. Raises `ModelError` if a limit cannot be
        kept, as its tokens are unknown."""
        self.usage += generation.usage
        self.cost += cost_of(generation.usage, price)
        if unenforced := unenforced_limit(generation.usage, price, self.config):
            raise ModelError(unenforced)
        if not generation.message.tool_calls:
            return None
        self.iterations += counts
        self.spent = self.spent or self._exhausted()
        return self.spent

    def _exhausted(self) -> Budget | None:
        if self.usage.prompt_tokens + self.usage.completion_tokens >= self.config.max_tokens:
            return "max_tokens"
        if self.config.max_cost and self.cost >= self.config.max_cost:
            return "max_cost"
        return None


async def _reply(
    http: web.Request, dialect: Dialect, request: Request, answer: Answer, stream: web.StreamResponse | None
) -> web.StreamResponse:
    if not request.asked.stream:
        body = answer.raw or msgspec.json.encode(dialect.reply(answer.generation, request.body))
        return web.Response(body=body, content_type="application/json")
    content = answer.raw or dialect.events(answer.generation, request.body)
    if stream is None:
        stream = await _begin_stream(http)
    await stream.write(content)
    await stream.write_eof()
    return stream


async def _begin_stream(http: web.Request) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await stream.prepare(http)
    return stream


def _error(dialect: Dialect, status: int, message: str, *, too_long: bool = False, retry: bool = True) -> web.Response:
    body = msgspec.json.encode(dialect.error(status, message, too_long=too_long))
    headers = {} if retry else {"x-should-retry": "false"}
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def _refusal(dialect: Dialect, found: Exception) -> web.Response:
    """Why there is no reply, in the program's dialect; a refusal by an endpoint of this dialect as it was."""
    if isinstance(found, Rejected) and found.body.lstrip().startswith("{"):
        return web.Response(text=found.body, status=found.status, content_type="application/json")
    too_long = isinstance(found, ContextFull)
    retry = not isinstance(found, _Spent)
    return _error(dialect, _status_of(found), str(found), too_long=too_long, retry=retry)


def _status_of(found: Exception) -> int:
    if isinstance(found, Rejected):
        return found.status
    return 400 if isinstance(found, ContextFull) else 429 if isinstance(found, _Spent) else 502


def _json(content: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), content_type="application/json")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "lab", "display_name": name}
