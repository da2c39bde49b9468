"""A library on disk: what many processes, crashes, full disks and people's editors do to it."""

import errno
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.stats import Use
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage import cache
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill, SkillEdit, SkillWrite

HERE = Path(__file__).parent
BY = {"episode": "e1", "model": "m"}


def skill(name: str, body: str = "Do it.") -> Skill:
    return skill_format.parse(skill_format.render(name, f"About {name}", body), {"scripts/run.sh": body.encode()})


def edit(store: SkillStore, *args: str, **kwargs: str) -> tuple[Library, SkillWrite]:
    made = [SkillEdit(*args, **kwargs)]  # type: ignore[arg-type]
    library, (write,) = store.commit(made, "review", episode="e1", model="m")
    return library, write


@pytest.fixture
def store(tmp_path: Path) -> SkillStore:
    store = SkillStore(tmp_path / "skills")
    store.change(lambda _: Library([skill("a"), skill("b")]), origin="user", reason="begun")
    return store


def test_a_library_that_is_not_there_is_empty_and_loading_it_leaves_nothing(tmp_path: Path) -> None:
    assert not SkillStore(tmp_path / "none").load().skills
    assert list(tmp_path.iterdir()) == []


def test_a_write_is_on_the_disk_in_the_history_and_among_the_snapshots(store: SkillStore) -> None:
    before = store.load()
    library, write = edit(store, "create", "c", "About c", "Body.")
    assert Library.load(store.root).snapshot == library.snapshot == write.after
    change = list(store.history())[-1]
    assert (change.action, change.name, change.origin, change.episode, change.model) == (
        "create",
        "c",
        "review",
        "e1",
        "m",
    )
    assert (change.before, change.after) == (before.snapshot, library.snapshot)
    assert [change.after for change in store.snapshots()] == [before.snapshot, library.snapshot]
    assert store.at(before.snapshot).skills == before.skills
    assert store.at(Library().snapshot).snapshot == Library().snapshot
    with pytest.raises(ConfigError, match="no snapshot"):
        store.at("0" * 16)


def test_a_refused_edit_leaves_no_trace(store: SkillStore) -> None:
    before = list(store.history())
    with pytest.raises(ToolError):
        edit(store, "patch", "a", old_string="not there at all, nowhere", new_string="x")
    assert list(store.history()) == before


def test_restoring_a_state_stores_no_content_twice(store: SkillStore) -> None:
    first = store.load()
    edit(store, "delete", "a")
    objects = sorted((store.root / ".hermes" / "objects").iterdir())
    change = store.change(lambda _: store.at(first.snapshot), origin="user", reason="restored")
    assert change.after == first.snapshot == Library.load(store.root).snapshot
    assert sorted((store.root / ".hermes" / "objects").iterdir()) == objects
    assert store.change(lambda now: now, origin="user", reason="nothing").before == first.snapshot
    assert list(store.history())[-1] == change, "a change that changes nothing is none"


def test_a_change_that_could_not_be_read_again_is_refused(store: SkillStore) -> None:
    for wrong in (Skill("c", "d", "no frontmatter"), Skill("c", "d", "---\nname: c\n---\nB"), Skill("../c", "d", "x")):
        with pytest.raises(ConfigError):
            store.change(lambda now, wrong=wrong: now.with_skill(wrong), origin="user", reason="wrong")
    assert store.load().snapshot == Library([skill("a"), skill("b")]).snapshot


@pytest.mark.parametrize("fresh", [True, False])
def test_an_edit_by_hand_is_the_users_change_and_is_never_lost(store: SkillStore, fresh: bool) -> None:
    other = SkillStore(store.root) if fresh else store
    path = store.root / "a" / "SKILL.md"
    path.write_text(path.read_text().replace("Do it.", "Mine."))
    (store.root / "b" / "scripts" / "run.sh").write_bytes(b"mine too")
    (store.root / "b" / "notes.md").write_bytes(b"beside")
    Library([skill("c")]).save(store.root.parent / "c")
    (store.root.parent / "c" / "c").rename(store.root / "c")
    edit(other, "create", "d", "About d", "Body.")
    library = store.load()
    assert skill_format.body(library.skills["a"]) == "Mine."
    assert library.skills["b"].files == {"scripts/run.sh": b"mine too", "notes.md": b"beside"}
    made = [(change.action, change.name, change.origin) for change in store.history()][1:]
    user = [("edit", "a", "user"), ("edit", "b", "user"), ("create", "c", "user")]
    assert made == [*user, ("create", "d", "review")]
    shutil.rmtree(store.root / "a")
    assert set(store.load().skills) == {"b", "c", "d"}
    last = list(store.history())[-1]
    assert (last.action, last.name, last.origin) == ("delete", "a", "user")
    assert "Mine." in store.at(last.before).skills["a"].text
    assert list(store.history())[-1] == last, "it is taken down once"


