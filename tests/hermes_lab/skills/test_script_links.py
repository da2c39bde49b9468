"""Links at the top of a library to the scripts of its compiled skills."""

from pathlib import Path

import pytest

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill

CODE = b'def double(n: int) -> int:\n    """Double n."""\n    return 2 * n\n'


def compiled(name: str) -> Skill:
    text = skill_format.render(name.replace("_", "-"), "Doubles.", "Call it.", compiled=name)
    return skill_format.parse(text, {f"scripts/{name}.py": CODE})


def add(store: SkillStore, *skills: Skill) -> None:
    store.change(
        lambda library: library.with_changes({skill.name: skill for skill in skills}), origin="user", reason="test"
    )


def test_there_are_none_unless_they_are_wanted(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    add(store, compiled("double_it"))
    assert not (tmp_path / "skills" / "double_it.py").is_symlink()


def test_each_compiled_skill_has_one_that_goes_with_it(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    store = SkillStore(root)
    add(store, compiled("before"))
    store.link()
    plain = skill_format.parse(skill_format.render("plain", "Plain.", "Text."), {"scripts/plain.py": CODE})
    add(store, compiled("double_it"), plain)
    assert sorted(path.name for path in root.glob("*.py")) == ["before.py", "double_it.py"]
    assert (root / "double_it.py").read_bytes() == CODE
    assert not (root / "double_it.py").readlink().is_absolute()  # it holds where the folder is mounted elsewhere
    store.change(lambda library: library.with_changes({"double-it": None}), origin="user", reason="test")
    assert [path.name for path in root.glob("*.py")] == ["before.py"]


@pytest.mark.parametrize("name", ["../outside/evil", "/outside/evil", "Evil", "a-b", "_evil", "1st", "evil\n"])
def test_a_name_that_is_none_of_a_function_has_no_link(tmp_path: Path, name: str) -> None:
    root, outside = tmp_path / "skills", tmp_path / "outside"
    outside.mkdir()
    store = SkillStore(root)
    store.link()
    skill = skill_format.parse(skill_format.render("evil", "Evil.", "Text.", compiled=name))
    assert skill_format.compiled(skill) == ""
    add(store, skill)
    assert not list(root.glob("*.py"))
    assert not list(outside.iterdir())


def test_a_file_of_that_name_stays_and_links_are_no_part_of_the_library(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    store = SkillStore(root)
    store.link()
    (root / "double_it.py").write_text("mine")
    add(store, compiled("double_it"), compiled("other"))
    assert (root / "double_it.py").read_text() == "mine"
    assert (root / "other.py").is_symlink()
    found = SkillStore(root).load()
    assert isinstance(found, Library)
    assert set(found.skills) == {"double-it", "other"}
    assert not SkillStore(root).broken()
