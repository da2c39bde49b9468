"""Does a turn take longer in a long session? `python tests/benchmarks/bench_chat.py`.

One chat of a gateway takes TURNS turns whose model answers at once. Milliseconds from a message to its reply, the
median of the first and of the last tenth. The goal is a ratio below 1.5.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.wire import Wire

from hermes_lab.config.home_file import load_home_config
from hermes_lab.gateway.daemon import Gateway

TURNS = 300


async def main(home: Path) -> None:
    wire, taken = Wire(), []
    options = "gateway.options={wire: {allow: [ann]}}"
    sources = ("model={provider: scripted, name: 'fakes.tool_caller:tool_caller'}", options)
    async with anyio.create_task_group() as group:
        group.start_soon(Gateway(load_home_config(home, sources), home, [wire], sources).run)
        for number in range(TURNS):
            started = time.perf_counter()
            await wire.say(f"Message {number}")
            await wire.replies(number + 1)
            taken.append(1000 * (time.perf_counter() - started))
        group.cancel_scope.cancel()
    first, last = (statistics.median(part) for part in (taken[: TURNS // 10], taken[-TURNS // 10 :]))
    print(f"a turn takes {first:.0f} ms at first, {last:.0f} ms after {TURNS}: {last / first:.2f} times")


with tempfile.TemporaryDirectory() as made:
    os.environ["HERMES_HOME"] = made
    anyio.run(main, Path(made))
