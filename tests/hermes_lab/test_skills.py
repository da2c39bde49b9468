"""Skills: a checked format, immutable snapshots, and writes that stay apart until a round is merged."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library, merge
from hermes_lab.skills.session import SkillSession
from hermes_lab.types import Skill, SkillEdit, SkillWrite

words = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1).filter(str.strip)
names = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)


def session(library: Library) -> SkillSession:
    return SkillSession(library, origin="review", episode="e", model="m")


def skill(name: str, body: str = "Do it.", **ours: str) -> Skill:
    return skill_format.parse(skill_format.render(name, f"About {name}", body, **ours))


def create(s: SkillSession, name: str, content: str, description: str = "d") -> SkillWrite:
    return s.manage(SkillEdit("create", name, description, content))


def patch(s: SkillSession, name: str, old: str, new: str) -> SkillWrite:
    return s.manage(SkillEdit("patch", name, old_string=old, new_string=new))


@given(name=names, description=words, body=words)
def test_rendering_then_parsing_gives_the_skill_back(name: str, description: str, body: str) -> None:
    parsed = skill_format.parse(skill_format.render(name, description, body))
    assert (parsed.name, parsed.description) == (name, " ".join(description.split()))
    assert skill_format.body(parsed) == body.strip()


@given(name=names, description=words, body=words, other=words)
@settings(max_examples=50)
def test_what_an_agent_writes_passes_the_standards_own_validator(
    name: str, description: str, body: str, other: str
) -> None:
    from skills_ref.parser import parse_frontmatter
    from skills_ref.validator import validate_metadata

    assume("---" not in description + " " + other)
    s = session(Library())
    for write in (create(s, name, body, description), s.manage(SkillEdit("edit", name, other, body))):
        assert validate_metadata(parse_frontmatter(write.text)[0]) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("---\nname: a\ndescription: x --- y\n---\nBody.\n", "---"),
        ("---\nname: a\ndescription: x\nversion: 2\n---\nBody.\n", "version"),
        ("---\nname: a\ndescription: x\nmetadata: {k: &v [v], l: *v}\n---\nBody.\n", "alias"),
        ("---\nname: b\ndescription: x\n---\nBody.\n", "frontmatter says 'b'"),
        ("---\nname: a\ndescription: x\n---\nHalf \ud800.\n", "half a character"),
        ("---\nname: a\ndescription: x\n---\n\n", "no body"),
        ("---\nname: a\ndescription: x\nmetadata: 3\n---\nBody.\n", "metadata"),
        ("---\n" + "[" * 50_000 + "\n---\nBody.\n", "nested"),
    ],
)
def test_what_the_standard_refuses_is_refused_at_once(text: str, what: str) -> None:
    with pytest.raises(ToolError, match=what):
        create(session(Library()), "a", text)


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "A", "a--b", "-a", "", "x" * 65, ".", "a\n", "a\0", "ａ", "é", ".hermes"]
)
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="name"):
        create(session(Library()), name, "body")


def test_a_snapshot_is_its_content_wherever_it_came_from(tmp_path: Path) -> None:
    library = Library([skill("b"), skill("a")])
    library.save(tmp_path / "lib")
    assert Library.load(tmp_path / "lib").snapshot == library.snapshot == Library([skill("a"), skill("b")]).snapshot
    assert library.with_skill(skill("a", "Other.")).snapshot != library.snapshot
    assert Library.unpack(library.pack()).snapshot == library.snapshot
    assert library.without("a").with_skill(skill("a")).snapshot == library.snapshot


def test_a_library_folder_with_a_broken_skill_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text("no frontmatter")
    with pytest.raises(ConfigError, match=r"bad/SKILL\.md"):
        Library.load(tmp_path)


def test_writes_are_seen_in_the_session_and_not_in_the_library() -> None:
    library = Library()
    s = session(library)
    create(s, "house-rules", "One.")
    patch(s, "house-rules", "One.", "Two.")
    assert "Two." in s.view("house-rules").text
    assert not library.skills
    assert [w.action for w in s.writes] == ["create", "patch"]


@pytest.mark.parametrize("name", ["fleet-total", "Fleet Totals", "fleet_totals", "fleet-totals "])
def test_a_near_miss_name_is_resolved(name: str) -> None:
    s = session(Library([skill("fleet-totals"), skill("canteen-hours")]))
    assert s.view(name).name == "fleet-totals"
    assert s.loaded == ["fleet-totals"]


@pytest.mark.parametrize("name", ["weather", "report-c"])
def test_a_name_that_is_like_none_or_like_several_is_not_guessed(name: str) -> None:
    s = session(Library([skill("report-a"), skill("report-b")]))
    with pytest.raises(ToolError, match="report-a, report-b"):
        s.view(name)
    assert s.loaded == []


def test_an_unknown_name_in_a_large_library_is_answered_in_a_few_words() -> None:
    s = session(Library(skill(f"skill-{number}") for number in range(500)))
    with pytest.raises(ToolError) as raised:
        s.view("weather")
    assert len(str(raised.value)) < 1000


def test_creating_what_exists_and_patching_what_does_not_are_errors() -> None:
    s = session(Library([skill("a", "Twice. Twice.")]))
    with pytest.raises(ToolError, match="exists"):
        create(s, "a", "body")
    with pytest.raises(ToolError, match="no skill"):
        patch(s, "b", "x", "y")
    with pytest.raises(ToolError, match="not found"):
        patch(s, "a", "is not there at all", "y")
    with pytest.raises(ToolError, match="found 2 times"):
        patch(s, "a", "Twice.", "y")
    assert not s.writes


def test_writes_merge_in_order() -> None:
    first, second = session(Library()), session(Library())
    create(first, "x", "from the first")
    patch(first, "x", "from the first", "from the first, mended")
    create(second, "y", "only here")
    merged = merge(Library(), [*first.writes, *second.writes])
    assert skill_format.body(merged.skills["x"]) == "from the first, mended"
    assert set(merged.skills) == {"x", "y"}


def test_an_agent_neither_sees_nor_changes_what_is_kept_of_a_skill() -> None:
    kept = skill("a", "One.", origin="installed", source="elsewhere", state="deprecated")
    s = session(Library([kept]))
    assert "hermes" not in skill_format.shown(s.view("a"))
    patch(s, "a", "---\n\nOne.", 'metadata:\n  hermes-pinned: "true"\n  mine: "1"\n---\n\nOne.')
    marks = {"origin": "installed", "source": "elsewhere"}
    assert skill_format.marks(s.library.skills["a"]) == marks, "active again, since it was written anew"
    assert "mine" in s.library.skills["a"].text
    s.manage(
        SkillEdit("edit", "a", content="---\nname: a\ndescription: d\nmetadata: {hermes-origin: user}\n---\nTwo.\n")
    )
    assert skill_format.marks(s.library.skills["a"]) == marks
    create(s, "b", "---\nname: b\ndescription: d\nmetadata:\n  hermes-pinned: 'true'\n---\nTwo.\n")
    assert skill_format.marks(s.library.skills["b"]) == {"origin": "review"}


def test_a_person_may_leave_out_the_quotes_around_true() -> None:
    text = "---\nname: a\ndescription: d\nmetadata:\n  hermes-pinned: true\n---\nBody.\n"
    assert skill_format.pinned(skill_format.parse(text))
    s = session(Library([skill_format.parse(text)]))
    for edit in (SkillEdit("delete", "a"), SkillEdit("write_file", "a", path="references/x.md", content="x")):
        with pytest.raises(ToolError, match="pinned"):
            s.manage(edit)


def test_a_new_body_leaves_the_rest_of_the_frontmatter() -> None:
    text = "---\nname: a\ndescription: d\nlicense: MIT\nmetadata:\n  platforms: macos\n---\nBody.\n"
    s = session(Library([skill_format.parse(text)]))
    s.manage(SkillEdit("edit", "a", content="Other."))
    assert skill_format.frontmatter(s.library.skills["a"]).startswith("name: a\ndescription: d\nlicense: MIT\n")
    assert not s.library.listed


def test_a_whole_skill_with_windows_line_ends_is_a_whole_skill() -> None:
    s = session(Library())
    text = "---\nname: b\ndescription: {}\n---\n\nBody.\n"
    s.manage(SkillEdit("create", "b", content=text.format("x").replace("\n", "\r\n")))
    assert s.library.skills["b"].description == "x"
    s.manage(SkillEdit("edit", "b", content=text.format("y").replace("\n", "\r\n")))
    assert s.library.skills["b"].description == "y"
    assert skill_format.body(s.library.skills["b"]) == "Body."
