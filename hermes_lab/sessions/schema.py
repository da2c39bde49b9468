"""The tables of the session database and their migrations."""

import sqlite3
from collections.abc import Sequence

from hermes_lab.migrations import migrate as run_migrations
from hermes_lab.sessions.query import cut

_CUT_AGAIN = "cut(replace(replace(text, char(8203, 65438), char(65438)), char(8203, 65439), char(65439)))"
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
    ("UPDATE sessions SET key = replace(key, '%', '%25') WHERE instr(key, '%')",),
    (
        "DROP TABLE found",
        # An earlier `cut` parted half-width kana from their voicing marks, which join them in the usual width.
        f"UPDATE messages SET text = {_CUT_AGAIN} WHERE text <> {_CUT_AGAIN}",
        """CREATE VIRTUAL TABLE found USING fts5(text, content='messages', content_rowid='number',
            tokenize="unicode61 remove_diacritics 2 categories 'L* N* M* Co'")""",
        "INSERT INTO found (found) VALUES ('rebuild')",
    ),
    ("ALTER TABLE sessions ADD COLUMN context_tokens INTEGER NOT NULL DEFAULT 0",),
)
"""The statements from each version of the database to the next. Never edit a released migration."""


def migrate(db: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """See `hermes_lab.migrations.migrate`; the migrations here need the SQL function `cut`."""
    db.create_function("cut", 1, cut, deterministic=True)
    run_migrations(db, migrations)