def test_a_folder_that_was_there_before_is_adopted(tmp_path: Path) -> None:
    Library([skill("a"), skill("b")]).save(tmp_path / "skills")
    store = SkillStore(tmp_path / "skills")
    library, _ = edit(store, "patch", "a", old_string="Do it.", new_string="Done.")
    first, second = store.history()
    assert (first.reason, first.origin, second.action) == ("was there already", "user", "patch")
    assert store.at(first.after).snapshot == Library([skill("a"), skill("b")]).snapshot
    assert library.skills["b"] == skill("b")


def test_an_edit_by_hand_in_the_same_tick_with_the_same_length_is_seen(store: SkillStore) -> None:
    path = store.root / "a" / "SKILL.md"
    for number in range(200):
        path.write_text(skill("a", f"{number:03}").text)
        assert skill_format.body(store.load().skills["a"]) == f"{number:03}"


def test_what_is_no_skill_is_left_alone(store: SkillStore) -> None:
    others = [store.root / "README.md", store.root / "a" / ".draft", store.root / "a" / "scripts" / ".keep"]
    for path in others:
        path.write_text("a person's")
    edit(store, "remove_file", "a", path="scripts/run.sh")
    edit(store, "delete", "a")
    assert all(path.read_text() == "a person's" for path in others)
    assert set(store.load().skills) == {"b"}
    edit(store, "create", "a", "About a", "Again.")
    assert others[1].exists()


@pytest.mark.parametrize("fresh", [True, False])
def test_a_broken_skill_is_left_out_and_named_and_nothing_is_written_over_it(store: SkillStore, fresh: bool) -> None:
    path = store.root / "a" / "SKILL.md"
    broken = path.read_text().replace("description: About a", "about: a: b").encode()
    path.write_bytes(broken)
    time.sleep(0.1)  # else it would be read again for its age alone
    other = SkillStore(store.root) if fresh else store
    assert set(other.load().skills) == {"b"}
    assert set(SkillStore(store.root).load().skills) == {"b"}, "not what the cache held"
    assert re.search(
        r"a/SKILL\.md: line 3: .*quotes; fix the file, or use .*: `hermes-lab skills restore a", other.broken()["a"]
    )
    edit(other, "create", "c", "d", "body")
    with pytest.raises(ToolError, match="a person's to mend"):
        edit(other, "create", "a", "d", "body")
    with pytest.raises(ConfigError, match=r"a/SKILL\.md: line 3"):
        other.change(lambda now: now.with_skill(skill("a")), origin="installed", reason="x")
    assert path.read_bytes() == broken
    assert list(other.history())[1].reason == "left out a, whose SKILL.md was broken by hand"
    path.write_text(skill("a", "whole").text)
    assert skill_format.body(store.load().skills["a"]) == "whole"
    assert not store.broken()
    assert set(store.load().skills) == {"a", "b", "c"}


@pytest.mark.parametrize("fails", [False, True])
def test_a_person_puts_the_last_good_version_in_the_place_of_a_broken_one(
    store: SkillStore, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = store.load()
    path = store.root / "a" / "SKILL.md"
    path.write_bytes(b"half an edit \xff")
    (store.root / "a" / "scripts" / "run.sh").write_text("changed")
    store.load()
    if fails:
        with monkeypatch.context() as patched:
            fail_at(4, ("write", "mkdir", "fsync"), patched)
            with pytest.raises(InfraError):
                store.change(lambda _: good, origin="user", reason="restored", over_broken=True)
        assert path.read_bytes() == b"half an edit \xff"
    store.change(lambda _: good, origin="user", reason="restored", over_broken=True)
    assert SkillStore(store.root).load().snapshot == Library.load(store.root).snapshot == good.snapshot
    (kept,) = store.aside.glob("*/a/SKILL.md")
    assert kept.read_bytes() == b"half an edit \xff"


def test_edits_that_are_one_change_are_made_all_or_none(store: SkillStore) -> None:
    file = SkillEdit("write_file", "c", path="scripts/x.sh", content="true")
    before = list(store.history())
    with pytest.raises(ToolError):
        store.commit([SkillEdit("create", "c", "d", "body"), file, file, SkillEdit("patch", "no")], "review", **BY)
    assert list(store.history()) == before
    library, writes = store.commit([SkillEdit("create", "c", "d", "body"), file], "review", **BY)
    assert [write.action for write in writes] == ["create", "write_file"]
    (change,) = list(store.history())[len(before) :]
    assert (change.action, change.name, change.paths) == ("create", "c", ("scripts/x.sh",))
    assert store.load().snapshot == library.snapshot == change.after


def test_a_second_load_reads_no_skill_again(store: SkillStore, monkeypatch: pytest.MonkeyPatch) -> None:
    time.sleep(0.1)  # what was changed just now is not trusted
    store.load()
    read: list[str] = []
    real = cache.read_skill
    monkeypatch.setattr(cache, "read_skill", lambda folder: (read.append(folder.name), real(folder))[1])
    assert store.load().listed.keys() == SkillStore(store.root).load().listed.keys() == {"a", "b"}
    assert read == []
    edit(SkillStore(store.root), "patch", "a", old_string="Do it.", new_string="Done.")
    store.load()
    assert set(read) <= {"a"}


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone"])
def test_a_damaged_cache_is_not_believed(store: SkillStore, damage: str) -> None:
    expected = store.load().snapshot
    path = store.root / ".hermes" / "cache"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"cut": data[:-9], "flipped": data, "empty": b"", "gone": b""}[damage])
    if damage == "gone":
        path.unlink()
    assert SkillStore(store.root).load().snapshot == expected


