"""The session database: SQLite with a write-ahead log, shared by any number of processes and threads."""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_lab.errors import ConfigError
from hermes_lab.migrations import open_database, transaction
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.sessions import query as queries
from hermes_lab.sessions import schema
from hermes_lab.sessions.home import hermes_home
from hermes_lab.sessions.keys import SessionKey, check_name, is_id, new_id
from hermes_lab.types import Compression, Message, Usage
from hermes_lab.types.message import Role
from hermes_lab.types.trajectory import ToolFormat

_OPENING_CHARS = 80
_WORDS, _MANY_WORDS = 16, 40
"""Words in a snippet; the second if each letter counts as a word."""
_PLATFORM = "substr(s.key, 1, instr(s.key, ':') - 1)"
_encode = msgspec.json.Encoder().encode
_message = msgspec.json.Decoder(Message).decode
_compression = msgspec.json.Decoder(Compression).decode
_tools = msgspec.json.Decoder(tuple[dict[str, Any], ...]).decode


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A session without its messages.

    `model` is the one it began with, `length` the number of messages, `usage` the sum over all model calls,
    `context_tokens` the tokens of the context after the last turn (0: not known), and `opening` the start of the first
    thing the user typed. Times are ISO 8601 in UTC.
    """

    id: str
    key: str
    name: str
    model: str
    tool_format: ToolFormat
    created: str
    updated: str
    length: int
    usage: Usage
    context_tokens: int
    opening: str


class Session(SessionInfo, frozen=True, kw_only=True):
    """A whole session as its model saw it.

    `messages` begins with the system prompt, `tools` are the schemas that were sent, and `compressions` say which
    messages the model no longer sees (`hermes_lab.transcript.visible`).
    """

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    compressions: tuple[Compression, ...] = ()


class Hit(Struct, frozen=True):
    """A message found by a search. `place` is its index in the session; matches in `snippet` are in brackets."""

    session: str
    name: str
    key: str
    place: int
    role: Role
    created: str
    snippet: str


class SessionStore:
    """All sessions of one database file, by default in the Hermes home; the file is created at first use.

    Every call opens the database and blocks: use `anyio.to_thread` in async code. `append` is one transaction, so a
    killed process leaves only complete appends. Raises `StoreError` if the database cannot be used, and `ConfigError`
    if the file is not one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or hermes_home() / "sessions.db"

    def create(
        self,
        key: SessionKey,
        *,
        model: str,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]],
        tool_format: ToolFormat = "native",
        name: str = "",
        id: str = "",
    ) -> Session:
        """Creates a session with its first messages, usually just the system prompt.

        `id` is an id from `new_id`, if it had to be known before. Raises `ConfigError` for an invalid or taken name.
        """
        now = datetime.now(UTC)
        id, time = id or new_id(now), _text(now)
        checked = check_name(name) if name else None
        columns = (id, str(key), checked, model, tool_format, _encode(tools), time, time, _opening(messages))
        with self._open() as db, transaction(db):
            try:
                db.execute(
                    "INSERT INTO sessions (id, key, name, model, tool_format, tools, created, updated, opening)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    columns,
                )
            except sqlite3.IntegrityError:
                raise ConfigError(
                    f"session name {name!r} is taken; choose another, or rename or delete that session"
                ) from None
            _add_messages(db, id, 0, messages, time)
            return _load(db, id)

    def append(
        self,
        session: Session,
        messages: Sequence[Message],
        *,
        usage: Usage | None = None,
        compressions: Sequence[Compression] = (),
        context_tokens: int = 0,
        typed: str = "",
    ) -> Session:
        """Appends the messages and usage since `session` was loaded. Returns the updated session.

        `context_tokens` are those of the context now, 0 if they are not known. `typed` is what the user typed, if the
        first message also contains a skill or recalled memories. Raises `ConfigError` if another process continued or
        deleted the session meanwhile.
        """
        used, time = usage or Usage(), _text(datetime.now(UTC))
        with self._open() as db, transaction(db):
            _check_unchanged(db, session)
            db.execute(
                "UPDATE sessions SET updated = ?, prompt_tokens = prompt_tokens + ?,"
                " completion_tokens = completion_tokens + ?, context_tokens = ?,"
                " opening = coalesce(nullif(opening, ''), ?) WHERE id = ?",
                (
                    time,
                    used.prompt_tokens,
                    used.completion_tokens,
                    context_tokens,
                    _opening(messages, typed),
                    session.id,
                ),
            )
            _add_messages(db, session.id, session.length, messages, time)
            first = len(session.compressions)
            db.executemany(
                "INSERT INTO compressions VALUES (?, ?, ?)",
                [(session.id, n, _encode(compression)) for n, compression in enumerate(compressions, first)],
            )
            return _load(db, session.id)

    def cut(self, session: Session, length: int) -> Session:
        """Removes the messages from index `length` on, and the compressions made since. Returns the updated session.

        Raises `ConfigError` if another process continued or deleted the session meanwhile.
        """
        with self._open() as db, transaction(db):
            _check_unchanged(db, session)
            db.execute("DELETE FROM messages WHERE session = ? AND place >= ?", (session.id, length))
            kept = sum(compression.at < length for compression in session.compressions)
            db.execute("DELETE FROM compressions WHERE session = ? AND number >= ?", (session.id, kept))
            db.execute(
                "UPDATE sessions SET updated = ?, context_tokens = 0 WHERE id = ?",
                (_text(datetime.now(UTC)), session.id),
            )
            return _load(db, session.id)

    def check(self, session: Session) -> None:
        """Raises `ConfigError` if another process continued or deleted the session since it was loaded."""
        with self._open() as db, transaction(db, "DEFERRED"):
            _check_unchanged(db, session)

    def load(self, id: str) -> Session:
        """The whole session. Raises `ConfigError` if it does not exist."""
        with self._open() as db, transaction(db, "DEFERRED"):
            return _load(db, id)

    def find(self, what: str, *, key: SessionKey | None = None) -> SessionInfo:
        """The session with that name, the latest one with that key (see `latest`), or the one with that id prefix.
        With `key`, only those held there are found.

        Raises `ConfigError` if there is none, or if several ids match.
        """
        what = what.encode(errors="replace").decode()
        if ":" in what:
            found = self.latest(1, key=SessionKey.parse(what))
        else:
            with self._open() as db:
                found = _infos(db, "substr(s.id, 1, length(?1)) = ?1" if is_id(what) else "s.name = ?1", what)
            if not found and what == "cli":  # may also be the name of a session
                found = self.latest(1, key=SessionKey.parse(what))
        if key:
            found = [info for info in found if info.key in key.spellings]
        if not found:
            raise ConfigError(f"no session {what!r}; list them with `hermes-lab sessions list`")
        if len(found) > 1:
            raise ConfigError(f"several sessions begin with {what!r}: {', '.join(info.id for info in found)}")
        return found[0]

    def latest(self, limit: int = 20, *, platform: str = "", key: SessionKey | None = None) -> list[SessionInfo]:
        """The sessions, most recently updated first, of one platform or one key.

        A key without a chat type also finds the chats of every type. One without a thread finds no thread of the chat.
        """
        keys = key.spellings if key else ()
        condition = f"(? = '' OR {_PLATFORM} = ?)" + (f" AND s.key IN ({', '.join('?' * len(keys))})" if keys else "")
        with self._open() as db:
            order = "ORDER BY s.updated DESC, s.id DESC LIMIT ?"
            return _infos(db, f"{condition} {order}", platform, platform, *keys, limit)

    def platforms(self) -> list[str]:
        """The platforms of the stored sessions, in alphabetical order."""
        with self._open() as db:
            return [name for (name,) in db.execute(f"SELECT DISTINCT {_PLATFORM} FROM sessions s ORDER BY 1")]

    def check_platform(self, name: str) -> str:
        """The platform, "" for none. Raises `ConfigError` if it has no sessions, since nothing would be found there."""
        name = name.encode(errors="replace").decode().strip().lower()
        if name and name not in (known := self.platforms()):
            there = ", ".join(known) or "none"
            raise ConfigError(f"platform {name!r}: no sessions are held there; there are sessions of: {there}")
        return name

    def rename(self, id: str, name: str) -> None:
        """Renames the session. Raises `ConfigError` for an invalid or taken name."""
        with self._open() as db:
            try:
                changed = db.execute("UPDATE sessions SET name = ? WHERE id = ?", (check_name(name), id))
            except sqlite3.IntegrityError:
                raise ConfigError(f"session name {name!r} is taken; choose another") from None
        if not changed.rowcount:
            raise _none(id)

    def delete(self, id: str) -> None:
        """Deletes the session and its messages. Raises `ConfigError` if it does not exist."""
        with self._open() as db:
            if not db.execute("DELETE FROM sessions WHERE id = ?", (id,)).rowcount:
                raise _none(id)

    def search(
        self,
        query: str,
        limit: int = 20,
        *,
        role: Role | None = None,
        session: str = "",
        platform: str = "",
        key: SessionKey | None = None,
    ) -> list[Hit]:
        """The matching messages, best first by BM25; system prompts are not searched.

        The query has FTS5 syntax: words, `AND`, `OR`, `NOT`, `"a phrase"`, `prefix*`; malformed queries match all of
        their words. In Chinese, Japanese, Korean, Thai and similar scripts, words match anywhere in a text. `role`,
        `session` (an id), `platform` and `key` filter the messages; a tool result has the role `tool` in every tool
        format.
        """
        query = queries.clean(query)
        select = "SELECT m.session, coalesce(s.name, ''), s.key, m.place, m.role, m.created, {snippet} FROM {tables}"
        where = "JOIN sessions s ON s.id = m.session WHERE (?1 = '' OR m.role = ?1) AND (?2 = '' OR s.id = ?2)"
        keys = key.spellings if key else ()
        where += f" AND (?5 = '' OR {_PLATFORM} = ?5)" + (
            f" AND s.key IN ({', '.join('?' * len(keys))})" if keys else ""
        )
        filters = (role or "", session, limit)
        with self._open() as db:
            sql = f"{select} {where} AND found MATCH ?4 ORDER BY bm25(found), m.number DESC LIMIT ?3".format(
                snippet=f"snippet(found, 0, '[', ']', ' ... ', {_MANY_WORDS if queries.is_cut(query) else _WORDS})",
                tables="found JOIN messages m ON m.number = found.rowid",
            )
            try:
                rows = db.execute(sql, (*filters, query, platform, *keys)).fetchall() if query.strip() else []
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                again = queries.quoted(query)
                rows = db.execute(sql, (*filters, again, platform, *keys)).fetchall() if again else []
        hits = [Hit(*row) for row in rows]
        return [msgspec.structs.replace(hit, snippet=hit.snippet.replace(queries.CUT, "")) for hit in hits]

    def _open(self) -> AbstractContextManager[sqlite3.Connection]:
        return open_database(self.path, "session database", len(schema.MIGRATIONS), schema.migrate)


