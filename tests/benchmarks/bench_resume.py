"""How long a resume of a 100,000-episode run takes to find out what is owed, against reading the same bytes.

python tests/benchmarks/bench_resume.py
"""

import json
import resource
import tempfile
import time
from pathlib import Path

import msgspec

from hermes_lab.config.schema import RunConfig
from hermes_lab.runners.engine.batch import has_pending, read_done
from hermes_lab.runners.engine.plan import plan_run, tasks_digest
from hermes_lab.runners.engine.tally import Tally
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import (
    Episode,
    Message,
    ModelIdentity,
    SkillUse,
    Step,
    TaskInfo,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
    Verdict,
)

EPISODES = 100_000
OWED = 1_000


def episode(number: int) -> Episode:
    """One of four turns with three tool calls, 5 kB: what the benchmark of rollouts writes."""
    messages = [Message("system", "You are Hermes. " * 60), Message("user", f"Task {number}.")]
    for turn in range(3):
        call = ToolCall(f"c{turn}", "terminal", {"command": "ls -l"})
        content = json.dumps({"output": "total 0\n" * 20, "exit_code": 0})
        messages.append(Message("assistant", "", tool_calls=(call,)))
        messages.append(Message("tool", content, results=(ToolResult(call.id, "terminal", content),)))
    messages.append(Message("assistant", "Done."))
    steps = tuple(Step(2 * turn + 2, "stop", Usage(200, 20), 0.1) for turn in range(4))
    tools = ({"type": "function", "function": {"name": "terminal", "description": "Run a command. " * 20}},)
    return Episode(
        suite="tasks",
        task_id=f"row-{number + 1:06d}",
        lane="main",
        round=0,
        sample=0,
        experience=0,
        place=number,
        status="ok",
        task=TaskInfo("open_ended", "train"),
        model=ModelIdentity("openai", "fake"),
        config_digest="0" * 64,
        started_at="2026-01-01T00:00:00.000+00:00",
        seconds=1.0,
        score=1.0,
        success=True,
        verdicts=(Verdict(1.0, True),),
        trajectory=Trajectory(tuple(messages), tools, "native", "answered", steps, (), Usage(800, 80), "Done."),
        skills=SkillUse(snapshot="0" * 16),
        metrics={"api_calls": 4, "tool_calls": 3, "tool_errors": 0, "first_call_ok": 1.0, "submissions": 1},
    )


def read(path: Path) -> None:
    """All lines, which are thrown away."""
    with path.open("rb") as file:
        for _ in file:
            pass


def main() -> None:
    """Prints a table in Markdown."""
    with tempfile.TemporaryDirectory() as base:
        run = Path(base)
        (run / "episodes").mkdir()
        log = run / "episodes" / "w0-0.jsonl"
        with log.open("wb") as file:
            for number in range(EPISODES - OWED):
                file.write(msgspec.json.encode(episode(number)) + b"\n")
        data = run / "tasks.jsonl"
        data.write_text("".join(json.dumps({"prompt": f"Task {n}."}) + "\n" for n in range(EPISODES)))

        read(log)  # from here on it lies in the page cache
        started = time.perf_counter()
        read(log)
        floor = time.perf_counter() - started

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.perf_counter()
        config = RunConfig.model_validate({"suite": {"path": str(data)}})
        lanes = plan_run(config, load_suite(config.suite), Library())
        tasks_digest(lanes)
        tally = Tally(lanes)
        done = read_done(lanes, run, tally.add)
        assert has_pending(lanes, done)
        seconds = time.perf_counter() - started
        assert len(done) == EPISODES - OWED

        size = log.stat().st_size
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"| resume of {EPISODES:,} episodes ({size / 1e9:.2f} GB) | |\n|---|---|")
        print(f"| plan what is owed | {seconds:.2f} s |")
        print(f"| reading the bytes alone | {floor:.2f} s |")
        print(f"| memory grown by | {grown:.0f} MB |")


if __name__ == "__main__":
    main()
