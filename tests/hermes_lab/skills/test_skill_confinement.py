"""No path, link, name or spelling leads out of a skill's folder; what is written can be read; a record replays."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.manage import apply
from hermes_lab.skills.storage.folder import Transfer, files_of
from hermes_lab.types import Skill, SkillEdit

NASTY = st.sampled_from(
    [
        "..",
        ".",
        "",
        "~",
        "x~",
        ".git",
        "__pycache__",
        "SKILL.md",
        "skill.MD",
        "\0",
        "a\\b",
        "e\u0301",
        "é",
        "\u202e",
        "A",
        "a",
    ]
)
PART = NASTY | st.text(max_size=12) | st.sampled_from(skill_format.FOLDERS)
ANY = st.lists(PART, min_size=1, max_size=5).map("/".join)
PATHS = ANY | st.builds("{}/{}".format, st.sampled_from(skill_format.FOLDERS), ANY)


def skill(name: str, files: dict[str, bytes] | None = None) -> Skill:
    return skill_format.parse(skill_format.render(name, "d", "Body."), files)


@given(path=PATHS)
@example(path="references/../../../etc/passwd")
@example(path="/etc/passwd")
@example(path="references/" + "x" * 300)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_path_is_refused_or_lies_in_the_folder_and_is_read_back(
    path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = Library([skill("a")])
    try:
        after, _ = apply(
            library, SkillEdit("write_file", "a", path=path, content="x"), origin="review", episode="", model=""
        )
    except ToolError:
        return
    root = tmp_path_factory.mktemp("confined")
    after.save(root / "lib")
    assert (root / "lib" / "a" / path).resolve().is_relative_to((root / "lib" / "a").resolve())
    assert {p for p in root.rglob("*") if p.is_file()} == {root / "lib/a/SKILL.md", root / "lib/a" / path}
    assert Library.load(root / "lib").snapshot == after.snapshot


@pytest.mark.parametrize(
    "path", ["../b/SKILL.md", "scripts/../../x", "/tmp/x", "scripts/\0", "SKILL.md", "skill.md", "x"]
)
def test_a_library_made_by_hand_is_not_saved_outside_either(path: str, tmp_path: Path) -> None:
    made = Library([Skill("a", "d", skill("a").text, {path: b"x"})])
    if path == "x":
        made.save(tmp_path / "lib")  # published skills have files beside SKILL.md
        assert Library.load(tmp_path / "lib").snapshot == made.snapshot
        return
    with pytest.raises(ToolError):
        made.save(tmp_path / "lib")
    with pytest.raises(ToolError):
        Library([Skill("../a", "d", skill("a").text)]).save(tmp_path / "lib")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("first", ["references/Note.md", "references/note.md/x", "references/note.md"])
def test_two_paths_that_are_one_on_some_disks_are_refused(first: str) -> None:
    library = Library([skill("a", {first: b""})])
    second = "references/note.md" if first != "references/note.md" else "references/note.md/y"
    with pytest.raises(ToolError, match="conflicts with"):
        apply(library, SkillEdit("write_file", "a", path=second, content="x"), origin="review", episode="", model="")


@pytest.mark.parametrize("where", ["", "SKILL.md", "references", "references/x.md"])
def test_a_planted_link_is_never_read_through(where: str, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "lib"
    Library([skill("a", {"references/x.md": b"secret"})]).save(outside)
    Library([skill("a", {"references/x.md": b"mine"})]).save(root)
    target = root / "a" / where if where else root / "a"
    target.rename(tmp_path / "away")
    target.symlink_to(outside / "a" / where if where else outside / "a")
    with pytest.raises(ConfigError, match="symbolic links are not followed"):
        Library.load(root)


@pytest.mark.parametrize("where", ["", "references", "references/x.md"])
def test_a_planted_link_is_never_written_through(where: str, tmp_path: Path) -> None:
    root, outside, scratch = (tmp_path / name for name in ("lib", "outside", "scratch"))
    before, after = skill("a"), skill("a", {"references/x.md": b"new"})
    Library([before]).save(root)
    outside.mkdir()
    scratch.mkdir()
    target = root / "a" / where if where else root / "a"
    target.parent.mkdir(exist_ok=True)
    if not where:
        target.rename(tmp_path / "away")
    target.symlink_to(outside / "x.md" if where.endswith(".md") else outside)
    with pytest.raises(OSError, match=r"link|directory"):
        Transfer(root, scratch, {"a": (files_of(before), files_of(after))}).carry_out()
    assert list(outside.iterdir()) == []


edits = st.builds(
    SkillEdit,
    action=st.sampled_from(["create", "edit", "patch", "delete", "write_file", "remove_file"]),
    name=st.sampled_from(["a", "b"]),
    description=st.sampled_from(["", "When it rains."]),
    content=st.sampled_from(
        ["One. Two.", "---\nname: a\ndescription: Whole\n---\nTwo.\n", "Ünïcode \U0001f600\r\nlines", "\udc80"]
    ),
    old_string=st.sampled_from(["One", "Two", "rains", "---", "description: "]),
    new_string=st.sampled_from(["Two", "", "x\ny", "hermes-pinned: 'true'", "\ud800"]),
    path=st.sampled_from(["", "SKILL.md", "references/a.md", "references/b/c.md", "assets/x.bin", "forms.md"]),
    absorbed_into=st.sampled_from(["", "a", "b"]),
)


@given(sequence=st.lists(edits, min_size=1, max_size=12))
def test_every_record_replays_to_the_snapshot_that_it_names(sequence: list[SkillEdit]) -> None:
    library = replayed = Library(
        [skill("b", {"assets/x.bin": b"\xff\0", "references/a.md": b"One. Two.\n", "forms.md": b"One"})]
    )
    for edit in sequence:
        try:
            library, write = apply(library, edit, origin="review", episode="e", model="m")
        except ToolError:
            continue
        assert write.snapshot == replayed.snapshot
        replayed = replayed.after(write)
        assert write.after == replayed.snapshot == library.snapshot == Library(library.skills.values()).snapshot
        assert replayed.listed == library.listed
