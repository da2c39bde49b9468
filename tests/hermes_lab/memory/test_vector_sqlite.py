"""What only the SQLite store promises: many processes, kill -9, broken files."""

import sqlite3
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.errors import ConfigError, StoreError
from hermes_lab.memory.stores import open_memory
from hermes_lab.memory.vector import Memory
from hermes_lab.memory.vector_sqlite import SqliteMemory

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from hermes_lab.memory.vector import Memory
from hermes_lab.memory.vector_sqlite import SqliteMemory

def row(name, n):
    return Memory.of("episodic", f"{name} wrote the line number {n}", source=name, at=datetime(2026, 2, 1, tzinfo=UTC))

store, name, batches, size = SqliteMemory(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for batch in range(batches):
    store.add([row(name, size * batch + n) for n in range(size)])
    print(batch, flush=True)
"""


def writer(path: Path, name: str, batches: int, size: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, path, name, str(batches), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)


def test_processes_that_write_at_once_lose_nothing_and_a_reader_keeps_in_step(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    reader = SqliteMemory(path)
    writers = [writer(path, f"process {n}", 20, 10) for n in range(4)]
    while any(process.poll() is None for process in writers):
        found = reader.search("wrote the line number", k=1_000, now=NOW)
        assert len({recalled.memory.id for recalled in found}) == len(found)
    for process in writers:
        process.communicate()
    assert [process.returncode for process in writers] == [0] * 4
    assert reader.count() == len(reader.search("wrote the line number", k=1_000, now=NOW)) == 800


@pytest.mark.parametrize("later", [0.0, 0.02, 0.05])
def test_a_killed_writer_leaves_whole_batches(tmp_path: Path, later: float) -> None:
    path = tmp_path / "memories.db"
    process = writer(path, "victim", 1_000_000, 200)
    assert process.stdout is not None
    last = int(process.stdout.readline())
    time.sleep(later)
    process.kill()
    process.communicate()
    store = SqliteMemory(path)
    assert store.count() % 200 == 0
    assert store.count() >= 200 * (last + 1)
    store.add([Memory.of("episodic", "after the crash", source="s", at=NOW)])
    assert store.search("after the crash", k=1, now=NOW)[0].memory.text == "after the crash"


def test_it_is_the_owners_alone_and_made_in_the_home(tmp_path: Path) -> None:
    store = open_memory(MemoryConfig(vectors="sqlite"), tmp_path / "new" / "home", {})
    assert store is not None
    store.add([Memory.of("semantic", "a fact", source="s", at=NOW)])
    [path] = (tmp_path / "new" / "home").glob("*.db")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_off_is_no_store(tmp_path: Path) -> None:
    assert open_memory(MemoryConfig(), tmp_path, {}) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    path.write_text("my diary " * 100)
    with pytest.raises(ConfigError, match=r"memories\.db: not a memory database.*move the file away"):
        SqliteMemory(path).count()
    assert path.read_text() == "my diary " * 100


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    SqliteMemory(path).count()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ConfigError, match=r"memories\.db: database version 99"):
        SqliteMemory(path).count()


def test_a_folder_that_cannot_be_made_is_a_failure_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        SqliteMemory(tmp_path / "file" / "memories.db").count()
