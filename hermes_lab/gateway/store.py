"""The gateway's database: what has arrived, what is to be sent, and who may write.

A message is in the inbox before it is acknowledged to its platform, and leaves it in the transaction that puts its
reply into the outbox. So a message is answered once, however the daemon ends.
"""

import hashlib
import hmac
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import anyio
import anyio.to_thread

from hermes_lab.gateway.platform import Inbound, Sender
from hermes_lab.migrations import migrate, open_database, transaction
from hermes_lab.sessions import SessionKey

FILE = "gateway.db"
_KEEP_DAYS = 30
State = Literal["waiting", "running", "done"]
T = TypeVar("T")
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # The keys of replies are made of these numbers, so that none may be given twice.
        """CREATE TABLE inbox (
            number INTEGER PRIMARY KEY AUTOINCREMENT, platform TEXT NOT NULL, event TEXT NOT NULL,
            key TEXT NOT NULL DEFAULT '', sender TEXT NOT NULL,
            name TEXT NOT NULL, text TEXT NOT NULL, message TEXT NOT NULL, at REAL NOT NULL,
            state TEXT NOT NULL, session TEXT NOT NULL DEFAULT '', length INTEGER NOT NULL DEFAULT 0,
            acted INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0, UNIQUE (platform, event)
        ) STRICT""",
        "CREATE INDEX inbox_by_state ON inbox (state, number)",
        """CREATE TABLE outbox (
            number INTEGER PRIMARY KEY, platform TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL,
            key TEXT NOT NULL UNIQUE, text TEXT NOT NULL, files TEXT NOT NULL DEFAULT '', reply_to TEXT NOT NULL,
            turn TEXT NOT NULL DEFAULT '', state TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0,
            not_before REAL NOT NULL DEFAULT 0, sent_id TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '',
            at REAL NOT NULL
        ) STRICT""",
        "CREATE INDEX outbox_by_state ON outbox (platform, state, number)",
        "CREATE TABLE allowed (platform TEXT, sender TEXT, at REAL NOT NULL, PRIMARY KEY (platform, sender)) STRICT",
        """CREATE TABLE pairing (
            platform TEXT, sender TEXT, name TEXT NOT NULL, code TEXT NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (platform, sender)
        ) STRICT""",
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, until REAL) STRICT",
    ),
)


class Row(NamedTuple):
    """A message in the inbox. `session` and `length`: the session that it was given to, and how many messages that had.
    `acted`: a tool was called for it. `tries`: how often it was begun, or its chat failed at it."""

    number: int
    platform: str
    event: str
    key: str
    sender: Sender
    text: str
    message: str
    state: State
    session: str
    length: int
    acted: bool
    tries: int

    @property
    def place(self) -> SessionKey:
        """Where it was written."""
        return SessionKey.parse(self.key)


class Letter(NamedTuple):
    """A message in the outbox. `doubtful`: an earlier attempt may have arrived."""

    number: int
    platform: str
    chat: str
    thread: str
    key: str
    text: str
    files: tuple[str, ...]
    reply_to: str
    tries: int
    not_before: float
    doubtful: bool


class Piece(NamedTuple):
    """A message for the outbox. `turn` is the `TurnId` that it answers, for verdicts by reaction; "" if none."""

    place: SessionKey
    text: str
    reply_to: str = ""
    turn: str = ""
    files: tuple[str, ...] = ()


