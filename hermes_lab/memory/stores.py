"""Opens the vector store that the configuration selects."""

from collections.abc import Mapping
from pathlib import Path

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.errors import ConfigError
from hermes_lab.memory.vector import VectorMemory


def open_memory(config: MemoryConfig, home: Path, env: Mapping[str, str]) -> VectorMemory | None:
    """The store that `memory.vectors` selects; None if it is off.

    Raises `ConfigError` and `StoreError` as a store does.
    """
    if config.vectors == "off":
        return None
    if config.vectors == "sqlite":
        from hermes_lab.memory.vector_sqlite import SqliteMemory

        return SqliteMemory(home / "memories.db")
    if not (url := env.get(config.url_env, "")):
        raise ConfigError(f"memory.vectors=postgres: set {config.url_env} to postgresql://user:password@host/database")
    from hermes_lab.memory.vector_pgvector import PgvectorMemory

    return PgvectorMemory(url, name=config.url_env)
