"""Which databases a version reads: asking changes none of them."""

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_lab.config.cron import CronJobConfig
from hermes_lab.cron.jobs import JobStore
from hermes_lab.runners.updates.databases import unreadable
from hermes_lab.runners.updates.screen import Screen


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """An installation whose program is this package."""
    program = tmp_path / "version" / "bin" / "hermes-lab"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hermes_lab "$@"\n')
    program.chmod(0o755)
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


def test_a_database_of_a_newer_version_is_named_with_the_reason(tmp_path: Path, version: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    JobStore(home).all()
    with closing(sqlite3.connect(home / "cron.db")) as db:
        db.execute("PRAGMA user_version = 999")
    (said,) = unreadable(version, home, Screen(tmp_path / "log", "ab", quiet=True))
    assert said.startswith("cron.db: ")
    assert "version 999 is newer" in said