class GatewayStore:
    """The database in a Hermes home. Methods may block for a few milliseconds; `call` runs one in a thread.

    Raises `StoreError` if the database cannot be used, and `ConfigError` if the file is not one.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / FILE

    async def call(self, method: Callable[..., T], *args: Any, **named: Any) -> T:
        """The result of a method, run in a thread. It is not interrupted by a cancellation."""
        return await anyio.to_thread.run_sync(partial(method, *args, **named))

    def accept(self, platform: str, inbound: Inbound, key: SessionKey) -> Row | None:
        """Puts a message into the inbox. None if it is there already."""
        with self._write() as db:
            done = db.execute(
                "INSERT OR IGNORE INTO inbox (platform, event, key, sender, name, text, message, at, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting')",
                (platform, inbound.update, str(key), *inbound.sender, inbound.text, inbound.message, time.time()),
            )
            return _row(db, done.lastrowid) if done.rowcount else None

    def refuse(self, platform: str, update: str) -> bool:
        """Remembers that an event was not for the agent, without its text. False if it is known already."""
        with self._write() as db:
            columns = "(platform, event, sender, name, text, message, at, state)"
            values = (platform, update, time.time())
            done = db.execute(f"INSERT OR IGNORE INTO inbox {columns} VALUES (?, ?, '', '', '', '', ?, 'done')", values)
            return bool(done.rowcount)

    def waiting(self) -> list[Row]:
        """The messages that were not answered, in the order of their arrival."""
        with self._read() as db:
            return [_as_row(each) for each in db.execute(f"{_SELECT} WHERE state <> 'done' ORDER BY number")]

    def begin(self, number: int, session: str, length: int) -> None:
        """Says that the work on a message begins, in a session of that length."""
        with self._write() as db:
            db.execute(
                "UPDATE inbox SET state = 'running', session = ?, length = ?, tries = tries + 1 WHERE number = ?",
                (session, length, number),
            )

    def tried(self, number: int) -> None:
        """Counts a try for a message that was not begun."""
        with self._write() as db:
            db.execute("UPDATE inbox SET tries = tries + 1 WHERE number = ?", (number,))

    def acted(self, number: int) -> None:
        """Says that a tool was called for a message."""
        with self._write() as db:
            db.execute("UPDATE inbox SET acted = 1 WHERE number = ?", (number,))

    def requeue(self, number: int, text: str) -> None:
        """Lets a message wait again, with another text."""
        with self._write() as db:
            db.execute("UPDATE inbox SET state = 'waiting', text = ? WHERE number = ?", (text, number))

    def finish(self, numbers: Sequence[int], pieces: Iterable[Piece] = ()) -> None:
        """Ends messages, and puts the reply to the first of them into the outbox. Their texts are deleted."""
        with self._write() as db:
            marks = ", ".join("?" * len(numbers))
            updated = f"UPDATE inbox SET state = 'done', text = '', name = '' WHERE number IN ({marks})"
            # One that is done was answered by another: never twice.
            if db.execute(f"{updated} AND state <> 'done'", numbers).rowcount:
                _add(db, f"r{numbers[0]}", pieces)

    def post(self, name: str, pieces: Iterable[Piece]) -> None:
        """Puts a message of its own into the outbox; nothing if there was one of that name."""
        with self._write() as db:
            _add(db, name, pieces)

    def letters(self, platform: str) -> list[Letter]:
        """What is to be sent: the next message of each chat. Those of a chat are sent in order."""
        with self._read() as db:
            unsent = "FROM outbox WHERE platform = ? AND state IN ('pending', 'sending')"
            first = f"SELECT min(number) {unsent} GROUP BY chat, thread"
            rows = db.execute(
                "SELECT number, platform, chat, thread, key, text, files, reply_to, tries, not_before, state"
                f" FROM outbox WHERE number IN ({first}) ORDER BY number",
                (platform,),
            )
            return [_as_letter(row) for row in rows]

    def sending(self, letter: Letter) -> bool:
        """Says that a message is being sent. False if it has changed since it was read."""
        with self._write() as db:
            done = db.execute(
                "UPDATE outbox SET state = 'sending', tries = tries + 1 WHERE number = ? AND state = ? AND tries = ?",
                (letter.number, "sending" if letter.doubtful else "pending", letter.tries),
            )
            return bool(done.rowcount)

    def sent(self, number: int, sent_id: str) -> None:
        """Says that a message was sent, under an id of the platform. Its text is deleted."""
        with self._write() as db:
            db.execute("UPDATE outbox SET state = 'sent', text = '', sent_id = ? WHERE number = ?", (sent_id, number))

    def later(self, number: int, not_before: float, why: str, *, doubtful: bool = False) -> None:
        """Says that a message was not sent, or only perhaps, and is tried again from a time on."""
        with self._write() as db:
            values = ("sending" if doubtful else "pending", not_before, why, number)
            db.execute("UPDATE outbox SET state = ?, not_before = ?, why = ? WHERE number = ?", values)

    def dead(self, number: int, why: str) -> None:
        """Says that a message can never be sent."""
        with self._write() as db:
            db.execute("UPDATE outbox SET state = 'dead', text = '', why = ? WHERE number = ?", (why, number))

    def known(self, platform: str, update: str) -> bool:
        """Whether an event was accepted or refused before."""
        with self._read() as db:
            found = db.execute("SELECT 1 FROM inbox WHERE platform = ? AND event = ?", (platform, update))
            return found.fetchone() is not None

    def turn_of(self, platform: str, chat: str, sent_id: str) -> str:
        """The turn that a sent message answered; "" if none."""
        with self._read() as db:
            found = db.execute(
                "SELECT turn FROM outbox WHERE platform = ? AND chat = ? AND sent_id = ? ORDER BY number DESC",
                (platform, chat, sent_id),
            ).fetchone()
            return found[0] if found else ""

    def is_allowed(self, platform: str, sender: str) -> bool:
        """Whether a sender was paired."""
        with self._read() as db:
            values = (platform, sender)
            return db.execute("SELECT 1 FROM allowed WHERE platform = ? AND sender = ?", values).fetchone() is not None

    def allow(self, platform: str, sender: str) -> None:
        """Lets a sender write."""
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO allowed VALUES (?, ?, ?)", (platform, sender, time.time()))
            db.execute("DELETE FROM pairing WHERE platform = ? AND sender = ?", (platform, sender))

    def disallow(self, platform: str, sender: str) -> bool:
        """Takes that back. False if the sender was not paired."""
        with self._write() as db:
            values = (platform, sender)
            return bool(db.execute("DELETE FROM allowed WHERE platform = ? AND sender = ?", values).rowcount)

    def allowed(self) -> list[tuple[str, str]]:
        """The platforms and ids of those who were paired."""
        with self._read() as db:
            return list(db.execute("SELECT platform, sender FROM allowed ORDER BY at"))

    def pairings(self, since: float) -> list[tuple[str, str, str, str]]:
        """Platform, sender, name and code of the requests that were made since."""
        with self._read() as db:
            return list(
                db.execute("SELECT platform, sender, name, code FROM pairing WHERE at >= ? ORDER BY at", (since,))
            )

    def add_pairing(self, platform: str, sender: Sender, code: str, *, since: float, most: int) -> bool:
        """Adds a request with its code. False if the sender has one already, or too many wait."""
        with self._write() as db:
            db.execute("DELETE FROM pairing WHERE at < ?", (since,))
            (waiting,) = db.execute("SELECT count(*) FROM pairing WHERE platform = ?", (platform,)).fetchone()
            if waiting >= most:
                return False
            values = (platform, sender.id, sender.name, code, time.time())
            return bool(db.execute("INSERT OR IGNORE INTO pairing VALUES (?, ?, ?, ?, ?)", values).rowcount)

    def drop_pairings(self) -> None:
        """Drops all requests."""
        with self._write() as db:
            db.execute("DELETE FROM pairing")

    def fact(self, name: str) -> str:
        """A value under a name; "" if there is none."""
        with self._read() as db:
            found = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
            return found[0] if found else ""

    def set_fact(self, name: str, value: str, days: float | None = None) -> None:
        """Stores a value under a name. It is kept for at least `days`; None: for ever."""
        until = None if days is None else time.time() + days * 86_400
        with self._write() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (name, value, until))

    def secret(self) -> bytes:
        """The secret of this home, with which ids are hashed."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO facts VALUES ('secret', ?, NULL)", (os.urandom(32).hex(),))
            (value,) = db.execute("SELECT value FROM facts WHERE name = 'secret'").fetchone()
            return bytes.fromhex(value)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many messages each box has, by state."""
        with self._read() as db:
            return {
                box: dict(db.execute(f"SELECT state, count(*) FROM {box} GROUP BY state"))
                for box in ("inbox", "outbox")
            }

    def forget(self, now: float) -> None:
        """Deletes what ended long ago."""
        with self._write() as db:
            before = now - _KEEP_DAYS * 86_400
            db.execute("DELETE FROM inbox WHERE state = 'done' AND at < ?", (before,))
            db.execute("DELETE FROM outbox WHERE state IN ('sent', 'dead') AND at < ?", (before,))
            db.execute("DELETE FROM facts WHERE until < ?", (now,))

    def _read(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._open("DEFERRED")

    def _write(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._open("IMMEDIATE")

    @contextmanager
    def _open(self, kind: str) -> Iterator[sqlite3.Connection]:
        with open_database(self.path, "gateway database", len(_MIGRATIONS), _migrate) as db, transaction(db, kind):
            yield db


_SELECT = (
    "SELECT number, platform, event, key, sender, name, text, message, state, session, length, acted, tries FROM inbox"
)


def _row(db: sqlite3.Connection, number: int | None) -> Row:
    return _as_row(db.execute(f"{_SELECT} WHERE number = ?", (number,)).fetchone())


def _as_row(found: tuple[Any, ...]) -> Row:
    number, platform, event, key, sender, name, text, message, state, session, length, acted, tries = found
    who = Sender(sender, name)
    return Row(number, platform, event, key, who, text, message, state, session, length, bool(acted), tries)


def _as_letter(found: tuple[Any, ...]) -> Letter:
    number, platform, chat, thread, key, text, files, reply_to, tries, not_before, state = found
    listed = tuple(filter(None, files.split("\n")))
    return Letter(
        number, platform, chat, thread, key, text, listed, reply_to, tries, not_before, doubtful=state == "sending"
    )


def _add(db: sqlite3.Connection, name: str, pieces: Iterable[Piece]) -> None:
    now = time.time()
    for number, piece in enumerate(pieces):
        place = piece.place
        db.execute(
            "INSERT OR IGNORE INTO outbox (platform, chat, thread, key, text, files, reply_to, turn, state, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?)",
            (
                *(place.platform, place.chat, place.thread, f"{name}-{number}", piece.text, "\n".join(piece.files)),
                *(piece.reply_to, piece.turn, now),
            ),
        )


def _migrate(db: sqlite3.Connection) -> None:
    migrate(db, _MIGRATIONS)


class Ids:
    """Hides ids: a short hash under the secret of a home, the same in every log and prompt."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def __call__(self, platform: str, id: str) -> str:
        """What stands for an id."""
        return "u" + hmac.new(self._secret, f"{platform}:{id}".encode(), hashlib.sha256).hexdigest()[:10]
