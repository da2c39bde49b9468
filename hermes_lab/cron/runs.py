"""The runs of jobs: every slot of a job is claimed at most once, in one transaction, by whoever comes first.

A claimed run has begun once its output file is locked; the lock ends with the process, or with the command that it
started. So a run under way whose file is not locked was interrupted.
"""

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace as changed

from hermes_lab.cron.database import opened, read, written
from hermes_lab.cron.jobs import Job, JobStore, job_of
from hermes_lab.cron.schedule import COUNTED
from hermes_lab.errors import ConfigError
from hermes_lab.migrations import transaction

RunState = Literal["claimed", "running", "ok", "failed", "timeout", "interrupted", "missed", "skipped"]
"""`claimed` and `running` are under way. `missed`: nothing ran jobs at that time. `skipped`: the run before was still
under way."""
FOLDER = "cron"
_UNDER_WAY = "state IN ('claimed', 'running')"
_TO_SEND = "delivery = iif(target = '', '', 'undelivered')"
_BEGINS_WITHIN = timedelta(minutes=1)
_DELIVERED_WITHIN = timedelta(days=1)


class Run(Struct, frozen=True, kw_only=True):
    """A run, or a slot without one. Times are ISO 8601 in UTC, `cost` that of the model calls. A run `by_hand` (1, else
    0) is no slot of the schedule, its `slot` is when it was asked for.

    `output` is the file with the output. `target` is where the result goes, `delivery` what became of it: "" (nowhere
    to go, or not ended), `undelivered` (not yet: nobody was there who could, or the process died), `delivered` or
    `refused`.
    """

    number: int
    job: str
    slot: str
    by_hand: int
    state: RunState
    attempt: int
    pid: int | None
    claimed: str
    started: str | None
    ended: str | None
    seconds: float | None
    exit: int | None
    cost: float | None
    session: str
    output: str
    target: str
    delivery: str
    note: str


class Claim(NamedTuple):
    """A run to be done by who got it."""

    job: Job
    slot: datetime
    run: Run

    @property
    def output(self) -> Path:
        """The file for its output."""
        return Path(self.run.output)


class Outcome(NamedTuple):
    """How a run ended."""

    state: RunState
    exit: int | None = None
    cost: float | None = None
    session: str = ""
    note: str = ""