def test_uses_are_kept_in_their_order_and_a_torn_one_is_none(store: SkillStore) -> None:
    uses = [Use("a", True, "1"), Use("b", None, "2"), Use("a", False, "3")]
    store.note_use(uses[0])
    with (store.root / ".hermes" / "uses.jsonl").open("ab") as file:
        file.write(b'{"name":"torn')
    for use in uses[1:]:
        store.note_use(use)
    assert store.uses() == uses


def test_a_damaged_object_is_said_and_never_taken_for_content(store: SkillStore) -> None:
    first = store.load().snapshot
    path = store.root / ".hermes" / "objects" / store.load().digests["a"]
    path.write_bytes(path.read_bytes().replace(b"Do it.", b"Do at."))
    with pytest.raises(ConfigError, match="damaged"):
        store.at(first)


def test_killed_at_every_step_it_is_the_old_library_or_the_new_one(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "store_crasher.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["patch", "create", "delete", "replace", "over_broken", "by_hand"]
    for operation, *outcomes in lines:
        assert len(outcomes) > 5, operation
        old, new = outcomes[0], outcomes[-1]
        changed = outcomes.index(new)
        assert set(outcomes[:changed]) <= {old}
        assert set(outcomes[changed:]) == {new}


@pytest.mark.parametrize("failing", [("write", "mkdir", "fsync"), ("rename", "unlink")])
def test_a_disk_that_fails_at_any_step_leaves_the_old_library(
    failing: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without room nothing new can be written from some step on; or one rename fails, and the next one works."""
    old, new = Library([skill("a"), skill("b"), skill("c")]), Library([skill("a", "x"), skill("b", "x"), skill("d")])
    for step in count():
        store = SkillStore(tmp_path / f"{step}")
        store.change(lambda _: old, origin="user", reason="begun")
        history = list(store.history())
        with monkeypatch.context() as patched:
            fail_at(step, failing, patched)
            try:
                store.change(lambda _: new, origin="user", reason="all")
                break
            except InfraError:
                pass
        assert SkillStore(store.root).load().snapshot == old.snapshot == Library.load(store.root).snapshot
        assert list(store.history()) == history
    assert step > 3
    assert store.load().snapshot == new.snapshot


def fail_at(step: int, names: tuple[str, ...], patched: pytest.MonkeyPatch) -> None:
    """The disk is full from the `step`th of these calls on; of renames only that one fails."""
    steps = count()

    def failing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "fsync" and not stat.S_ISREG(os.fstat(args[0]).st_mode):
                return real(*args)  # of a folder: needs no room
            number = next(steps)
            if number == step or (number > step and "write" in names):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        return call

    for name in names:
        patched.setattr(os, name, failing(name, getattr(os, name)))


def check_acknowledged(store: SkillStore, lines: list[list[str]]) -> None:
    """Every write that was acknowledged is in the history once, and its content in the library and in a snapshot."""
    changes = list(store.history())
    assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]
    made = Counter((change.before, change.after, change.name) for change in changes)
    library = store.load()
    assert library.snapshot == changes[-1].after == Library.load(store.root).snapshot
    for name, path, before, after in lines:
        if name != "use":
            assert made[before, after, name] == 1
            assert path == "-" or path in library.skills[name].files
    for change in random.Random(0).sample(changes, min(20, len(changes))):
        assert store.at(change.after).snapshot == change.after
    noted = {use.at.replace(" ", "-") for use in store.uses()}
    assert {path for name, path, *_ in lines if name == "use"} <= noted


def test_processes_that_write_at_once_lose_and_tear_nothing_half_of_them_killed(tmp_path: Path) -> None:
    """Eight processes; every second one is killed after a random one of its lines, in whatever it does then."""
    store, times = SkillStore(tmp_path / "skills"), 12
    edit(store, "create", "shared", "Everybody's", "Body.")
    command = [sys.executable, str(HERE / "store_writer.py"), str(store.root)]
    writers = [
        subprocess.Popen([*command, str(number), str(times)], stdout=subprocess.PIPE, text=True) for number in range(8)
    ]
    killed_after = [random.randrange(1, 3 * times) if number % 2 else None for number in range(len(writers))]
    said: list[list[str]] = [[] for _ in writers]

    def drain(number: int) -> None:
        with writers[number] as writer:
            for line in writer.stdout or ():
                said[number].append(line)
                if len(said[number]) == killed_after[number]:
                    writer.kill()

    threads = [threading.Thread(target=drain, args=(number,)) for number in range(len(writers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer, lines, most in zip(writers, said, killed_after, strict=True):
        # One that is to be killed in its last lines may end by itself.
        assert writer.returncode in ((0,) if most is None else (0, -9))
        assert len(lines) == 3 * times if most is None else len(lines) >= most
    check_acknowledged(store, [line.split() for lines in said for line in lines if line.endswith("\n")])
