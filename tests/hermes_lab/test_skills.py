"""Skills: a checked format, immutable snapshots, and writes that stay apart until a round is merged."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library, merge
from hermes_lab.skills.session import SkillSession

words = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1).filter(str.strip)
names = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)


def session(library: Library) -> SkillSession:
    return SkillSession(library, origin="review", episode="e", model="m")


def skill(name: str, body: str = "Do it."):
    return skill_format.parse(skill_format.render(name, f"About {name}", body))


@given(name=names, description=words, body=words)
def test_rendering_then_parsing_gives_the_skill_back(name: str, description: str, body: str) -> None:
    parsed = skill_format.parse(skill_format.render(name, description, body))
    assert (parsed.name, parsed.description) == (name, " ".join(description.split()))
    assert skill_format.body(parsed) == body.strip()


@pytest.mark.parametrize("name", ["../up", "a/b", "A", "a--b", "-a", "", "x" * 65, ".", "a\n"])
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="name"):
        session(Library()).create(name, "d", "body")


def test_a_snapshot_is_its_content_wherever_it_came_from(tmp_path: Path) -> None:
    library = Library([skill("b"), skill("a")])
    library.save(tmp_path / "lib")
    assert Library.load(tmp_path / "lib").snapshot == library.snapshot == Library([skill("a"), skill("b")]).snapshot
    assert library.with_skill(skill("a", "Other.")).snapshot != library.snapshot


def test_a_library_folder_with_a_broken_skill_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text("no frontmatter")
    with pytest.raises(ConfigError, match=r"bad/SKILL\.md"):
        Library.load(tmp_path)


def test_writes_are_seen_in_the_session_and_not_in_the_library() -> None:
    library = Library()
    s = session(library)
    s.create("house-rules", "How", "One.")
    s.patch("house-rules", "One.", "Two.")
    assert "Two." in s.view("house-rules").text
    assert not library.skills
    assert [w.action for w in s.writes] == ["create", "patch"]


def test_a_near_miss_name_is_resolved_and_another_is_not() -> None:
    s = session(Library([skill("fleet-totals"), skill("canteen-hours")]))
    assert s.view("fleet-total").name == "fleet-totals"
    with pytest.raises(ToolError, match="canteen-hours, fleet-totals"):
        s.view("weather")
    assert s.loaded == ["fleet-totals"]


def test_creating_what_exists_and_patching_what_does_not_are_errors() -> None:
    s = session(Library([skill("a")]))
    with pytest.raises(ToolError, match="exists"):
        s.create("a", "d", "body")
    with pytest.raises(ToolError, match="no skill"):
        s.patch("b", "x", "y")
    with pytest.raises(ToolError, match="found 0 times"):
        s.patch("a", "not there", "y")


def test_a_round_merges_in_order_and_the_first_writer_of_a_name_keeps_it() -> None:
    first, second = session(Library()), session(Library())
    first.create("x", "d", "from the first")
    first.patch("x", "from the first", "from the first, mended")
    second.create("x", "d", "from the second")
    second.create("y", "d", "only here")
    merged = merge(Library(), [first.writes, second.writes])
    assert skill_format.body(merged.skills["x"]) == "from the first, mended"
    assert set(merged.skills) == {"x", "y"}
