"""The database `cron.db` of a Hermes home: its tables, and the format of times in them."""

import sqlite3
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from hermes_lab.migrations import migrate, open_database

FILE = "cron.db"
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE jobs (
            name TEXT PRIMARY KEY, definition BLOB NOT NULL, state TEXT NOT NULL, source TEXT NOT NULL,
            origin TEXT NOT NULL, folder TEXT NOT NULL, created TEXT NOT NULL, next TEXT,
            done INTEGER NOT NULL DEFAULT 0
        ) STRICT""",
        "CREATE INDEX jobs_by_next ON jobs (state, next)",
        """CREATE TABLE runs (
            number INTEGER PRIMARY KEY, job TEXT NOT NULL, slot TEXT NOT NULL, by_hand INTEGER NOT NULL,
            state TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1, pid INTEGER, claimed TEXT NOT NULL,
            started TEXT, ended TEXT, seconds REAL, exit INTEGER, cost REAL, session TEXT NOT NULL DEFAULT '',
            output TEXT NOT NULL DEFAULT '', target TEXT NOT NULL DEFAULT '', delivery TEXT NOT NULL DEFAULT '',
            note TEXT NOT NULL DEFAULT '', UNIQUE (job, slot)
        ) STRICT""",
        "CREATE INDEX runs_by_state ON runs (state)",
        "CREATE INDEX runs_by_delivery ON runs (delivery)",
        """CREATE TABLE tickers (
            id TEXT PRIMARY KEY, pid INTEGER NOT NULL, since TEXT NOT NULL, beat TEXT NOT NULL
        ) STRICT""",
    ),
)
"""The statements from each version of the database to the next. Never edit a released migration."""


def opened(home: Path) -> AbstractContextManager[sqlite3.Connection]:
    """The database of that home. Raises as `hermes_lab.migrations.open_database`."""
    return open_database(home / FILE, "cron database", len(_MIGRATIONS), lambda db: migrate(db, _MIGRATIONS))


def written(moment: datetime) -> str:
    """A time as it is stored: ISO 8601 in UTC with milliseconds, so that the text sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read(text: str) -> datetime:
    """The time that `written` wrote."""
    return datetime.fromisoformat(text)
