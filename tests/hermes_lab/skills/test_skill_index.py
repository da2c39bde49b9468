"""The index of a library: derived, brought up to date, shared, and searched."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.stats import Use
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.index import Index, index_path
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill, SkillEdit

ABOUT = {
    "fleet-totals": "Add up the distances of a fleet of lorries in miles.",
    "canteen-menu": "Write the menu of the canteen for a week.",
    "disk-full": "Free space on a server whose disk is full.",
}


def skill(name: str, description: str = "", body: str = "Do it.") -> Skill:
    return skill_format.parse(skill_format.render(name, description or ABOUT[name], body))


@pytest.fixture
def store(tmp_path: Path) -> SkillStore:
    store = SkillStore(tmp_path / "skills")
    for name, description in ABOUT.items():
        create(store, name, description)
    return store


def create(store: SkillStore, name: str, description: str) -> None:
    edit = SkillEdit("create", name, description, "## When to use\nOften.\n\n## Pitfalls\n- Haste.")
    store.commit([edit], "review", episode=f"episode of {name}", model="m1")


def later(hours: int) -> str:
    return f"2999-01-01T{hours:02}:00:00+00:00"


def test_a_row_tells_what_the_skill_its_history_and_its_uses_tell(store: SkillStore) -> None:
    for hour, success in enumerate((True, True, False, None)):
        store.note_use(Use("disk-full", success, later(hour)))
    with Index.of(store) as index:
        rows = {entry.name: entry for entry in index.entries()}
    assert list(rows) == sorted(ABOUT)
    row = rows["disk-full"]
    assert (row.triggers, row.pitfalls, row.origin) == ("Often.", ("Haste.",), "review")
    assert (row.episode, row.model, row.created == row.changed) == ("episode of disk-full", "m1", True)
    assert (row.uses, row.judged, row.solved, row.success_rate) == (4, 3, 2, 2 / 3)
    assert row.low is not None
    assert row.high is not None
    assert row.low < 2 / 3 < row.high
    assert row.last_used == later(3)
    unused = rows["canteen-menu"]
    assert (unused.uses, unused.success_rate, unused.low, unused.last_used) == (0, None, None, "")


def test_uses_before_the_last_write_are_of_another_text(store: SkillStore) -> None:
    store.note_use(Use("disk-full", False, "2001-01-01T00:00:00+00:00"))
    with Index.of(store) as index:
        assert {entry.uses for entry in index.entries()} == {0}


def test_deleting_the_file_loses_nothing(store: SkillStore) -> None:
    store.note_use(Use("disk-full", True, later(0)))
    with Index.of(store) as index:
        before = index.entries(), index.search("lorries", 3)
    index_path(store).unlink()
    with Index.of(store) as index:
        assert (index.entries(), index.search("lorries", 3)) == before
    with Index.rebuild(store) as index:
        assert (index.entries(), index.search("lorries", 3)) == before


@pytest.mark.parametrize("damage", [b"no database at all" * 99, b"", None])
def test_a_damaged_file_is_made_anew(store: SkillStore, damage: bytes | None) -> None:
    with Index.of(store) as index:
        before = index.entries()
    path = index_path(store)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if damage is None else damage)
    with Index.of(store) as index:
        assert index.entries() == before


def test_a_change_of_library_history_or_uses_is_seen_at_the_next_opening(store: SkillStore) -> None:
    Index.of(store).close()
    create(store, "new-one", "Something new.")
    store.commit([SkillEdit("delete", "disk-full")], "user", episode="", model="")
    store.note_use(Use("canteen-menu", True, later(0)))
    with Index.of(store) as index:
        rows = {entry.name: entry.uses for entry in index.entries()}
    assert rows == {"canteen-menu": 1, "fleet-totals": 0, "new-one": 0}


def test_nothing_is_read_anew_where_nothing_changed(store: SkillStore, monkeypatch: pytest.MonkeyPatch) -> None:
    Index.of(store).close()
    read: list[str] = []
    monkeypatch.setattr("hermes_lab.skills.storage.index.check_skill", lambda one: read.append(one.name) or [])
    Index.of(store).close()
    assert read == []
    create(store, "new-one", "Something new.")
    Index.of(store).close()
    assert read == ["new-one"]


def test_a_search_finds_by_meaning(store: SkillStore) -> None:
    with Index.of(store) as index:
        for query, name in (("sum of truck mileage", "fleet-totals"), ("meals of a restaurant", "canteen-menu")):
            hits = index.search(query, 2)
            assert hits[0].entry.name == name
            assert len(hits) == 2
            assert hits[0].score >= hits[1].score
        assert index.search("xqzt", 9)[0].score <= 1


def test_an_index_in_memory_leaves_nothing_behind(tmp_path: Path) -> None:
    with Index() as index:
        assert index.search("anything", 3) == []
        index.refresh(Library([skill("disk-full")]), uses=[Use("disk-full", True, later(0))])
        assert [(entry.name, entry.solved) for entry in index.entries()] == [("disk-full", 1)]
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_another_version_is_made_anew(store: SkillStore) -> None:
    Index.of(store).close()
    with sqlite3.connect(index_path(store)) as db:
        db.execute("PRAGMA user_version = 999")
        db.execute("DROP TABLE skills")
    db.close()
    with Index.of(store) as index:
        assert len(index.entries()) == 3


OPENER = """
import sys
from pathlib import Path
from hermes_lab.skills.storage.index import Index
from hermes_lab.skills.storage.store import SkillStore
store = SkillStore(Path(sys.argv[1]))
for _ in range(5):
    with Index.of(store) as index:
        print(len(index.entries()))
"""


def test_many_processes_open_and_refresh_it_at_once(store: SkillStore) -> None:
    command = [sys.executable, "-c", OPENER, str(store.root)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    create(store, "new-one", "Something new.")
    for process in processes:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert set(out.split()) <= {"3", "4"}
    with Index.of(store) as index:
        assert len(index.entries()) == 4
