"""What a rollout costs the harness: 4 requests and 3 tool calls, against bare floors in the same run.

    python tests/benchmarks/bench_rollouts.py

CPU is user and system time of this process and of its children; the model is another process, and not counted.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from floor import bare, in_bwrap
from loopback import serving

WARM_UP, TASKS, AT_ONCE = 100, 1_000, 64
CROWD, LATENCY = 2_000, 0.5
PROCESSES = (1, 2)


def cpu() -> tuple[float, float]:
    """Seconds of this process, and of its children that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


async def harness(url: str, tasks: int, at_once: int, backend: str, skills: int = 0, processes: int = 0) -> float:
    """The same task by the batch runner: agent, tools, sandbox, verifier, durable log; with so many skills in the
    library, and the tools for skills and memory, if any; in so many worker processes, if any, which are warm before
    the tasks begin. Returns the seconds that the tasks took."""
    from hermes_lab.config.digest import config_digest
    from hermes_lab.config.schema import RunConfig
    from hermes_lab.models import open_model
    from hermes_lab.rollout import RolloutContext
    from hermes_lab.runners.engine.batch import run_lanes
    from hermes_lab.runners.engine.budget import Budget
    from hermes_lab.runners.engine.executors import open_executor
    from hermes_lab.runners.engine.plan import plan_run
    from hermes_lab.sandbox import open_sandbox
    from hermes_lab.skills.format import parse, render
    from hermes_lab.skills.library import Library
    from hermes_lab.tasks import load_suite

    with tempfile.TemporaryDirectory() as base:
        data = Path(base) / "tasks.jsonl"
        data.write_text("".join(json.dumps({"prompt": f"Task {n}."}) + "\n" for n in range(tasks)))
        config = RunConfig.model_validate(
            {
                "model": {"name": "fake", "base_url": url},
                "agent": {"toolsets": ["terminal", "skills", "memory"] if skills else ["terminal"]},
                "sandbox": {"backend": backend, "allow_local": backend == "local"},
                "suite": {"path": str(data)},
                "run": {"concurrency": at_once}
                | ({"executor": "processes", "processes": processes} if processes else {}),
            }
        )
        suite = load_suite(config.suite)
        library = Library(
            parse(render(f"skill-{n}", f"How the desk number {n} counts", f"Run: ./count desk-{n}.csv --skip {n}"))
            for n in range(skills)
        )
        errors: list[Any] = []
        async with AsyncExitStack() as stack:
            opened = open_model(
                config.model, tool_format="native", log=Path(base) / "log", concurrency=at_once, say=print
            )
            model = await stack.enter_async_context(opened)
            context = RolloutContext(config, config_digest(config), suite, model, partial(open_sandbox, config.sandbox))
            run_episode = await stack.enter_async_context(open_executor(config, [context], [""], print))
            lanes = plan_run(config, suite, library)
            if processes:
                warm_up = [replace(lane, rounds=(lane.rounds[0][:WARM_UP],)) for lane in lanes]
                await run_lanes([context], warm_up, Path(base), {}, lambda _: None, Budget(), run_episode)
            started = time.perf_counter()
            await run_lanes(
                [context], lanes, Path(base), {}, lambda each: errors.append(each.error), Budget(), run_episode
            )
            seconds = time.perf_counter() - started
        failed = [error for error in errors if error]
        assert not failed, f"{len(failed)} of {tasks}: {failed[0]}"
        assert len(errors) == tasks
        return seconds


KINDS: Mapping[str, Callable[..., Awaitable[object]]] = {
    "floor: bare bash": partial(bare, isolated=False),
    "floor: bash in bwrap": partial(bare, isolated=True),
    "harness: local": partial(harness, backend="local"),
    "harness: bubblewrap": partial(harness, backend="bubblewrap"),
    "harness: bubblewrap, 30 skills and memory": partial(harness, backend="bubblewrap", skills=30),
}


def measure(kind: str, tasks: int, at_once: int, latency: float) -> dict[str, float]:
    """Runs in a process of its own: its children and its memory are those of this kind alone."""
    in_bwrap()  # is looked for once, before anything is measured
    with serving(latency) as url:
        if not latency:
            anyio.run(partial(KINDS[kind], url, WARM_UP, at_once))
        (own, children), started = cpu(), time.perf_counter()
        anyio.run(partial(KINDS[kind], url, tasks, at_once))
        seconds, (own_end, children_end) = time.perf_counter() - started, cpu()
    return {
        "own": 1e3 * (own_end - own) / tasks,
        "children": 1e3 * (children_end - children) / tasks,
        "rate": tasks / seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_its_own_process(kind: str, tasks: int, at_once: int, latency: float) -> dict[str, float]:
    arguments = [sys.executable, __file__, kind, str(tasks), str(at_once), str(latency)]
    done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


async def rate_of(url: str, processes: int) -> float:
    """Tasks a second in so many processes."""
    return TASKS / await harness(url, TASKS, AT_ONCE, "local", processes=processes)


def main() -> None:
    """Prints three tables in Markdown."""
    print(f"CPU of one task, {TASKS} tasks, {AT_ONCE} at once:\n")
    print("| | own ms | children ms | CPU ms a task | tasks/s |\n|---|---|---|---|---|")
    for kind in KINDS:
        got = in_its_own_process(kind, TASKS, AT_ONCE, 0.0)
        total = got["own"] + got["children"]
        print(f"| {kind} | {got['own']:.1f} | {got['children']:.1f} | {total:.1f} | {got['rate']:.0f} |", flush=True)
    print(f"\n{CROWD} rollouts at once, a model that takes {LATENCY * 1e3:.0f} ms:\n")
    print("| | tasks/s | CPU ms a task | peak MB of the process |\n|---|---|---|---|")
    for kind in KINDS:
        got = in_its_own_process(kind, 3 * CROWD, CROWD, LATENCY)
        total = got["own"] + got["children"]
        print(f"| {kind} | {got['rate']:.0f} | {total:.1f} | {got['peak']:.0f} |", flush=True)
    print(f"\nWorker processes (`run.executor: processes`), {AT_ONCE} at once, on {os.cpu_count()} CPUs:\n")
    print("| processes | tasks/s | against one |\n|---|---|---|")
    with serving() as url:
        rates = [anyio.run(rate_of, url, processes) for processes in PROCESSES]
    for processes, rate in zip(PROCESSES, rates, strict=True):
        print(f"| {processes} | {rate:.0f} | {rate / rates[0]:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        name, tasks, at_once, latency = sys.argv[1:]
        print(json.dumps(measure(name, int(tasks), int(at_once), float(latency))))
    else:
        with suppress(KeyboardInterrupt):
            main()
