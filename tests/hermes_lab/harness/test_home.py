"""Homes: what is written into them, and what is read from them again."""

import shutil
from pathlib import Path, PurePosixPath

import pytest
from fakes.program import FakeProgram, FakeSettings
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.harness.home import Writer, furnish, harvest
from hermes_lab.harness.program import Start
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import Notes
from hermes_lab.sandbox.workspace import WorkspaceFolder
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library, merge
from hermes_lab.types import Skill

START = Start("m", "http://x", "k", PurePosixPath("/app/home"), PurePosixPath("/app/data"), settings=FakeSettings())
BY = Writer("an|episode", "m")
PROGRAM = FakeProgram()


def skill(name: str, body: str = "Do it.", files: dict[str, bytes] | None = None, **marks: str) -> Skill:
    return skill_format.parse(skill_format.render(name, f"about {name}", body, **marks), files)


def home(folder: Path) -> WorkspaceFolder:
    folder.mkdir(parents=True, exist_ok=True)
    return WorkspaceFolder(folder, seen=PurePosixPath("/app/home"))


def harvested(folder: Path, knowledge: Knowledge, reviewed: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
    return harvest(
        home(folder),
        PROGRAM,
        knowledge.library,
        knowledge.notes,
        BY,
        lambda what: "review" if what in reviewed else "foreground",
    )


KNOWN = Knowledge(
    Library(
        [
            skill(
                "fleet-desk",
                "Count twice.\n\nThen sum.",
                {"scripts/run.py": b"print(1)\n", "assets/x.bin": b"\xff"},
                origin="review",
            ),
            skill("old", state="deprecated", origin="review"),
            skill("plain", origin="foreground"),
        ]
    ),
    Notes(("one", "two\nlines")),
)


def test_an_untouched_home_has_no_writes(tmp_path: Path) -> None:
    furnish(home(tmp_path), PROGRAM, START, KNOWN)
    found = harvested(tmp_path, KNOWN)
    assert (found.skills, found.note_writes, found.unread) == ([], [], [])
    assert (tmp_path / "skills" / "fleet-desk" / "scripts" / "run.py").read_bytes() == b"print(1)\n"
    # Skills that prompts do not list are not shown, nor are the lab's own fields.
    assert not (tmp_path / "skills" / "old").exists()
    assert "hermes-" not in (tmp_path / "skills" / "fleet-desk" / "SKILL.md").read_text()


def test_every_change_becomes_a_write_that_repeats_it(tmp_path: Path) -> None:
    furnish(home(tmp_path), PROGRAM, START, KNOWN)
    skills = tmp_path / "skills"
    text = (skills / "fleet-desk" / "SKILL.md").read_text()
    (skills / "fleet-desk" / "SKILL.md").write_text(text.replace("Count twice", "Count once"))
    (skills / "fleet-desk" / "scripts" / "run.py").unlink()
    (skills / "fleet-desk" / "references").mkdir()
    (skills / "fleet-desk" / "references" / "more.md").write_text("more")
    for path in (skills / "plain").iterdir():
        path.unlink()
    (skills / "new-one").mkdir()
    (skills / "new-one" / "SKILL.md").write_text("---\nname: new-one\ndescription: new\n---\n\nBody.\n")
    (tmp_path / "NOTES.md").write_text("one\n§\nthree")
    found = harvested(tmp_path, KNOWN, reviewed=("new-one", "three"))
    assert [(write.action, write.name, write.path, write.origin) for write in found.skills] == [
        ("edit", "fleet-desk", "", "foreground"),
        ("write_file", "fleet-desk", "references/more.md", "foreground"),
        ("remove_file", "fleet-desk", "scripts/run.py", "foreground"),
        ("delete", "plain", "", "foreground"),
        ("create", "new-one", "", "review"),
    ]
    assert [(write.action, write.old, write.text, write.origin) for write in found.note_writes] == [
        ("replace", "two\nlines", "three", "review")
    ]
    after = merge(KNOWN.library, found.skills)
    assert after.snapshot == found.library.snapshot
    # The chain of snapshots is that of the writes.
    assert [write.snapshot for write in found.skills] == [KNOWN.library.snapshot, *(w.after for w in found.skills[:-1])]
    assert skill_format.origin(after.skills["fleet-desk"]) == "review"
    assert "old" in after.skills
    # A home made from the result is the home that was found.
    again = Knowledge(found.library, found.notes)
    furnish(home(tmp_path / "again"), PROGRAM, START, again)
    assert harvested(tmp_path / "again", again).skills == []


def test_a_person_s_skills_are_as_safe_from_a_program_as_from_the_lab_s_own_loop(tmp_path: Path) -> None:
    files = {"scripts/run.py": b"print(1)\n"}
    pinned = [skill(name, files=files, pinned="true", origin="review") for name in ("edited", "deleted", "extended")]
    others = [skill("users"), skill("installed", origin="installed"), skill("kept", pinned="true")]
    knowledge = Knowledge(Library([*pinned, *others, skill("hidden", pinned="true", state="archived")]))
    furnish(home(tmp_path), PROGRAM, START, knowledge)
    skills = tmp_path / "skills"
    (skills / "edited" / "SKILL.md").write_text("---\nname: edited\ndescription: x\n---\n\nWrong.\n")
    (skills / "extended" / "scripts" / "run.py").write_text("print(2)\n")
    (skills / "hidden").mkdir()
    (skills / "hidden" / "SKILL.md").write_text("---\nname: hidden\ndescription: x\n---\n\nWrong.\n")
    for name in ("deleted", "users", "installed"):
        shutil.rmtree(skills / name)
    found = harvested(tmp_path, knowledge)
    assert (found.skills, found.library.snapshot) == ([], knowledge.library.snapshot)
    assert found.unread == [
        *(
            f"skills: {name}: is pinned: only a person may change it; it stays as it was"
            for name in ("deleted", "edited", "extended", "hidden")
        ),
        *(
            f"skills: {name}: was not written by an agent, and only a person may delete it; it stays as it was"
            for name in ("installed", "users")
        ),
    ]


def test_a_new_skill_with_the_name_of_a_hidden_one_replaces_it(tmp_path: Path) -> None:
    hidden = skill(
        "sums", "Old.", {"scripts/old.py": b"1\n", "scripts/same.py": b"2\n"}, state="deprecated", origin="review"
    )
    knowledge = Knowledge(Library([hidden]))
    furnish(home(tmp_path), PROGRAM, START, knowledge)
    folder = tmp_path / "skills" / "sums"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "same.py").write_text("2\n")
    (folder / "SKILL.md").write_text(skill_format.shown(hidden))  # the same text is active again, too
    found = harvested(tmp_path, knowledge)
    assert [(write.action, write.path) for write in found.skills] == [("edit", ""), ("remove_file", "scripts/old.py")]
    after = merge(knowledge.library, found.skills)
    assert after.snapshot == found.library.snapshot
    assert dict(after.listed["sums"].files) == {"scripts/same.py": b"2\n"}
    assert skill_format.origin(after.skills["sums"]) == "review"
    assert harvested(tmp_path, Knowledge(found.library)).skills == []


