"""A fake OpenAI-compatible server on loopback, with vLLM's additions: it answers what the test tells it to.

    async with FakeOpenAIServer(["hello"]) as server: ...      # in an async test
    with running(FakeOpenAIServer(["hello"])) as server: ...   # in a thread of its own, for sync tests

Tokens are bytes: a prompt's ids are the bytes of `render(messages)`, a reply's those of its content and END.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from anyio.from_thread import start_blocking_portal

END = 0
LOGPROB = -0.25


@dataclass(frozen=True)
class Reply:
    """One scripted reply. With a `status` other than 200, or a `body`, it is sent unchanged.

    `pieces` are a body too, sent one by one with a `pause` before each: chunked, where `headers` announce no
    Content-Length. `torn`: the connection is closed after them, before the body is whole. A reply that is not `counted`
    has no usage.
    """

    content: str | None = None
    tool_calls: Sequence[dict[str, Any]] = ()
    message: dict[str, Any] = field(default_factory=dict)  # further fields of the message
    finish_reason: str = ""
    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang_up: bool = False
    pieces: Sequence[bytes] = ()
    pause: float = 0.0
    torn: bool = False
    counted: bool = True


Script = Sequence[str | Reply] | Callable[[dict[str, Any]], str | Reply]


class FakeOpenAIServer:
    """Replies with the items of `script` in order, repeating the last one, or with a function of the request's body.

    `requests` and `headers` hold what arrived; `adapters` what was loaded: name -> path; one that was unloaded is
    answered with 404; `base` is the folder of the models, if that is told; `answers_as` is what replies call their
    model instead of what was asked; `most_at_once` the largest number of concurrent chat requests. No chat request is
    answered before `gather` of them were concurrent. `list_body` is what `/models` answers instead of `models`;
    `queries` are those of the addresses that were asked; `root_answers` is what `/models` outside of `/v1` gives.
    `port` is one that `reserved_port` holds, 0 any free one. Where `models` is what is listed, a model that is neither
    there nor among `unlisted` is answered with 404. A stream is sent in pieces of `split` bytes, 0 is one piece an
    event; with `streams` false, the whole reply is sent in its place. With `sleep_mode` it has vLLM's endpoints to
    sleep and wake; `turns` are those that were asked. Asleep, it answers no chat request and loads no adapter; `stuck`,
    it does not wake.
    """

    def __init__(
        self,
        script: Script,
        *,
        models: Sequence[str] = ("fake",),
        lists_models: bool = True,
        gather: int = 0,
        port: int = 0,
        list_body: object = None,
        root_answers: tuple[int, str] = (404, "404: Not Found"),
        unlisted: Sequence[str] = (),
        split: int = 0,
        streams: bool = True,
        sleep_mode: bool = False,
    ) -> None:
        self.sleep_mode = sleep_mode
        self.turns: list[str] = []
        self.asleep = False
        self.stuck = False
        self.split = split
        self.streams = streams
        self.unlisted = unlisted
        self.script = script
        self.models = models
        self.lists_models = lists_models
        self.gather = gather
        self.port = port
        self.list_body = list_body
        self.root_answers = root_answers
        self.queries: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.adapters: dict[str, str] = {}
        self.base = ""
        self.refuse_adapters, self.why = 0, "no adapters"
        self.answers_as = ""
        self._unloaded: set[str] = set()
        self.most_at_once = 0
        self._at_once = 0
        self._runner: web.AppRunner | None = None
        self.base_url = ""

    async def __aenter__(self) -> "FakeOpenAIServer":
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/models", self._no_models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/load_lora_adapter", self._load)
        app.router.add_post("/v1/unload_lora_adapter", self._unload)
        if self.sleep_mode:
            app.router.add_post("/sleep", self._sleep)
            app.router.add_post("/wake_up", self._wake)
            app.router.add_get("/is_sleeping", self._is_sleeping)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self._gathered = asyncio.Event()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_port=True)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        self.queries.append(request.query_string)
        if not self.lists_models:
            raise web.HTTPNotFound
        if self.list_body is not None:
            return web.json_response(self.list_body)
        served = [{"id": name} | ({"root": self.base} if self.base else {}) for name in self.models]
        loaded = [{"id": name, "root": path} for name, path in self.adapters.items()]
        return web.json_response({"object": "list", "data": served + loaded})

    async def _sleep(self, request: web.Request) -> web.Response:
        level, mode = request.query.get("level", "1"), request.query.get("mode", "abort")
        if level not in ("0", "1", "2") or mode not in ("abort", "wait", "keep"):
            return web.Response(status=500)
        self.turns.append(f"sleep {level} {mode}")
        self.asleep = True
        return web.Response()

    async def _wake(self, request: web.Request) -> web.Response:
        self.turns.append("wake")
        self.asleep = self.stuck
        return web.Response()

    async def _is_sleeping(self, request: web.Request) -> web.Response:
        return web.json_response({"is_sleeping": self.asleep})

    async def _no_models(self, request: web.Request) -> web.Response:
        status, body = self.root_answers
        return web.Response(status=status, text=body)

    async def _load(self, request: web.Request) -> web.Response:
        body = await request.json()
        if self.asleep:
            return web.Response(status=500)
        if self.refuse_adapters:
            return web.json_response({"error": {"message": self.why}}, status=self.refuse_adapters)
        if body["lora_name"] in self.adapters:
            return web.json_response({"error": {"message": "has already been loaded"}}, status=400)
        self.adapters[body["lora_name"]] = body["lora_path"]
        self._unloaded.discard(body["lora_name"])
        return web.Response(text="Success")

    async def _unload(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        del self.adapters[name]
        self._unloaded.add(name)
        return web.Response(text="Success")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        if self.asleep:
            return web.Response(status=500)
        self.queries.append(request.query_string)
        self.headers.append(dict(request.headers))
        if not self._serves(body["model"]):
            error = {"message": f"The model `{body['model']}` does not exist.", "type": "NotFoundError"}
            return web.json_response({"error": error}, status=404)
        if "stream_options" in body and not body.get("stream"):
            error = {"message": "The 'stream_options' parameter is only allowed when 'stream' is enabled."}
            return web.json_response({"error": error}, status=400)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        if self.most_at_once >= self.gather:
            self._gathered.set()
        try:
            reply = self._next(body)
            await self._gathered.wait()
            await asyncio.sleep(reply.delay)
        finally:
            self._at_once -= 1
        if reply.hang_up:
            request.transport.abort()
        if reply.pieces:
            return await _send_pieces(request, reply)
        if reply.status != 200 or reply.body is not None:
            body = reply.body if isinstance(reply.body, str | bytes) else json.dumps(reply.body)
            sent = body if isinstance(body, bytes) else body.encode()
            return web.Response(status=reply.status, body=sent, headers=reply.headers)
        if self.answers_as:
            body = body | {"model": self.answers_as}
        if body.get("stream") and self.streams:
            return await _send_pieces(request, stream_reply(body, reply, split=self.split))
        return web.json_response(_completion(body, reply), headers=reply.headers)

    def _serves(self, name: str) -> bool:
        if name in self._unloaded:
            return False
        is_open = not self.lists_models or self.list_body is not None
        return is_open or name in {*self.models, *self.adapters, *self.unlisted}

    def _next(self, body: dict[str, Any]) -> Reply:
        if callable(self.script):
            reply = self.script(body)
        else:
            reply = self.script[min(len(self.requests), len(self.script)) - 1]
        return Reply(reply) if isinstance(reply, str) else reply


async def _send_pieces(request: web.Request, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    await response.prepare(request)
    for piece in reply.pieces:
        await asyncio.sleep(reply.pause)
        await response.write(piece)
    if reply.torn:
        request.transport.close()
    else:
        await response.write_eof()
    return response


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserves a port: connections are refused unless one of our servers listens on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def running(server: FakeOpenAIServer) -> Iterator[FakeOpenAIServer]:
    """Runs the server in a separate thread."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as started:
        yield started