def _add_messages(db: sqlite3.Connection, id: str, first: int, messages: Sequence[Message], time: str) -> None:
    db.executemany(
        "INSERT INTO messages (session, place, role, text, record, created) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (id, n, _role(message), queries.cut(_searched(message)), _encode(message), time)
            for n, message in enumerate(messages, first)
        ],
    )


def _check_unchanged(db: sqlite3.Connection, session: Session) -> None:
    found = db.execute("SELECT updated FROM sessions WHERE id = ?", (session.id,)).fetchone()
    (length,) = db.execute("SELECT count(*) FROM messages WHERE session = ?", (session.id,)).fetchone()
    # After an undo elsewhere, a session of the same length may hold another conversation.
    if found != (session.updated,) or length != session.length:
        what = "went on" if found else "was deleted"
        raise ConfigError(f"session {session.name or session.id}: it {what} in another process; resume it again")


def _role(message: Message) -> Role:
    """The speaker, independent of the role that the tool format uses on the wire."""
    return "tool" if message.results else message.role


def _opening(messages: Sequence[Message], typed: str = "") -> str:
    said = (message.content for message in messages if _role(message) == "user")
    return (typed or next(said, ""))[:_OPENING_CHARS]


def _searched(message: Message) -> str:
    """The text of a message to index: content without reasoning, and calls.

    System prompts are not indexed, as most sessions share them.
    """
    if message.role == "system":
        return ""
    # In the Hermes text format the content already contains the calls.
    calls = [
        f"{c.name} {c.raw or _encode(c.arguments).decode()}"
        for c in message.tool_calls
        if c.name not in message.content
    ]
    said = split_reasoning(message.content).answer if message.role == "assistant" else message.content
    return "\n".join([said, *calls])


