"""The jobs of a Hermes home, in its `cron.db`."""

import math
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from hermes_lab.config.cron import CronJobConfig
from hermes_lab.config.home import HomeConfig
from hermes_lab.config.paths import Problem
from hermes_lab.config.sources import Resolved, origin_of
from hermes_lab.cron.database import opened, read, written
from hermes_lab.cron.schedule import Schedule, machine_zone, parse
from hermes_lab.errors import ConfigError
from hermes_lab.migrations import transaction
from hermes_lab.sessions.keys import SessionKey
from hermes_lab.text.suggest import did_you_mean

State = Literal["active", "paused", "done", "proposed"]
Source = Literal["file", "person", "agent"]
"""Who made a job: `config.yaml`, a person by a command, or the agent."""
FILE = "config.yaml"
_PATH = re.compile(r"(?:/|\./|\.\./|~)")
_PLATFORM = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True)
class Job:
    """A job. `origin` is the key of the chat where it was made, or "". Commands run, and relative paths begin, in
    `folder`. `next` is the next slot, None if there is none; `done` counts the slots that it ran."""

    definition: CronJobConfig
    state: State
    source: Source
    origin: str
    folder: str
    created: datetime
    next: datetime | None
    done: int = 0

    @property
    def name(self) -> str:
        """The name."""
        return self.definition.name

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule."""
        return parse(self.definition.schedule, self.definition.zone, self.created)

    @property
    def target(self) -> str:
        """Where results go: a path, a platform or the key of a chat; "" for their file alone, as where the job was made
        at the terminal or over HTTP, where nobody can be written to."""
        deliver = self.origin if self.definition.deliver == "origin" else self.definition.deliver
        if deliver == "local" or deliver.startswith("cli:"):
            return ""
        if self.definition.deliver == "origin" and deliver.startswith("http:"):
            return ""
        return str(Path(self.folder, Path(deliver).expanduser())) if is_file_target(deliver) else deliver


class JobStore:
    """The jobs of one home. Every call opens the database and blocks: use `anyio.to_thread` in async code.

    `zone` is that of jobs that name none; "": the machine's. Raises `ConfigError`, and `StoreError` if the database
    cannot be used.
    """

    def __init__(self, home: Path, zone: str = "") -> None:
        self.home = home
        self._zone = zone

    def all(self) -> list[Job]:
        """All jobs by name."""
        with opened(self.home) as db:
            return list(map(job_of, db.execute("SELECT * FROM jobs ORDER BY name").fetchall()))

    def find(self, name: str) -> Job:
        """The job of that name."""
        with opened(self.home) as db:
            return _found(db, name)

    def add(
        self,
        definition: CronJobConfig,
        now: datetime,
        *,
        source: Source = "person",
        origin: str = "",
        folder: Path | None = None,
        state: State = "active",
    ) -> Job:
        """Adds a job."""
        job = self._made(definition, now, source, origin, folder, state)
        with opened(self.home) as db, transaction(db):
            if row := db.execute("SELECT * FROM jobs WHERE name = ?", (job.name,)).fetchone():
                raise ConfigError(_taken(job_of(row)))
            _write(db, job)
        return job

    def merge(self, found: Resolved[HomeConfig], now: datetime) -> list[str]:
        """Makes the jobs of `config.yaml` those in the store. Returns what has changed, a line each."""
        for problem in problems_of_jobs(found, now):
            raise ConfigError(problem.message)
        given = found.config.cron
        if not given and not (self.home / "cron.db").exists():
            return []
        changed: list[str] = []
        with opened(self.home) as db, transaction(db):
            stored = {job.name: job for job in map(job_of, db.execute("SELECT * FROM jobs").fetchall())}
            for number, definition in enumerate(given):
                before = stored.get(definition.name)
                if before and before.source != "file":
                    where = origin_of(("cron", str(number)), found.origins)
                    raise ConfigError(f"{where}: cron: {_taken(before)}")
                if before and not (definition.zone or self._zone):  # the machine's, as it was when the job was made
                    definition = definition.model_copy(update={"zone": before.definition.zone})
                job = self._made(definition, now, "file", "", None, "active")
                if before and before.definition == job.definition:
                    continue
                _write(db, _going_on(job, before, now) if before else job)
                changed.append(f"{job.name}: {'changed' if before else 'added'} by {FILE}")
            of_file = {job.name for job in stored.values() if job.source == "file"}
            for name in sorted(of_file - {definition.name for definition in given}):
                db.execute("DELETE FROM jobs WHERE name = ?", (name,))
                changed.append(f"{name}: removed from {FILE}, and here")
        return changed

    def pause(self, name: str) -> Job:
        """Pauses an active job."""
        return self._set(name, ("active",), "paused", None)

    def resume(self, name: str, now: datetime) -> Job:
        """Makes a paused job active again; slots that passed meanwhile are not missed."""
        return self._set(name, ("paused",), "active", now)

    def approve(self, name: str, now: datetime) -> Job:
        """Makes a proposed job active."""
        return self._set(name, ("proposed",), "active", now)

    def remove(self, name: str, *, only: Source | None = None) -> Job:
        """Removes a job; what is known of its runs stays. `only`: one proposed by the agent."""
        with opened(self.home) as db, transaction(db):
            job = _found(db, name)
            if job.source == "file":
                raise ConfigError(f"{name} is a job of {self.home / FILE}: remove it there")
            if only and (job.source != only or job.state != "proposed"):
                raise ConfigError(f"{name} is no proposal: a person removes it")
            db.execute("DELETE FROM jobs WHERE name = ?", (name,))
        return job

    def _made(
        self, given: CronJobConfig, now: datetime, source: Source, origin: str, folder: Path | None, state: State
    ) -> Job:
        definition = given.model_copy(update={"zone": given.zone or self._zone or machine_zone()})
        next = _check(definition, definition.zone, now).after(now)
        if next is None and source != "file":
            raise ConfigError(f"schedule {definition.schedule!r}: this time has passed")
        where = str((folder or self.home).absolute())
        return Job(definition, state if next else "done", source, origin, where, now, next)

    def _set(self, name: str, before: Sequence[State], after: State, now: datetime | None) -> Job:
        with opened(self.home) as db, transaction(db):
            job = _found(db, name)
            if job.state not in before:
                raise ConfigError(f"{name} is {job.state}, not {' or '.join(before)}")
            next = job.schedule.after(now) if now else job.next
            if next is None:
                raise ConfigError(f"{name}: its time, {job.definition.schedule}, has passed")
            db.execute("UPDATE jobs SET state = ?, next = ? WHERE name = ?", (after, written(next), name))
            return _found(db, name)


def jobs_of(home: Path) -> tuple[JobStore, list[str]]:
    """The jobs of a home, with those of its `config.yaml` as they stand there now, and what that has changed, a line
    each. Blocks. Raises `ConfigError`."""
    from hermes_lab.config.home_file import resolve_home

    found = resolve_home(home / FILE, ())
    store = JobStore(home, found.config.user.timezone)
    return store, store.merge(found, datetime.now(UTC))


def problems_of_jobs(found: Resolved[HomeConfig], now: datetime) -> list[Problem]:
    """What is wrong with the schedules, targets and toolsets of the jobs in a `config.yaml`."""
    problems = []
    for number, definition in enumerate(found.config.cron):
        try:
            _check(definition, definition.zone or "UTC", now)
        except ConfigError as error:
            field = f"cron.{number}"
            where = origin_of(("cron", str(number)), found.origins)
            problems.append(Problem(where, field, f"{where}: {field} ({definition.name}): {error}"))
    return problems


def definition_of(**fields: object) -> CronJobConfig:
    """A definition from a person's or the agent's words. Raises `ConfigError` with one line."""
    try:
        return CronJobConfig.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        raise ConfigError(f"{at}: {message}" if at else message) from None


def is_file_target(deliver: str) -> bool:
    """Whether a `deliver` names a file."""
    return _PATH.match(deliver) is not None


def job_of(row: Sequence[object]) -> Job:
    """The job of a row of the table."""
    _, definition, state, source, origin, folder, created, next, done = row
    assert isinstance(definition, bytes)
    parsed = CronJobConfig.model_validate_json(definition)
    at = None if next is None else read(str(next))
    return Job(parsed, state, source, str(origin), str(folder), read(str(created)), at, int(str(done)))  # type: ignore[arg-type]  # as written


def _going_on(job: Job, before: Job, now: datetime) -> Job:
    """A job of the file that was edited: it stays paused, and with the same schedule it goes on counting."""
    paused = before.state == "paused"
    if (job.definition.schedule, job.definition.zone) != (before.definition.schedule, before.definition.zone):
        return replace(job, state="paused" if paused and job.next else job.state)
    next = before.next if before.state in ("active", "paused") else before.schedule.after(now)
    over = next is None or before.done >= (job.definition.repeat or math.inf)
    state: State = "done" if over else "paused" if paused else "active"
    return replace(job, state=state, created=before.created, next=next, done=before.done)


def _write(db: sqlite3.Connection, job: Job) -> None:
    definition, next = job.definition.model_dump_json().encode(), job.next and written(job.next)
    row = (job.name, definition, job.state, job.source, job.origin, job.folder, written(job.created), next, job.done)
    db.execute(f"INSERT OR REPLACE INTO jobs VALUES ({', '.join('?' * len(row))})", row)  # only marks


def _found(db: sqlite3.Connection, name: str) -> Job:
    if row := db.execute("SELECT * FROM jobs WHERE name = ?", (name,)).fetchone():
        return job_of(row)
    names = [str(known) for (known,) in db.execute("SELECT name FROM jobs ORDER BY name")]
    there = f"there are: {', '.join(names)}" if names else "there are none; `hermes-lab cron add` makes one"
    raise ConfigError(f"no job {name!r}{did_you_mean(name, names, there)}")


def _taken(job: Job) -> str:
    made = {
        "file": f"is defined in {FILE}; edit it there",
        "person": "was added by a command",
        "agent": "is a proposal",
    }
    mend = "" if job.source == "file" else "; remove it first, or choose another name"
    return f"a job {job.name!r} {made[job.source]}{mend}"


def _check(definition: CronJobConfig, zone: str, now: datetime) -> Schedule:
    """The schedule of a definition, all of whose fields are right. Raises `ConfigError`."""
    schedule = parse(definition.schedule, zone, now)
    _check_target(definition.deliver)
    if definition.toolsets is not None:
        from hermes_lab.tools.toolbox import check_toolsets

        check_toolsets(definition.toolsets)
    return schedule


def _check_target(deliver: str) -> None:
    if deliver in ("local", "origin") or is_file_target(deliver) or _PLATFORM.fullmatch(deliver):
        return
    try:
        SessionKey.parse(deliver)
    except ConfigError:
        raise ConfigError(
            f"deliver {deliver!r}: give local, origin, a path that begins with ./ or /, a platform such as telegram, "
            "or the key of a chat such as telegram:dm:123"
        ) from None
