"""Opens the SQLite databases, and brings their schemas to the latest version."""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from hermes_lab.errors import ConfigError, StoreError

_BUSY_SECONDS = 30.0


@contextmanager
def open_database(
    path: Path, kind: str, latest: int, migrate: Callable[[sqlite3.Connection], None]
) -> Iterator[sqlite3.Connection]:
    """The database at `path`, created for its owner alone if missing, at version `latest`.

    Raises `ConfigError` if the file is not a database of that `kind`, `StoreError` if it cannot be read or written.
    """
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as db:
            db.execute("PRAGMA foreign_keys = ON")
            if version(db) != latest:
                _migrate(path, db, migrate)
            yield db
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise ConfigError(f"{path}: not a {kind}, or damaged: {error}; move the file away") from None
        if isinstance(error, sqlite3.OperationalError):
            raise StoreError(f"{path}: {error}") from error
        raise


def _migrate(path: Path, db: sqlite3.Connection, migrate: Callable[[sqlite3.Connection], None]) -> None:
    """One process at a time: SQLite does not wait while another process enables the write-ahead log.

    The lock is a file of its own. Chats lock the folders above their workspace, of which this may be one; and closing
    any descriptor of the database itself would give up SQLite's own locks on it.
    """
    try:
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        db.execute("PRAGMA journal_mode = WAL")
        migrate(db)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    finally:
        os.close(lock)


@contextmanager
def transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commits what is done in it, or nothing."""
    db.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # some failures, such as a full disk, have already rolled back
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def version(db: sqlite3.Connection) -> int:
    """The schema version of an open database; 0 if it is empty."""
    number: int = db.execute("PRAGMA user_version").fetchone()[0]
    return number


def migrate(db: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> None:
    """Migrates the database to the last version, each step in a transaction of its own.

    The caller holds a lock against other processes. Raises `ConfigError` if a newer program wrote the database.
    """
    if (present := version(db)) > len(migrations):
        raise ConfigError(
            f"database version {present} is newer than {len(migrations)}, the latest that this Hermes Lab supports: "
            "update Hermes Lab"
        )
    for number in range(present, len(migrations)):
        with transaction(db):
            for statement in migrations[number]:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number + 1}")
