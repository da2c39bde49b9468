"""What a task costs to draw, and a verification beyond the commands that it runs.

python tests/benchmarks/bench_suites.py [family ...]

The floor of drawing is to make the text of the same tasks from a template with one hash each, and to encode it as JSON:
no generator that gives so many bytes is faster.
"""

import hashlib
import statistics
import sys
import time
from collections.abc import Callable

import anyio
import msgspec

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import ExecResult, Workspace
from hermes_lab.rollout import setup_workspace
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks.admission import visible
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import domains, load_family
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Task

WORLDS, EACH, JUDGED, AGAIN = 10, 50, 3, 5


def cpu(work: Callable[[], object]) -> float:
    """Seconds of this process's own time."""
    started = time.process_time()
    work()
    return time.process_time() - started


def draw(suite: WorldSuite) -> list[Task]:
    """Tasks of several worlds, which are drawn too."""
    return [t for w in range(WORLDS) for t in suite.load(split="train", count=EACH, seed=1, world=w)]


def floor(tasks: list[Task]) -> None:
    """The same bytes without a generator: a hash for each task, and its text encoded."""
    for task in tasks:
        hashlib.sha256(task.id.encode()).digest()
        msgspec.json.encode(visible(task))


class Clocked:
    """A workspace that counts the seconds of its commands."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.seconds = 0.0

    async def read(self, path: str, limit: int = 10_000_000) -> bytes:
        """Not a command."""
        return await self.workspace.read(path, limit)

    async def write(self, path: str, data: bytes) -> None:
        """Not a command."""
        await self.workspace.write(path, data)

    async def exec(self, command: str, timeout: float = 180.0, workdir: str = "", fresh: bool = False) -> ExecResult:
        """A command."""
        started = time.perf_counter()
        result = await self.workspace.exec(command, timeout, workdir, fresh)
        self.seconds += time.perf_counter() - started
        return result


async def judge(suite: WorldSuite) -> tuple[float, float]:
    """Median milliseconds of a verification of solved work: in the harness, and in its commands."""
    own, commands = [], []
    for task in suite.load(split="train", count=JUDGED, seed=1, world=0):
        async with open_sandbox(SandboxConfig()) as sandbox:
            await setup_workspace(task, sandbox)
            await play(suite.oracle(task), task, sandbox)
            for _ in range(AGAIN):
                clocked = Clocked(sandbox)
                started = time.perf_counter()
                verdict = await suite.verify(task, clocked, "Done.")
                spent = time.perf_counter() - started
                assert verdict.score == 1.0
                own.append(1e3 * (spent - clocked.seconds))
                commands.append(1e3 * clocked.seconds)
    return statistics.median(own), statistics.median(commands)


def main(names: list[str]) -> None:
    """Prints a table in Markdown."""
    print("| family | tasks/s of a core | floor | KB a task | ms to verify, beyond commands | ms of its commands |")
    print("|---|---|---|---|---|---|")
    for name in names or [family for families in domains().values() for family in families]:
        suite = WorldSuite(name, (load_family(name),), WorldSpec())
        tasks: list[Task] = []
        seconds = cpu(lambda suite=suite, tasks=tasks: tasks.extend(draw(suite)))  # type: ignore[misc]
        least = cpu(lambda tasks=tasks: floor(tasks))  # type: ignore[misc]
        size = statistics.mean(len(msgspec.json.encode(visible(task))) for task in tasks) / 1000
        own, commands = anyio.run(judge, suite)
        count = len(tasks)
        print(f"| {name} | {count / seconds:,.0f} | {count / least:,.0f} | {size:.1f} | {own:.1f} | {commands:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
