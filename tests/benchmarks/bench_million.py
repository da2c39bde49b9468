"""What a run folder of a million episodes takes: time and memory of what is done with it, and how they grow.

python tests/benchmarks/bench_million.py [EPISODES...]      (default: 10000 100000 1000000; 8 GB of disk, some minutes)
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
from bench_resume import episode

from hermes_lab.config.sources import load_config
from hermes_lab.manifest import RunManifest
from hermes_lab.records import write_json
from hermes_lab.types import Message, Trajectory, Verdict

SIZES = (10_000, 100_000, 1_000_000)
LANE = 100
"""Values of experience that a lane goes through."""
LANES = 40
"""In the folder that is fitted, so that it has intervals; a plain run has one."""
COMMANDS = {
    "summary": ["summary", "{run}", "--json"],
    "plan of a resume, all done": ["run", "-c", "{run}.yaml", "--out", "{run}", "--resume", "--quiet"],
    "export (hermes)": ["export", "{run}", "--format", "hermes", "-o", "{run}.out"],
    "fit, with its bootstrap": ["fit", "{run}-lanes", "--json"],
}


class Cost(NamedTuple):
    """Of one process, with whatever it started."""

    seconds: float
    megabytes: float


def line(*, success: bool) -> bytes:
    """An episode of one call, 2 kB."""
    base = episode(0)
    assert base.trajectory is not None
    short = (*base.trajectory.messages[:4], Message("assistant", "Done."))
    steps = base.trajectory.steps[:2]
    trajectory, score = Trajectory(short, (), "native", "answered", steps), float(success)
    verdicts = (Verdict(score, success),)
    told = msgspec.structs.replace(base, trajectory=trajectory, score=score, success=success, verdicts=verdicts)
    return msgspec.json.encode(told) + b"\n"


def write(folder: Path, episodes: int) -> Path:
    """A run folder, and the suite that it is of."""
    run, tasks = folder / f"run-{episodes}", folder / f"tasks-{episodes}.jsonl"
    with tasks.open("w") as file:
        for number in range(episodes):
            file.write(json.dumps({"prompt": f"Say {number}.", "expected_output": f"{number}"}) + "\n")
    sources = [f"suite.path={tasks}", "model.provider=scripted", "model.name=hermes_lab.tasks.learner:noop"]
    Path(f"{run}.yaml").write_text(
        f"suite: {{path: {tasks}}}\nmodel: {{provider: scripted, name: 'hermes_lab.tasks.learner:noop'}}\n"
    )
    config = load_config(sources)
    (run / "episodes").mkdir(parents=True)
    plan = [sys.executable, "-c", _DIGEST, *sources]
    digest = subprocess.run(plan, capture_output=True, text=True, check=True).stdout.split()
    manifest = RunManifest(
        command="run",
        config=config.model_dump(mode="json"),
        config_digest="",
        tasks_digest=digest[0],
        library=digest[1],
        wanted=episodes,
        created_at="",
        versions={},
    )
    write_json(run / "run.json", manifest)
    _log(run, episodes, lanes=1)
    fitted = Path(f"{run}-lanes")
    (fitted / "episodes").mkdir(parents=True)
    write_json(fitted / "run.json", manifest)
    _log(fitted, episodes, lanes=LANES)
    return run


def _log(run: Path, episodes: int, lanes: int) -> None:
    """Outcomes of a curve that rises from 0.2 to 0.8, at a rate of 1/20 a task."""
    draws, halves = random.Random(0), [_split(line(success=success)) for success in (False, True)]
    with (run / "episodes" / "w0-0.jsonl").open("wb") as log:
        for number in range(episodes):
            experience = number % LANE
            solved = draws.random() < 0.2 + 0.6 * (1 - math.exp(-experience / 20))
            lane = b"main" if lanes == 1 else b"on-r%d-w0" % (number // LANE % lanes)
            before, middle, after = halves[solved]
            site = b'"lane":"%b","round":0,"sample":0,"experience":%d,' % (lane, experience)
            log.write(before + b"tasks-%d" % episodes + middle + b"row-%06d" % (number + 1) + b'",' + site + after)


_DIGEST = """
import sys
from hermes_lab.config.sources import load_config
from hermes_lab.skills.library import Library
from hermes_lab.runners.engine.plan import plan_run, tasks_digest
from hermes_lab.tasks import load_suite
config = load_config(sys.argv[1:])
library = Library()
print(tasks_digest(plan_run(config, load_suite(config.suite), library)), library.snapshot)
"""


def _split(whole: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the suite's name, between that and the task's id, and after the experience."""
    start, rest = whole.split(b'"suite":"tasks"', 1)
    _, rest = rest.split(b'"task_id":"', 1)
    _, rest = rest.split(b'"place":', 1)
    return start + b'"suite":"', b'","task_id":"', b'"place":' + rest


def measure(command: list[str]) -> Cost:
    """Runs it to its end."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "hermes_lab", *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(time.monotonic() - began, used.ru_maxrss / 1024)


def main() -> None:
    """Prints a table in Markdown."""
    sizes = [int(arg) for arg in sys.argv[1:]] or list(SIZES)
    costs: dict[str, list[Cost]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            run = write(Path(folder), size)
            for name, command in COMMANDS.items():
                costs[name].append(measure([part.format(run=run) for part in command]))
    print("| | " + " | ".join(f"{size:,} episodes" for size in sizes) + " | growth of the last step |")
    print("|---" * (len(sizes) + 2) + "|")
    for name, found in costs.items():
        cells = [f"{cost.seconds:.1f} s, {cost.megabytes:,.0f} MB" for cost in found]
        growth = found[-1].seconds / found[-2].seconds / (sizes[-1] / sizes[-2]) if len(found) > 1 else 1.0
        print(f"| {name} | {' | '.join(cells)} | {growth:.2f} of linear |")


if __name__ == "__main__":
    main()
