"""What a sandbox costs, against a bare `bash -c true` in the same run.

Run it as `python tests/benchmarks/bench_sandbox.py`.
"""

import statistics
import subprocess
import time

import anyio

from hermes_lab.config import SandboxConfig
from hermes_lab.sandbox import open_sandbox

REPEATS = 200


class Stopwatch:
    """Milliseconds of one kind of work, over many turns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turns: list[float] = []
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.turns.append(1e3 * (time.perf_counter() - self._started))


async def measure() -> list[Stopwatch]:
    """The three kinds in turn, so that the machine's load falls on all alike."""
    bare, warm, fresh = (
        Stopwatch("bare bash"),
        Stopwatch("exec in a warm sandbox"),
        Stopwatch("fresh sandbox, one exec"),
    )
    config = SandboxConfig()
    async with open_sandbox(config) as sandbox:
        for _ in range(REPEATS):
            with bare:
                subprocess.run(["/bin/bash", "-c", "true"], check=True)  # noqa: ASYNC221
            with warm:
                await sandbox.exec("true")
            with fresh:
                async with open_sandbox(config) as another:
                    await another.exec("true")
    return [bare, warm, fresh]


def main() -> None:
    """Prints a line for each kind: median, least, and the ratio of medians to bare bash."""
    kinds = anyio.run(measure)
    base = statistics.median(kinds[0].turns)
    for kind in kinds:
        median, least = statistics.median(kind.turns), min(kind.turns)
        print(f"{kind.name:<26} median {median:6.2f} ms   min {least:6.2f} ms   {median / base:5.2f} x")


if __name__ == "__main__":
    main()
