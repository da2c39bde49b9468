"""Which databases a version reads: asking changes none of them."""

import re
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_lab import migrations
from hermes_lab.config.cron import CronJobConfig
from hermes_lab.cron.jobs import JobStore
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.memory.vector_sqlite import SqliteMemory
from hermes_lab.runners.updates.databases import READERS, unreadable
from hermes_lab.runners.updates.screen import Screen
from hermes_lab.sessions import SessionStore


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """An installation whose program is this package."""
    program = tmp_path / "version" / "bin" / "hermes-lab"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hermes_lab "$@"\n')
    program.chmod(0o755)
    python = program.with_name("python")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return tmp_path / "version"


@pytest.mark.parametrize("config", ["", "a_field_of_a_newer_version: 1\n"])
def test_asking_for_the_jobs_keeps_those_of_the_configuration(tmp_path: Path, version: Path, config: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(config)
    job = CronJobConfig(name="news", schedule="0 9 * * *", prompt="What is new?")
    JobStore(home).add(job, datetime.now(UTC), source="file")
    assert list(unreadable(version, home, Screen(tmp_path / "log", "ab", quiet=True))) == []
    assert [each.name for each in JobStore(home).all()] == ["news"]


def fill(home: Path) -> None:
    """Makes every database of a home."""
    home.mkdir()
    JobStore(home).all()
    GatewayStore(home).allowed()
    SessionStore(home / "sessions.db").latest()
    SqliteMemory(home / "memories.db").count()


def test_a_database_of_a_newer_version_is_named_with_the_reason(tmp_path: Path, version: Path) -> None:
    home = tmp_path / "home"
    fill(home)
    for path in home.glob("*.db"):
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 999")
    said = list(unreadable(version, home, Screen(tmp_path / "log", "ab", quiet=True)))
    assert [line.partition(":")[0] for line in said] == list(READERS)
    assert all("version 999 is newer" in line for line in said), said


def test_databases_that_are_read_are_not_named(tmp_path: Path, version: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    SqliteMemory(home / "memories.db").count()
    assert list(unreadable(version, home, Screen(tmp_path / "log", "ab", quiet=True))) == []


def test_every_database_with_migrations_is_asked_for(tmp_path: Path) -> None:
    """A new user of `open_database` needs a reader here, and its database in `fill`."""
    package = Path(migrations.__file__).parent
    calls = re.compile(r"(?<!def )\bopen_database\(")
    folders = [package, *(each.resolve() for each in package.iterdir() if each.is_symlink())]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    users = [path for path in files if calls.search(path.read_text())]
    fill(tmp_path / "home")
    made = {path.name for path in (tmp_path / "home").glob("*.db")}
    assert made == set(READERS)
    assert len(users) == len(READERS), users
