"""What a model that hangs costs the other chats of a gateway: `python tests/benchmarks/bench_gateway.py`.

CHATS chats take turns of which each runs a command, in rounds with and without another chat whose model never answers.
Milliseconds from a message to its reply, the median of the best round; and how fast `/status` and `/stop` of the chat
that hangs are answered. The goals: at most 10 % more, and less than a second.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from fakes.wire import Wire

from hermes_lab.config.home_file import load_home_config
from hermes_lab.gateway.daemon import Gateway

CHATS, TURNS, ROUNDS = 3, 10, 4
HANG = "Never answer this."


def answer(body: dict) -> Reply:
    """Runs a command, and says what it printed; hangs if it was asked to."""
    last = body["messages"][-1]
    if last["role"] == "user":
        if HANG in str(last["content"]):
            return Reply("Late.", delay=600)
        return Reply(tool_calls=[function_call("call", "terminal", {"command": "echo done"})])
    return Reply("done")


async def turns(wire: Wire, chat: str) -> list[float]:
    """The seconds of each turn of a chat."""
    taken = []
    for number in range(TURNS):
        before = len(await wire.replies(0, chat))
        started = time.perf_counter()
        await wire.say(f"Turn {number}", chat=chat)
        await wire.replies(before + 1, chat, 60)
        taken.append(time.perf_counter() - started)
    return taken


async def measured(wire: Wire) -> float:
    """The median turn of all chats at once."""
    taken: list[float] = []

    async def one(chat: int) -> None:
        taken.extend(await turns(wire, str(chat)))

    async with anyio.create_task_group() as group:
        for chat in range(CHATS):
            group.start_soon(one, chat)
    return statistics.median(taken)


async def command(wire: Wire, text: str, count: int) -> float:
    """Seconds until a command of the chat that hangs is answered, when it has `count` replies."""
    started = time.perf_counter()
    await wire.say(text, chat="hangs")
    await wire.replies(count, "hangs", 60)
    return time.perf_counter() - started


async def main(home: Path, url: str) -> None:
    wire = Wire()
    options = json.dumps({"wire": {"allow": ["ann"]}})
    sources = (f"model={{base_url: '{url}', name: fake}}", f"gateway.options={options}", "agent.toolsets=[terminal]")
    best = {False: 1e9, True: 1e9}
    asked = {"/status": 0.0, "/stop": 0.0}
    async with anyio.create_task_group() as group:
        group.start_soon(Gateway(load_home_config(home, sources), home, [wire], sources).run)
        await measured(wire)  # opens the chats
        for _ in range(ROUNDS):
            best[False] = min(best[False], await measured(wire))
            before = len(await wire.replies(0, "hangs"))
            await wire.say(HANG, chat="hangs")
            best[True] = min(best[True], await measured(wire))
            for number, text in enumerate(asked, 1):
                asked[text] = max(asked[text], await command(wire, text, before + number))
        group.cancel_scope.cancel()
    alone, beside = (1000 * best[hangs] for hangs in (False, True))
    print(f"a turn {alone:.1f} ms, beside a model that hangs {beside:.1f} ms: {100 * (beside / alone - 1):+.0f} %")
    print(", ".join(f"{text} {1000 * seconds:.0f} ms at most" for text, seconds in asked.items()))


with tempfile.TemporaryDirectory() as made, running(FakeOpenAIServer(answer)) as server:
    os.environ["HERMES_HOME"] = made
    anyio.run(main, Path(made), server.base_url)
