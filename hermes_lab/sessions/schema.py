"""The tables, and how an older database becomes a newer one."""

import sqlite3
from collections.abc import Sequence

from hermes_lab.errors import ConfigError
from hermes_lab.sessions.query import cut

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sessions (
            id TEXT PRIMARY KEY, key TEXT NOT NULL, name TEXT UNIQUE, model TEXT NOT NULL, tool_format TEXT NOT NULL,
            tools BLOB NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
            prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0
        ) STRICT""",
        "CREATE INDEX sessions_by_key ON sessions (key, updated)",
        "CREATE INDEX sessions_by_update ON sessions (updated)",
        """CREATE TABLE messages (
            number INTEGER PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
            place INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, record BLOB NOT NULL, created TEXT NOT NULL,
            UNIQUE (session, place)
        ) STRICT""",
        """CREATE TABLE compressions (
            session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, number INTEGER NOT NULL, record BLOB NOT NULL,
            PRIMARY KEY (session, number)
        ) STRICT""",
        """CREATE VIRTUAL TABLE found USING fts5(
            text, content='messages', content_rowid='number', tokenize='unicode61 remove_diacritics 2')""",
        """CREATE TRIGGER message_is_found AFTER INSERT ON messages BEGIN
            INSERT INTO found (rowid, text) VALUES (new.number, new.text); END""",
        """CREATE TRIGGER message_is_gone AFTER DELETE ON messages BEGIN
            INSERT INTO found (found, rowid, text) VALUES ('delete', old.number, old.text); END""",
    ),
    (
        "ALTER TABLE sessions ADD COLUMN opening TEXT NOT NULL DEFAULT ''",
        """UPDATE sessions SET opening = coalesce(
            (SELECT substr(text, 1, 80) FROM messages
             WHERE session = sessions.id AND role = 'user' ORDER BY place LIMIT 1), '')""",
    ),
    (
        "DROP TABLE found",
        "UPDATE messages SET text = cut(text)",
        """CREATE VIRTUAL TABLE found USING fts5(text, content='messages', content_rowid='number',
            tokenize="unicode61 remove_diacritics 2 categories 'L* N* M* Co'")""",
        "INSERT INTO found (found) VALUES ('rebuild')",
    ),
)
"""The statements that lead from each version of the database to the next; released ones are never changed."""


def version(db: sqlite3.Connection) -> int:
    """The version of an open database; 0 is an empty one."""
    number: int = db.execute("PRAGMA user_version").fetchone()[0]
    return number


def migrate(db: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Brings the database to the last version, each step whole or not at all. Hold a lock against other processes.

    Raises `ConfigError` where a later program wrote it.
    """
    if (present := version(db)) > len(migrations):
        raise ConfigError(f"it has version {present}; this Hermes Lab knows {len(migrations)}: update Hermes Lab")
    db.create_function("cut", 1, cut, deterministic=True)
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
