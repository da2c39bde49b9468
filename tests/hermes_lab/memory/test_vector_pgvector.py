"""What only the PostgreSQL store promises: its index, clear refusals without the password, a server that restarts."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import psycopg
import pytest
from fakes.postgres import Postgres, postgres

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.errors import ConfigError, HermesLabError, StoreError
from hermes_lab.memory import vector_pgvector
from hermes_lab.memory.stores import open_memory
from hermes_lab.memory.vector import Memory
from hermes_lab.memory.vector_pgvector import PgvectorMemory

NOW = datetime(2026, 3, 1, tzinfo=UTC)
_names = (f"memory_{number}" for number in count())


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def lines(*numbers: int) -> list[Memory]:
    return [Memory.of("episodic", f"the line number {n} was written", source=f"s{n}", at=NOW) for n in numbers]


def refused(url: str, kind: type[HermesLabError], says: str) -> str:
    """Opens a store at that URL; gives the one line that it is refused with."""
    with pytest.raises(kind) as caught:
        open_memory(MemoryConfig(vectors="postgres"), Path("/nowhere"), {"HERMES_MEMORY_URL": url})
    message = str(caught.value)
    assert re.search(says, message), message
    assert message.startswith("HERMES_MEMORY_URL: ")
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


def test_the_index_is_made_once_there_is_enough_and_finds_what_a_scan_finds(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_pgvector, "_INDEX_FROM", 50)
    url = server.database(next(_names))
    store = PgvectorMemory(url)

    def indexed() -> bool:
        with psycopg.connect(url) as db:
            found = db.execute("SELECT FROM pg_indexes WHERE indexname = 'hermes_memories_by_meaning'").fetchall()
            return bool(found)

    store.add(lines(*range(49)))
    assert not indexed()
    store.add(lines(49))
    assert indexed()
    store.add(lines(*range(40, 3_000)))
    with psycopg.connect(url) as db:
        plan = db.execute(
            "EXPLAIN SELECT id FROM hermes_memories ORDER BY vector <#> array_fill(0.1, ARRAY[256])::vector LIMIT 100"
        ).fetchall()
    assert "hermes_memories_by_meaning" in str(plan)
    found = store.search("the line number 1234 was written", k=10, now=NOW)
    monkeypatch.setattr(vector_pgvector, "_BY_INDEX", vector_pgvector._BY_INDEX.replace("WHERE", "WHERE false AND"))
    exact = store.search("the line number 1234 was written", k=10, now=NOW)
    assert [recalled.memory.id for recalled in found] == [recalled.memory.id for recalled in exact]
    store.close()


def test_processes_that_open_and_fill_it_at_once_lose_nothing(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_pgvector, "_INDEX_FROM", 200)
    url = server.database(next(_names))

    def fill(number: int) -> None:
        store = PgvectorMemory(url)  # a connection of its own, as another process has
        for start in range(0, 200, 20):
            part = lines(*range(100 * number + start, 100 * number + start + 20))
            store.add(part if number % 2 else part[::-1])
        store.forget([lines(100 * number)[0].id])
        store.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(fill, range(6)))
    store = PgvectorMemory(url)
    gone = {0, 100, 200, 300, 400, 500}
    assert set(store.held("episodic").values()) >= {f"s{n}" for n in range(700) if n not in gone}
    store.close()


def test_a_connection_that_was_lost_is_made_anew(server: Postgres) -> None:
    store = PgvectorMemory(server.database(name := next(_names)), name="MY_URL")
    store.add(lines(1))
    server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    with pytest.raises(StoreError, match="MY_URL: "):
        store.add(lines(2))
    assert store.count() == 1
    store.close()


def test_a_server_without_pgvector_is_told(server: Postgres) -> None:
    url = server.database(name := next(_names))
    server.run(f"ALTER DATABASE {name} SET extension_control_path = '/nowhere'")
    refused(url, ConfigError, "pgvector is not installed on the server")


def test_a_user_without_rights_is_told(server: Postgres) -> None:
    server.run("CREATE ROLE guest LOGIN PASSWORD 'sesame-guest-99'")
    name = next(_names)
    server.database(name)
    message = refused(server.url(name, "guest", "sesame-guest-99"), ConfigError, "permission denied")
    assert "sesame" not in message


def test_the_tables_of_a_later_version_are_refused(server: Postgres) -> None:
    url = server.database(name := next(_names))
    PgvectorMemory(url).close()
    server.run("UPDATE hermes_memory_version SET version = 99", name)
    refused(url, ConfigError, "database version 99 is newer than 1: update Hermes Lab")


def test_a_wrong_password_a_wrong_name_and_a_server_that_is_not_there_are_told_apart(server: Postgres) -> None:
    refused(server.url(password="sesame-guess"), ConfigError, "does not accept user and password")
    refused(server.url("nowhere"), ConfigError, "no such database or user")
    refused("postgresql://a:sesame-guess@127.0.0.1:1/x", StoreError, "no server answers at this URL")
    refused("postgresql://a:sesame-guess@/x?host=/nowhere", StoreError, "no server answers at this URL")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:sesame/77@host/database",
        "postgresql://user:sesame@77@127.0.0.1:1/database",
        "postgresql://user:sesame 77@127.0.0.1:1/database",
        "postgresql://user:%zzsesame77@host/database",
        "postgresql://user:sesame77@[host/database",
        "postgresql://user:a@b:sesame77@127.0.0.1:1/x",
        "sesame 77",
        "host=x password='sesame 77",
        "mysql://user:sesame77@host/database",
        "postgresql://user:pw@host/db?sesame77=1",
    ],
)
def test_a_malformed_url_is_never_quoted(url: str) -> None:
    message = refused(url, HermesLabError, "not a valid URL|no server answers")
    assert "sesame" not in message
    assert "77" not in message


def test_a_url_that_is_not_set_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"memory\.vectors=postgres: set MEMORIES to postgresql://"):
        open_memory(MemoryConfig(vectors="postgres", url_env="MEMORIES"), Path("/nowhere"), {})