def function_call(call_id: str | None, name: str | None, arguments: object) -> dict[str, Any]:
    """A structured tool call as a server sends it; a mapping becomes JSON text."""
    text = json.dumps(arguments) if isinstance(arguments, dict) else arguments
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def render(messages: Sequence[dict[str, Any]]) -> str:
    """The fake's chat template."""
    return "".join(f"<{m['role']}>{m['content'] or ''}\0" for m in messages) + "<assistant>"


def _completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.content, **reply.message}
    if reply.tool_calls:
        message["tool_calls"] = list(reply.tool_calls)
    prompt = list(render(body["messages"]).encode())
    sampled = [*(reply.content or "").encode(), END]
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop"),
    }
    content: dict[str, Any] = {"object": "chat.completion", "model": body["model"], "choices": [choice]}
    if reply.counted:
        content["usage"] = {"prompt_tokens": len(prompt), "completion_tokens": len(sampled)}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": str(i), "logprob": LOGPROB} for i in sampled]}
    if body.get("return_token_ids"):
        choice["token_ids"] = sampled
        content["prompt_token_ids"] = prompt
    return content


def stream_reply(body: dict[str, Any], reply: Reply, *, split: int = 0) -> Reply:
    """The reply as a stream to this request, with a keep-alive comment."""
    lines = [": keep-alive", *(f"data: {json.dumps(chunk, ensure_ascii=False)}" for chunk in stream(body, reply))]
    written = [f"{line}\n\n".encode() for line in [*lines, "data: [DONE]"]]
    whole = b"".join(written)
    pieces = [whole[i : i + split] for i in range(0, len(whole), split)] if split else written
    return Reply(pieces=pieces, headers={"Content-Type": "text/event-stream", **reply.headers})