@pytest.mark.parametrize(
    ("head", "name", "description"),
    [
        ("name: My_Skill\ndescription: x", "my-skill", "x"),
        ("name: Ünï\ndescription: x", "n", "x"),
        ("description: x", "a-folder", "x"),
        (f"name: ok\ndescription: {'y' * 3000}", "ok", "y" * 1024),
        ("name: ok\ndescription: x\nversion: 1.0.0\nmetadata: {hermes: {tags: [a]}}", "ok", "x"),
    ],
)
def test_what_other_programs_accept_is_kept(tmp_path: Path, head: str, name: str, description: str) -> None:
    folder = tmp_path / "skills" / "a_folder"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n\nBody.\n")
    found = harvested(tmp_path, Knowledge())
    assert found.unread == []
    assert [(s.name, s.description) for s in found.library.skills.values()] == [(name, description)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no frontmatter", "must begin with frontmatter"),
        ("---\nname: x\ndescription: y\n---\n", "has no body"),
        ("---\nname: x\n---\n\nBody.", "description"),
        ("---\nname: [\n---\n\nBody.", "not valid YAML"),
    ],
)
def test_what_cannot_be_carried_on_is_said(tmp_path: Path, text: str, why: str) -> None:
    folder = tmp_path / "skills" / "x"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    found = harvested(tmp_path, Knowledge())
    assert found.skills == []
    (line,) = found.unread
    assert line.startswith("skills: x: ")
    assert why in line


def test_a_known_skill_that_can_no_longer_be_read_is_kept(tmp_path: Path) -> None:
    furnish(home(tmp_path), PROGRAM, START, KNOWN)
    (tmp_path / "skills" / "fleet-desk" / "SKILL.md").write_text("no frontmatter")
    found = harvested(tmp_path, KNOWN)
    assert (found.skills, found.library.snapshot) == ([], KNOWN.library.snapshot)
    assert [line.split(":")[1] for line in found.unread] == [" fleet-desk"]


def test_skills_in_a_folder_that_cannot_be_listed_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    furnish(home(tmp_path), PROGRAM, START, KNOWN)
    monkeypatch.setattr("hermes_lab.sandbox.workspace._MOST_FILES", 1)
    found = harvested(tmp_path, KNOWN)
    assert (found.skills, found.library.snapshot) == ([], KNOWN.library.snapshot)
    assert "more than 1 files" in found.unread[0]


def test_two_skills_of_one_name_are_one_and_a_warning(tmp_path: Path) -> None:
    for category in ("a", "b"):
        folder = tmp_path / "skills" / category / "same"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\nname: same\ndescription: x\n---\n\nBody.\n")
    found = harvested(tmp_path, Knowledge())
    assert [write.name for write in found.skills] == ["same"]
    assert found.unread == ["skills: b/same: there is another skill 'same'"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "SKILL.md").write_text("---\nname: secret\ndescription: x\n---\n\nBody.\n")
    root = tmp_path / "home"
    (root / "skills").mkdir(parents=True)
    (root / "skills" / "s").symlink_to(tmp_path / "secret")
    (root / "NOTES.md").symlink_to("/etc/passwd")
    found = harvested(root, Knowledge())
    assert (found.skills, found.note_writes) == ([], [])


entries = st.lists(st.text("abc é\n", min_size=1).map(str.strip).filter(bool), max_size=5, unique=True)


@given(entries, entries)
def test_note_writes_lead_to_the_notes_that_were_found(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("home")
    knowledge = Knowledge(notes=Notes(tuple(before)))
    furnish(home(folder), PROGRAM, START, knowledge)
    if after:
        (folder / "NOTES.md").write_text("\n§\n".join(after))
    else:
        (folder / "NOTES.md").unlink(missing_ok=True)
    found = harvested(folder, knowledge)
    notes = knowledge.notes
    for write in found.note_writes:
        notes = notes.after(write)
    assert set(notes.memory) == set(after)