def _load(db: sqlite3.Connection, id: str) -> Session:
    infos = _infos(db, "s.id = ?", id)
    if not infos:
        raise _none(id)
    (tools,) = db.execute("SELECT tools FROM sessions WHERE id = ?", (id,)).fetchone()
    messages = db.execute("SELECT record FROM messages WHERE session = ? ORDER BY place", (id,))
    compressions = db.execute("SELECT record FROM compressions WHERE session = ? ORDER BY number", (id,))
    return Session(
        **msgspec.structs.asdict(infos[0]),
        messages=tuple(_message(record) for (record,) in messages),
        tools=_tools(tools),
        compressions=tuple(_compression(record) for (record,) in compressions),
    )


def _infos(db: sqlite3.Connection, condition: str, *values: object) -> list[SessionInfo]:
    rows = db.execute(
        "SELECT s.id, s.key, coalesce(s.name, ''), s.model, s.tool_format, s.created, s.updated,"
        " (SELECT count(*) FROM messages m WHERE m.session = s.id), s.prompt_tokens, s.completion_tokens,"
        " s.context_tokens, s.opening"
        f" FROM sessions s WHERE {condition}",
        values,
    )
    return [
        SessionInfo(
            id=id,
            key=key,
            name=name,
            model=model,
            tool_format=tool_format,
            created=created,
            updated=updated,
            length=length,
            usage=Usage(prompt, completion),
            context_tokens=context,
            opening=opening,
        )
        for id, key, name, model, tool_format, created, updated, length, prompt, completion, context, opening in rows
    ]


def _none(id: str) -> ConfigError:
    return ConfigError(f"no session {id!r}; list them with `hermes-lab sessions list`")


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