def stream(body: dict[str, Any], reply: Reply) -> Iterator[dict[str, Any]]:
    """The chunks of a reply, as vLLM cuts it: a character, or a piece of a call's arguments, at a time."""
    whole = _completion(body, reply)
    choice = whole["choices"][0]
    shared = {"object": "chat.completion.chunk", "model": whole["model"]}
    logprobs, ids = choice.get("logprobs"), choice.get("token_ids")
    at = 0

    def chunk(delta: Mapping[str, Any], tokens: int = 0, **fields: Any) -> dict[str, Any]:
        nonlocal at
        piece: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": None, **fields}
        if logprobs and tokens:
            piece["logprobs"] = {"content": logprobs["content"][at : at + tokens]}
        if ids and tokens:
            piece["token_ids"] = ids[at : at + tokens]
        at += tokens
        return shared | {"choices": [piece]}

    prompt = {"prompt_token_ids": whole["prompt_token_ids"]} if ids else {}
    yield chunk({"role": "assistant", "content": ""}) | prompt
    said = choice["message"]
    for name, value in said.items():
        if name not in ("role", "content", "tool_calls"):
            yield from (chunk({name: part}) for part in value)
    for character in said["content"] or "":
        yield chunk({"content": character}, len(character.encode()))
    for delta in _call_deltas(said.get("tool_calls", ())):
        yield chunk({"tool_calls": [delta]})
    yield chunk({}, 1, finish_reason=choice["finish_reason"])
    if reply.counted and body.get("stream_options", {}).get("include_usage"):
        yield shared | {"choices": [], "usage": whole["usage"]}


def _call_deltas(calls: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The pieces of calls: first their names, then pieces of their arguments in turn, by index."""
    for index, call in enumerate(calls):
        yield {"index": index, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
    arguments = [str(call["function"]["arguments"]) for call in calls]
    for at in range(0, max(map(len, arguments), default=0), 5):
        for index, text in enumerate(arguments):
            if piece := text[at : at + 5]:
                yield {"index": index, "function": {"arguments": piece}}
