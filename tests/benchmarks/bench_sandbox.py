"""What an episode's sandbox costs: CPU milliseconds of this process and of its children, against two bare floors.

An episode: a sandbox opened, a write, three commands, a read, closed. The floors run the same commands in one bash over
pipes, and in one bash inside bwrap with new namespaces and nothing else. The kinds take turns, so that the machine's
load falls on all alike. Run it as `python tests/benchmarks/bench_sandbox.py [episodes] [opened at once]`.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anyio

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import launch, open_sandbox
from hermes_lab.sandbox.spawn import Piped

COMMANDS = ("echo hi > a.txt", "cat a.txt", "ls")
ROUNDS = 5
BACKENDS = {"bubblewrap": SandboxConfig(), "local": SandboxConfig(backend="local", allow_local=True)}
# With --as-pid-1 bwrap waits for its child; without, the CPU time of all that ran inside would be in nobody's account.
NAMESPACES = ("--unshare-all", "--as-pid-1", "--dev-bind", "/", "/")


class Cpu(NamedTuple):
    """Milliseconds, user and system."""

    own: float
    children: float


def cpu() -> Cpu:
    """Of this process so far, and of the children that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Cpu(*(1e3 * (usage.ru_utime + usage.ru_stime) for usage in usages))


async def episode(config: SandboxConfig) -> None:
    """The whole life of a sandbox."""
    async with open_sandbox(config) as sandbox:
        await sandbox.write("in.txt", b"hello\n")
        for command in COMMANDS:
            await sandbox.exec(command)
        await sandbox.read("a.txt")


async def bare(prefix: tuple[str, ...]) -> None:
    """The same commands with nothing around them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(  # noqa: ASYNC220
            [*prefix, "/bin/bash"], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        ) as bash,
    ):
        assert bash.stdin is not None
        assert bash.stdout is not None
        for command in COMMANDS:
            bash.stdin.write(f"{command}\necho DONE\n".encode())
            while b"DONE" not in bash.stdout.read(4096):
                pass
        bash.stdin.close()


async def costs(kinds: dict[str, Callable[[], Awaitable[None]]], episodes: int) -> dict[str, Cpu]:
    """The median over the rounds of what one episode of each kind takes."""
    rounds: dict[str, list[Cpu]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        for name, run in kinds.items():
            before = cpu()
            for _ in range(episodes):
                await run()
            after = cpu()
            rounds[name].append(Cpu(*((new - old) / episodes for new, old in zip(after, before, strict=True))))
    return {name: Cpu(*map(statistics.median, zip(*found, strict=True))) for name, found in rounds.items()}


async def opened_at_once(count: int) -> None:
    """Opens many, each of which runs a command, and tells what they hold and how long a start keeps the loop."""
    memory, starts = _resident_mb(), list[float]()
    start = launch.start

    def timed(*arguments: Any) -> Piped:
        began = time.perf_counter()
        try:
            return start(*arguments)
        finally:
            starts.append(1e3 * (time.perf_counter() - began))

    launch.start = timed
    sandboxes: list[Sandbox] = [open_sandbox(SandboxConfig()) for _ in range(count)]
    limiter = anyio.CapacityLimiter(16)

    async def enter(sandbox: Sandbox) -> None:
        async with limiter:
            await sandbox.__aenter__()
            await sandbox.exec("true")

    async def leave(sandbox: Sandbox) -> None:
        async with limiter:
            await sandbox.__aexit__(None, None, None)

    async with anyio.create_task_group() as tasks:
        for sandbox in sandboxes:
            tasks.start_soon(enter, sandbox)
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    await anyio.sleep(1.5)
    before = cpu()
    await anyio.sleep(5)
    idle = cpu().own - before.own
    print(
        f"{count} at once: {_resident_mb() - memory:.0f} MB more in this process, {descriptors} descriptors, "
        f"{idle / 5:.2f} ms CPU a second while idle, a start keeps the event loop {statistics.median(starts):.1f} ms "
        f"(median; longest {max(starts):.1f})"
    )
    async with anyio.create_task_group() as tasks:
        for sandbox in sandboxes:
            tasks.start_soon(leave, sandbox)


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def main(episodes: int, at_once: int) -> None:
    """Prints a line for each kind, and one for many at once where that was asked."""
    bwrap = launch.find_bwrap(os.environ.get("PATH", os.defpath))
    kinds: dict[str, Callable[[], Awaitable[None]]] = {
        "bare bash": lambda: bare(()),
        "bare bash in namespaces": lambda: bare((bwrap, *NAMESPACES)),
        "local": lambda: episode(BACKENDS["local"]),
        "bubblewrap": lambda: episode(BACKENDS["bubblewrap"]),
    }
    for run in kinds.values():
        await run()
    for name, (own, children) in (await costs(kinds, episodes)).items():
        print(f"{name:<24} {own + children:6.2f} ms CPU an episode   own {own:5.2f}   children {children:5.2f}")
    if at_once:
        await opened_at_once(at_once)


if __name__ == "__main__":
    numbers = [*map(int, sys.argv[1:]), 20, 0]
    anyio.run(main, numbers[0], numbers[1] if len(sys.argv) > 2 else 0)
