"""Where the results of jobs go."""

import os
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Protocol

from hermes_lab.cron.database import read
from hermes_lab.cron.jobs import Job
from hermes_lab.cron.runs import Claim, Run, compact
from hermes_lab.records import write_atomic

_TAIL_CHARS = 3_000
_CLOCK_SECONDS = 1.0
"""The times of files are that coarse, at most."""


class Deliver(Protocol):
    """Sends a result to a chat platform."""

    async def __call__(self, name: str, target: str, text: str, files: Sequence[Path]) -> None:
        """Sends it, or takes it over. `target`: a platform such as `telegram` (its home chat), or the key of a chat
        such as `telegram:dm:123`. Raises `ConfigError` or `InfraError` if it cannot be sent.

        A call that was under way when the process died is made again, with the same `name`: send a name once.
        """
        ...


def is_path(target: str) -> bool:
    """Whether a target is a file of this machine."""
    return target.startswith("/")


def text_of(job: Job, run: Run) -> str:
    """What is said of a run: the answer to a prompt, or how a command ended and the end of its output. Reads the file
    of its output."""
    path = Path(run.output)
    output = path.read_bytes().decode(errors="replace").strip() if path.is_file() else ""
    if job.definition.prompt and run.state == "ok":
        return output
    code = f", exit code {run.exit}" if run.exit is not None else ""
    head = f"{job.name}: {run.state}{code}, {run.seconds or 0:.0f} s" + (f"; {run.note}" if run.note else "")
    cut = "..." if len(output) > _TAIL_CHARS else ""
    return f"{head}\n{cut}{output[-_TAIL_CHARS:]}".strip()


def files_of(claim: Claim) -> list[Path]:
    """The files that go with a result, as far as the run has written them: a run that failed sends no old ones."""
    patterns = [filled(pattern, claim) for pattern in claim.job.definition.files]
    found = [name for pattern in patterns for name in sorted(glob(os.path.join(claim.job.folder, pattern)))]  # noqa: PTH118, PTH207  # Path.glob refuses absolute patterns
    since = read(claim.run.started).timestamp() - _CLOCK_SECONDS if claim.run.started else 0.0
    return [path for path in map(Path, dict.fromkeys(found)) if path.is_file() and path.stat().st_mtime >= since]


def filled(text: str, claim: Claim) -> str:
    """A text with `{date}` and `{slot}` replaced."""
    day = claim.slot.astimezone(claim.job.schedule.zone).date().isoformat()
    return text.replace("{date}", day).replace("{slot}", compact(claim.slot))


def write_copy(target: str, text: str) -> None:
    """Writes a result to a file. Raises `OSError`."""
    write_atomic(Path(target), text + "\n")
