"""Jobs and runs as people and programs read them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.cron.database import read, written
from hermes_lab.cron.jobs import Job
from hermes_lab.cron.runs import Run
from hermes_lab.cron.ticker import beats

_CHARS = 60


def as_json(job: Job, runs: Sequence[Run]) -> dict[str, Any]:
    """A job with all its fields, and these runs of it."""
    of_time = {"created": written(job.created), "next": next_of(job)}
    state = {"state": job.state, "source": job.source, "origin": job.origin, "folder": job.folder, "done": job.done}
    return {**job.definition.model_dump(), **state, **of_time, "runs": msgspec.to_builtins(list(runs))}


def next_of(job: Job) -> str | None:
    """The next slot in the job's zone, with its offset; None if it has none or is not active."""
    if job.state != "active" or job.next is None:
        return None
    return job.next.astimezone(job.schedule.zone).isoformat(" ")


def job_cells(job: Job, runs: Sequence[Run]) -> tuple[str, ...]:
    """Name, state, schedule, zone, next slot, last run, where the result goes, and what it does."""
    given = job.definition
    last = f"{runs[0].state} {_local(runs[0].slot, job)}" if runs else "-"
    lines = [f"hermes-lab {line.strip().removeprefix('hermes-lab').strip()}" for line in given.command]
    does = given.prompt or "; ".join(lines)
    does = " ".join(does.split())
    does = does if len(does) <= _CHARS else f"{does[: _CHARS - 3]}..."
    next = job.next.astimezone(job.schedule.zone).strftime("%Y-%m-%d %H:%M:%S") if next_of(job) and job.next else "-"
    return job.name, job.state, given.schedule, given.zone, next, last, given.deliver, does


def run_cells(run: Run) -> tuple[str, ...]:
    """Job, slot, state, exit code, seconds, cost, delivery, file of the output, note."""
    numbers = ("-" if run.exit is None else str(run.exit), "-" if run.seconds is None else f"{run.seconds:.1f}")
    cost = "-" if run.cost is None else f"{run.cost:.4f}"
    slot = run.slot.replace(".000Z", "Z")
    return run.job, slot, run.state, *numbers, cost, run.delivery or "-", run.output or "-", run.note or "-"


def ticker_line(home: Path) -> str:
    """Which process runs the jobs, and when it last said that it lives; "" if none does. Blocks."""
    now = datetime.now(UTC)
    living = [beat for beat in beats(home) if beat.lives(now)]
    if not living:
        return ""
    beat = living[0]
    seconds = max((now - beat.beat).total_seconds(), 0)
    return f"process {beat.pid} runs the jobs since {written(beat.since)[:16]}Z; last seen {seconds:.0f} s ago"


def _local(slot: str, job: Job) -> str:
    return read(slot).astimezone(job.schedule.zone).strftime("%Y-%m-%d %H:%M")
