"""What the recording proxy costs, beside a bare aiohttp echo in the same run: `python tests/benchmarks/bench_proxy.py`.

A client in another process works on an episode of REQUESTS turns whose prompt begins with 30 kB, through each dialect.
The CPU time of this process a request, in milliseconds: of the proxy with an upstream that answers at once, of the
harness asking for the conversations twice a turn, and of an echo of the same bodies. The best round of each counts.
"""

import asyncio
import json
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from hermes_lab.config.schema import AgentConfig, PriceConfig
from hermes_lab.proxy import Proxy
from hermes_lab.proxy.conversations import Sorter
from hermes_lab.proxy.exchange import Answer, Request
from hermes_lab.sandbox.network import listen_here
from hermes_lab.types import Generation, Message, ToolCall, Usage

REQUESTS, ROUNDS = 100, 3
TASK = "Count the desk."
FUNCTION = {"name": "sh", "description": "x " * 500, "parameters": {"type": "object", "properties": {}}}
SYSTEM = "You are an agent. " * 1600  # 29 kB
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


class AtOnce:
    """An upstream whose every reply calls a tool."""

    def __init__(self) -> None:
        self.given = 0

    async def answer(self, request: Request) -> Answer:
        self.given += 1
        call = ToolCall(f"c{self.given}", "sh", {"command": f"echo {self.given}"})
        return Answer(Generation(Message("assistant", "Well.", tool_calls=(call,)), "tool_calls", Usage(100, 10)))


def bodies(dialect: str) -> list[bytes]:
    """The requests of an episode."""
    made = []
    for turn in range(REQUESTS):
        sent: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
        for number in range(1, turn + 1):
            sent += TURNS[dialect](f"c{number}", {"command": f"echo {number}"}, f"output {number} " * 20)
        tool: dict[str, Any] = {"type": "function", "function": FUNCTION}
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "system", "content": SYSTEM}, *sent]}
        if dialect == "messages":
            tool = {"name": "sh", "description": FUNCTION["description"], "input_schema": FUNCTION["parameters"]}
            body = {"model": "m", "max_tokens": 9, "system": SYSTEM, "messages": sent}
        if dialect == "responses":
            tool = {"type": "function", **FUNCTION}
            body = {"model": "m", "instructions": SYSTEM, "input": sent}
        made.append(json.dumps({**body, "tools": [tool]}).encode())
    return made


def _chat(call_id: str, arguments: dict[str, Any], output: str) -> list[dict[str, Any]]:
    function = {"name": "sh", "arguments": json.dumps(arguments)}
    calls = [{"id": call_id, "type": "function", "function": function}]
    said = {"role": "assistant", "content": "Well.", "tool_calls": calls}
    return [said, {"role": "tool", "tool_call_id": call_id, "content": output}]


def _messages(call_id: str, arguments: dict[str, Any], output: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": call_id, "name": "sh", "input": arguments}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
    said = [{"type": "text", "text": "Well."}, call]
    return [{"role": "assistant", "content": said}, {"role": "user", "content": [result]}]


def _responses(call_id: str, arguments: dict[str, Any], output: str) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": call_id, "name": "sh", "arguments": json.dumps(arguments)}
    result = {"type": "function_call_output", "call_id": call_id, "output": output}
    return [{"role": "assistant", "content": "Well."}, call, result]


TURNS = {"chat": _chat, "messages": _messages, "responses": _responses}


def drive(channel: Connection) -> None:
    """The client, until the channel closes: posts the bodies of a dialect to each address that it is sent."""

    async def post(url: str, key: str, content: list[bytes]) -> None:
        async with aiohttp.ClientSession(headers={"x-api-key": key, "Content-Type": "application/json"}) as session:
            for body in content:
                async with session.post(url, data=body) as reply:
                    assert reply.status == 200
                    await reply.read()

    made = {dialect: bodies(dialect) for dialect in PATHS}
    channel.send(sum(map(len, made["chat"])) // REQUESTS)
    while asked := channel.recv():
        url, key, dialect = asked
        asyncio.run(post(url, key, made[dialect]))
        channel.send(None)


async def cpu_of(channel: Connection, url: str, dialect: str) -> float:
    """Milliseconds of this process a request."""
    begun = time.process_time()
    channel.send((url, "k", dialect))
    await asyncio.to_thread(channel.recv)
    return (time.process_time() - begun) / REQUESTS * 1000


async def echo(channel: Connection, dialect: str) -> float:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    listener = listen_here(0)
    await web.SockSite(runner, listener).start()
    cpu = await cpu_of(channel, f"http://127.0.0.1:{listener.getsockname()[1]}/", dialect)
    await runner.cleanup()
    return cpu


async def proxied(channel: Connection, dialect: str) -> tuple[float, float]:
    """The proxy's CPU a request, and that of the conversations."""
    config = AgentConfig(max_iterations=REQUESTS + 1)
    sorter = Sorter([TASK], lambda text: text.startswith("Review"))
    async with Proxy(
        AtOnce(), config, PriceConfig(), key="k", models=["m"], sorter=sorter, review_iterations=1
    ) as proxy:
        listener = listen_here(0)
        await proxy.serve(listener)
        cpu = await cpu_of(channel, f"http://127.0.0.1:{listener.getsockname()[1]}{PATHS[dialect]}", dialect)
        begun = time.process_time()
        for _ in range(2):
            assert len(proxy.conversations().main.steps) == REQUESTS
        return cpu, (time.process_time() - begun) / REQUESTS * 1000


async def compare(channel: Connection) -> dict[str, Any]:
    found: dict[str, Any] = {"prompt_kB": round(channel.recv() / 1000)}
    for dialect in PATHS:
        echoes = [await echo(channel, dialect) for _ in range(ROUNDS)]
        proxies = [await proxied(channel, dialect) for _ in range(ROUNDS)]
        found[dialect] = {
            "echo_cpu_ms": round(min(echoes), 3),
            "proxy_cpu_ms": round(min(cpu for cpu, _ in proxies), 3),
            "conversations_cpu_ms": round(min(cpu for _, cpu in proxies), 3),
        }
    return found


if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=drive, args=(there,), daemon=True)
    process.start()
    print(json.dumps(asyncio.run(compare(here))))
    here.send(None)
    process.join()
