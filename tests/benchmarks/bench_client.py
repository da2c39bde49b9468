"""What the client costs, beside bare aiohttp in the same run: `python tests/benchmarks/bench_client.py`.

Both send the same requests to a fake server in another process, in turns; the best round of each counts.
Compare the ratios: of requests a second, and of this process's CPU time a request.
"""

import json
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import aiohttp
import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))
from fakes.openai_server import FakeOpenAIServer, Reply, function_call

from hermes_lab.config.schema import ModelConfig
from hermes_lab.models.remote import open_endpoints
from hermes_lab.types import Message

REQUESTS, AT_ONCE, ROUNDS = 2000, 64, 5
TALK = [
    Message("system", "You are an agent. " * 40),
    *(Message(role, "x" * 400) for _ in range(4) for role in ("user", "assistant")),
    Message("user", "Go on."),
]
TOOLS = [{"type": "function", "function": {"name": "terminal", "parameters": {"type": "object"}}}]
REPLY = Reply("Well.", tool_calls=[function_call("1", "terminal", {"command": "ls"})])


class Round(NamedTuple):
    requests_per_second: float
    cpu_ms: float


async def one_round(request: Callable[[], Awaitable[object]]) -> Round:
    """REQUESTS requests, AT_ONCE at a time."""
    left = iter(range(REQUESTS))

    async def worker() -> None:
        for _ in left:
            await request()

    wall, cpu = time.perf_counter(), time.process_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(worker)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Round(REQUESTS / wall, cpu / REQUESTS * 1000)


async def compare(base_url: str) -> dict[str, float]:
    config = ModelConfig(name="fake", base_url=base_url)
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    body = {
        "model": "fake",
        "messages": [{"role": m.role, "content": m.content} for m in TALK],
        "tools": TOOLS,
    }
    rounds: dict[str, list[Round]] = {"bare": [], "client": []}
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        open_endpoints(config, [""], tool_format="native", concurrency=AT_ONCE) as (client,),
    ):

        async def bare() -> object:
            async with session.post(f"{base_url}/chat/completions", json=body) as response:
                return await response.json()

        for _ in range(ROUNDS):
            rounds["bare"].append(await one_round(bare))
            rounds["client"].append(await one_round(lambda: client.generate(TALK, TOOLS)))
    best = {name: (max(r[0] for r in of), min(r[1] for r in of)) for name, of in rounds.items()}
    return {
        "bare_requests_per_second": round(best["bare"][0]),
        "client_requests_per_second": round(best["client"][0]),
        "ratio": round(best["client"][0] / best["bare"][0], 3),
        "bare_cpu_ms": round(best["bare"][1], 3),
        "client_cpu_ms": round(best["client"][1], 3),
        "cpu_ratio": round(best["client"][1] / best["bare"][1], 3),
    }


def serve(channel: Connection) -> None:
    """The fake server, until the channel closes."""

    async def main() -> None:
        async with FakeOpenAIServer([REPLY]) as server:
            channel.send(server.base_url)
            await anyio.to_thread.run_sync(channel.poll, None)

    anyio.run(main)


if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    process.start()
    print(json.dumps(anyio.run(compare, here.recv())))
    process.terminate()
