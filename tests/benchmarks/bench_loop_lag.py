"""How long the event loop stands still while slow tools run beside many rollouts.

python tests/benchmarks/bench_loop_lag.py
"""

import statistics
import time
from functools import partial

import anyio
import loopback
from bench_rollouts import harness

AT_ONCE, TASKS = 64, 256
TICK = 0.002


async def ticking(lags: list[float]) -> None:
    """Milliseconds by which each tick came late."""
    while True:
        due = time.perf_counter() + TICK
        await anyio.sleep(TICK)
        lags.append(1e3 * (time.perf_counter() - due))


async def measure(url: str, backend: str) -> list[float]:
    lags: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(ticking, lags)
        await harness(url, TASKS, AT_ONCE, backend)
        group.cancel_scope.cancel()
    return lags


def main() -> None:
    """Prints a table in Markdown."""
    slow = ("sleep 0.5; echo slow", "head -c 2000000 /dev/zero | tr '\\0' x", "sleep 1")
    print(f"| lag of the event loop, {AT_ONCE} rollouts at once, slow tools | median ms | p99 ms | most ms |")
    print("|---|---|---|---|")
    for backend in ("local", "bubblewrap"):
        with loopback.serving(commands=slow) as url:
            lags = anyio.run(partial(measure, url, backend))
        p99 = statistics.quantiles(lags, n=100)[-1]
        print(f"| {backend} | {statistics.median(lags):.1f} | {p99:.1f} | {max(lags):.0f} |", flush=True)


if __name__ == "__main__":
    main()
