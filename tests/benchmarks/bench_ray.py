"""What a Ray cluster costs a run, and what a second model server gives it.

python tests/benchmarks/bench_ray.py

Overhead: CPU a task of all processes, the cluster's own included, on a cluster of this machine against the local
executor, for tasks that do nothing in a real sandbox. Servers: episodes a second of a run that waits for its
model, with two fake servers of fixed capacity against one.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
from ray.cluster_utils import Cluster

FEW, TASKS, AT_ONCE, TURNS = 100, 1_000, 8, 3
SERVED, SLOTS, SECONDS = 300, 4, 0.2
"""Rollouts of the second part; requests that a server answers at once, and how long each takes."""
RAY = ("/raylet", "/gcs_server", "ray::")


def main() -> None:
    """Prints both tables in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        overhead(Path(folder))
        servers(Path(folder))


def overhead(folder: Path) -> None:
    """CPU a task, here and on a cluster that is up before."""
    cluster = Cluster()
    cluster.add_node(num_cpus=2, include_dashboard=False)
    costs: dict[str, list[Cpu]] = {"local": [], "ray": []}
    try:
        for turn in range(TURNS):
            for name, found in costs.items():
                few, more = (cpu_of(folder, name, cluster.address, turn, number) for number in (FEW, FEW + TASKS))
                # What starting costs is in both.
                found.append(Cpu(*(1000 * (y - x) / TASKS for x, y in zip(few, more, strict=True))))
    finally:
        cluster.shutdown()
    print(f"| executor, medians of {TURNS} | own ms a task | ms of sandboxes |")
    print("|---|---|---|")
    own = {name: median(cpu.own for cpu in found) for name, found in costs.items()}
    for name, found in costs.items():
        print(f"| {name} | {own[name]:.1f} | {median(cpu.children for cpu in found):.1f} |")
    print(f"| ray over local | {own['ray'] - own['local']:+.1f} | |\n")


class Cpu(NamedTuple):
    """Seconds of user and system time: of the processes themselves, and of what they started and waited for."""

    own: float
    children: float


def cpu_of(folder: Path, executor: str, address: str, turn: int, tasks: int) -> Cpu:
    """Of a run with all of its processes, and of the cluster while it runs."""
    out = folder / f"{executor}-{turn}-{tasks}"
    model = ["model.provider=scripted", "model.name=hermes_lab.tasks.learner:noop", "agent.toolsets=[terminal]"]
    where = [f"run.executor={executor}", f"run.concurrency={AT_ONCE}", f"run.ray.address={address}"]
    fields = ["suite.name=ledger", f"suite.count={tasks}", *model, *where]
    command = [sys.executable, "-m", "hermes_lab", "run", *(part for field in fields for part in ("-c", field))]
    before, last = _cluster(), dict[int, Cpu]()
    process = psutil.Popen([*command, "--out", str(out), "--quiet"], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        # Nobody collects a worker's times once it has ended, so they are read while it runs.
        last |= _cluster()
        with suppress(psutil.Error):
            last[process.pid] = _cpu(process.cpu_times())
        time.sleep(0.2)
    for pid, cpu in before.items():
        last[pid] = Cpu(last[pid].own - cpu.own, last[pid].children - cpu.children)
    return Cpu(sum(cpu.own for cpu in last.values()), sum(cpu.children for cpu in last.values()))


def _cluster() -> dict[int, Cpu]:
    """The processes of Ray."""
    return {
        process.pid: _cpu(process.info["cpu_times"])
        for process in psutil.process_iter(["cmdline", "cpu_times"])
        if process.info["cpu_times"] and any(name in " ".join(process.info["cmdline"] or []) for name in RAY)
    }


def _cpu(times: Any) -> Cpu:
    return Cpu(times.user + times.system, times.children_user + times.children_system)


SERVER = f"""
import asyncio, sys
from fakes.openai_server import FakeOpenAIServer
class Slow(FakeOpenAIServer):
    async def _chat(self, request):
        async with slots:
            await asyncio.sleep({SECONDS})
            return await super()._chat(request)
async def main():
    global slots
    slots = asyncio.Semaphore({SLOTS})
    async with Slow(["Done."]) as server:
        print(server.base_url, flush=True)
        await asyncio.sleep(10_000)
asyncio.run(main())
"""


def servers(folder: Path) -> None:
    """Episodes a second with one server and with two."""
    started = [_start() for _ in range(2)]
    try:
        urls = [process.stdout.readline().decode().strip() for process in started if process.stdout]
        rates = [_rate(folder, urls[:number]) for number in (1, 2)]
    finally:
        for process in started:
            process.kill()
    most = SLOTS / SECONDS
    print(f"| servers, each of at most {most:.0f} replies a second | episodes a second | against one |")
    print("|---|---|---|")
    for number, rate in enumerate(rates, 1):
        print(f"| {number} | {rate:.1f} | {rate / rates[0]:.2f} |")


def _start() -> "subprocess.Popen[bytes]":
    tests = Path(__file__).parents[1]
    return subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, cwd=tests)


def _rate(folder: Path, urls: Sequence[str]) -> float:
    tasks = folder / "tasks.jsonl"
    tasks.write_text('{"prompt": "Say it.", "expected_output": "Done."}\n')
    out = folder / f"servers-{len(urls)}"
    fields = [f"suite.path={tasks}", f"run.samples={SERVED}", f"run.concurrency={4 * SLOTS}", "model.name=fake"]
    fields += [f"model.base_url={','.join(urls)}", "agent.toolsets=[terminal]"]
    command = [sys.executable, "-m", "hermes_lab", "run", *(part for field in fields for part in ("-c", field))]
    subprocess.run([*command, "--out", str(out), "--quiet"], check=True, stdout=subprocess.DEVNULL)
    from hermes_lab.analysis.data.load import load_episodes

    frame = load_episodes(out, columns=["started_at", "seconds"])
    begin = min(map(_epoch, frame["started_at"]))
    end = max(_epoch(at) + seconds for at, seconds in zip(frame["started_at"], frame["seconds"], strict=True))
    return SERVED / (end - begin)


def _epoch(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    main()