class RunStore:
    """The runs of one home. As `JobStore`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._latest: datetime | None = None

    def claim(self, now: datetime, late: timedelta) -> list[Claim]:
        """Claims what is due. A slot is on time until `late` after it; an older one is missed, and only claimed if its
        job says `missed: once`. Of several slots that have passed, only the last can be run."""
        claims: list[Claim] = []
        with opened(self.home) as db, transaction(db):
            if self._latest is None or now < self._latest:
                _set_back(db, now)
            self._latest = now
            due = "SELECT * FROM jobs WHERE state = 'active' AND next <= ? ORDER BY next, name"
            for job in map(job_of, db.execute(due, (written(now),)).fetchall()):
                assert job.next is not None
                number, slot = job.schedule.passed(job.next, now)
                on_time = now - slot <= late
                before = "1,000 or more" if number == COUNTED else number - 1
                note = f"{before} missed before" if number > 1 else ""
                state = "claimed" if on_time or job.definition.missed == "once" else "missed"
                if state == "claimed" and (since := _under_way(db, job.name)):
                    state, note = "skipped", f"the run of {since} was still under way"
                run = self._insert(db, job, slot, now, state, note)
                runs = run is not None and state == "claimed"
                if run is not None and runs:
                    claims.append(Claim(job, slot, run))
                next, done = job.schedule.after(now), job.done + runs
                over = next is None or done == job.definition.repeat
                after = ("done" if over else "active", next and written(next), done, job.name)
                db.execute("UPDATE jobs SET state = ?, next = ?, done = ? WHERE name = ?", after)
        return claims

    def claim_by_hand(self, name: str, now: datetime) -> Claim:
        """Claims a run now, which is no slot of the schedule. Raises `ConfigError` while one is under way, and for a
        job that nobody has approved."""
        job = JobStore(self.home).find(name)
        if job.state == "proposed":
            raise ConfigError(f"{name} is proposed: `hermes-lab cron approve {name}` first")
        with opened(self.home) as db, transaction(db):
            if since := _under_way(db, name):
                raise ConfigError(f"{name}: its run of {since} is still under way")
            run = self._insert(db, job, now, now, "claimed", "", by_hand=True)
        if run is None:
            raise ConfigError(f"{name} has just run")
        return Claim(job, now, run)

    def repeat_interrupted(self, now: datetime) -> list[Claim]:
        """Claims the interrupted runs again whose job says so."""
        claims = []
        with opened(self.home) as db, transaction(db):
            jobs = {job.name: job for job in map(job_of, db.execute("SELECT * FROM jobs").fetchall())}
            for run in _runs(db, "state = 'interrupted' AND NOT by_hand"):
                job = jobs.get(run.job)
                if job is None or job.state not in ("active", "done") or run.attempt > job.definition.retry:
                    continue
                if _under_way(db, run.job):
                    continue
                attempt, slot = run.attempt + 1, read(run.slot)
                output = str(self._output(run.job, slot, attempt))
                db.execute(
                    "UPDATE runs SET state = 'claimed', attempt = ?, output = ?, pid = ?, claimed = ?, started = NULL, "
                    "ended = NULL, seconds = NULL, delivery = '', "
                    "note = 'repeated after an interruption' WHERE number = ?",
                    (attempt, output, os.getpid(), written(now), run.number),
                )
                claims.append(Claim(job, slot, _runs(db, "number = ?", run.number)[0]))
        return claims

    def begin(self, claim: Claim, now: datetime) -> IO[bytes] | None:
        """Begins a claimed run: its open output file, whose lock says that it is under way; None if the claim was
        given up meanwhile."""
        claim.output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.fdopen(os.open(claim.output, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        with opened(self.home) as db, transaction(db):
            begun = db.execute(
                "UPDATE runs SET state = 'running', started = ? WHERE number = ? AND state = 'claimed' AND attempt = ?",
                (written(now), claim.run.number, claim.run.attempt),
            )
            if begun.rowcount:
                return file
        file.close()
        return None

    def finish(self, claim: Claim, outcome: Outcome, now: datetime, seconds: float) -> Run:
        """Records the end of a run."""
        note = "; ".join(filter(None, (claim.run.note, outcome.note)))
        with opened(self.home) as db, transaction(db):
            db.execute(
                f"UPDATE runs SET {_TO_SEND}, state = ?, exit = ?, cost = ?, session = ?, note = ?, ended = ?, "
                "seconds = ? WHERE number = ? AND state IN ('claimed', 'running')",
                (*outcome[:4], note, written(now), round(seconds, 3), claim.run.number),
            )
            return _runs(db, "number = ?", claim.run.number)[0]

    def recover(self, now: datetime) -> list[Run]:
        """Finds the runs that were under way when their process died, and records them as interrupted."""
        found = []
        with opened(self.home) as db:
            for run in _runs(db, _UNDER_WAY):
                if run.state == "running":
                    lost, note = not _locked(Path(run.output)), "its process ended"
                else:
                    late = now - read(run.claimed) > _BEGINS_WITHIN
                    lost, note = late or not _lives(run.pid), "its process ended before it began"
                if lost:
                    note = "; ".join(filter(None, (run.note, note)))
                    changed = db.execute(
                        f"UPDATE runs SET state = 'interrupted', ended = ?, note = ?, {_TO_SEND} "
                        "WHERE number = ? AND state = ?",
                        (written(now), note, run.number, run.state),
                    )
                    if changed.rowcount:
                        found += _runs(db, "number = ?", run.number)
        return found

    def next_slot(self) -> datetime | None:
        """The next slot of all active jobs."""
        with opened(self.home) as db:
            (next,) = db.execute("SELECT min(next) FROM jobs WHERE state = 'active'").fetchone()
        return None if next is None else read(next)

    def latest(self, limit: int = 20, job: str = "") -> list[Run]:
        """The latest runs first, of all jobs or of one."""
        with opened(self.home) as db:
            return _runs(db, "? IN ('', job)", job, tail=f"ORDER BY claimed DESC, number DESC LIMIT {int(limit)}")

    def undelivered(self, now: datetime) -> list[Run]:
        """The results of the last day that are not delivered, without the note why they were kept."""
        with opened(self.home) as db:
            kept = _runs(db, "delivery = 'undelivered' AND ended > ?", written(now - _DELIVERED_WITHIN))
        return [changed(run, note=run.note.partition(_kept_for(run))[0].removesuffix("; ")) for run in kept]

    def note_delivery(self, run: Run, delivery: str, why: str = "") -> bool:
        """Records what became of a run's result, unless another process has delivered it. Returns whether that is
        new."""
        if why:
            why = f"{_kept_for(run) if delivery == 'undelivered' else f'{run.target}: '}{why}"
        note = "; ".join(filter(None, (run.note, why)))
        with opened(self.home) as db, transaction(db):
            updated = db.execute(
                "UPDATE runs SET delivery = ?, note = ? WHERE number = ? AND attempt = ? AND delivery = 'undelivered' "
                "AND (delivery, note) IS NOT (?, ?)",
                (delivery, note, run.number, run.attempt, delivery, note),
            )
        return updated.rowcount > 0

    def _insert(
        self,
        db: sqlite3.Connection,
        job: Job,
        slot: datetime,
        now: datetime,
        state: str,
        note: str,
        by_hand: bool = False,
    ) -> Run | None:
        output = str(self._output(job.name, slot, 1)) if state == "claimed" else ""
        row = (job.name, written(slot), by_hand, state, os.getpid(), written(now), output, job.target, note)
        new = db.execute(
            "INSERT OR IGNORE INTO runs (job, slot, by_hand, state, pid, claimed, output, target, note) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        return _runs(db, "number = ?", new.lastrowid)[0] if new.rowcount else None

    def _output(self, job: str, slot: datetime, attempt: int) -> Path:
        again = f"-{attempt}" if attempt > 1 else ""
        return self.home.absolute() / FOLDER / job / f"{compact(slot)}{again}.txt"


def _set_back(db: sqlite3.Connection, now: datetime) -> None:
    """After a clock that was ahead, jobs go on at the slots that come now. None is claimed twice."""
    waiting = "SELECT * FROM jobs WHERE state = 'active' AND next > ?"
    for job in map(job_of, db.execute(waiting, (written(now),)).fetchall()):
        assert job.next is not None
        created = min(job.created, now)
        next = replace(job, created=created).schedule.after(now)
        if next and next < job.next:
            update = "UPDATE jobs SET created = ?, next = ? WHERE name = ?"
            db.execute(update, (written(created), written(next), job.name))


def compact(slot: datetime) -> str:
    """A slot in a file's name: `20270328T070000Z`."""
    return written(slot).replace("-", "").replace(":", "").replace(".000Z", "Z")


def _kept_for(run: Run) -> str:
    """How the note begins that says why a result is not delivered yet."""
    return f"kept for {run.target}: "


def _runs(db: sqlite3.Connection, condition: str, *values: object, tail: str = "") -> list[Run]:
    query = f"SELECT * FROM runs WHERE {condition} {tail}"  # conditions are literals of this file
    rows: Sequence[Sequence[object]] = db.execute(query, values).fetchall()
    fields = Run.__struct_fields__
    return [Run(**dict(zip(fields, row, strict=True))) for row in rows]  # type: ignore[arg-type]  # as written


def _under_way(db: sqlite3.Connection, job: str) -> str:
    """The slot of the job's run that is under way, or ""."""
    row = db.execute(f"SELECT slot FROM runs WHERE job = ? AND {_UNDER_WAY}", (job,)).fetchone()  # a constant
    return str(row[0]) if row else ""


def _locked(output: Path) -> bool:
    try:
        with output.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _lives(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
