"""Deletes a chat session with all that was kept of what was said."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hermes_lab.chat.reviews import ReviewLog
from hermes_lab.chat.turns import delete_turns
from hermes_lab.config.schema import MemoryConfig
from hermes_lab.memory.stores import open_memory
from hermes_lab.memory.vector import VectorMemory
from hermes_lab.sessions import SessionStore

_FILE = "memories.db"


def delete_session(home: Path, memory: MemoryConfig, session: str) -> None:
    """Deletes a session, its turns, its reviews and the memories of it. What the agent saved as skills and notes stays.

    The session goes last: after a failure it can be deleted again. Raises `ConfigError` if it does not exist or the
    store of `memory.vectors` is not set up, and `StoreError` if a store cannot be written.
    """
    store = SessionStore(home / "sessions.db")
    store.load(session)
    for each in _memories(home, memory):
        with closing(each):
            each.forget([id for id, source in each.held("episodic").items() if source == session])
    ReviewLog(home, session).path.unlink(missing_ok=True)
    delete_turns(home, session)
    store.delete(session)


def _memories(home: Path, config: MemoryConfig) -> Iterator[VectorMemory]:
    """The stores that may hold memories of it: that of the home also if a chat enabled it with `-c`."""
    if (home / _FILE).is_file():
        from hermes_lab.memory.vector_sqlite import SqliteMemory

        yield SqliteMemory(home / _FILE)
    if config.vectors == "postgres" and (configured := open_memory(config, home, os.environ)):
        yield configured
