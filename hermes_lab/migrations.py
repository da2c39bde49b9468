"""Schema versions of the SQLite databases."""

import sqlite3
from collections.abc import Sequence

from hermes_lab.errors import ConfigError


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
        db.execute("BEGIN IMMEDIATE")
        try:
            for statement in migrations[number]:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number + 1}")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
