"""Skills as other programs write them: read with a warning, and never changed on disk by reading."""

from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.manage import apply
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import SkillEdit


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(text.encode())
    return folder


def head(fields: str) -> str:
    return f"---\nname: tidy\ndescription: Tidies.\n{fields}\n---\n\nDo it.\n"


READABLE = {
    "\ufeff" + head("license: MIT"): "line 1: a byte order mark",
    "\n\n" + head("license: MIT"): "line 1: a byte order mark or blanks",
    "--- \nname: tidy\ndescription: Tidies.\n---  \n\nDo it.\n": "line 1: a byte order mark or blanks",
    head("version: 1.0.0\nauthor: X"): "line 4: fields outside the standard: version, author",
    head("platforms: [linux, macos]\ntags: [a, b]"): "line 4: fields outside the standard: platforms, tags",
    head("argument-hint: [file] [format]"): "line 4: argument-hint: not valid YAML, read as text",
    head("globs: *.ts"): "line 4: globs: not valid YAML",
    head("created: 2026-02-31"): "line 4: created: not a valid date or number, read as text",
    head("metadata: some text"): "line 4: metadata: not `name: value` pairs",
    "---\nname: tidy\ndescription: Tidies when: asked\n---\n\nDo it.\n": "line 3: description: not valid YAML",
    "---\nname: tidy\ndescription: Tidies: a\n  and then: b\n---\n\nDo it.\n": "line 3: description: not valid YAML",
    "---\nname: Tidy Up\ndescription: Tidies.\n---\n\nDo it.\n": "line 2: name: 'Tidy Up' is used as tidy",
    f"---\nname: {'x' * 70}\ndescription: Tidies.\n---\n\nDo it.\n": "line 2: name: ",
    "---\ndescription: Tidies.\n---\n\nDo it.\n": "line 1: name: '' is used as tidy",
    f"---\nname: tidy\ndescription: {'x' * 1100}\n---\n\nDo it.\n": "line 3: description: 1100 characters",
    "---\nname: tidy\ndescription: [Tidies, cleans]\n---\n\nDo it.\n": "",
    "---\nname: tidy\ndescription: 3\n---\n\nDo it.\n": "",
    "---\nname: tidy\ndescription: Tidies.\n---": "line 2: the skill has no text",
    head("allowed-tools: [Bash, Read]"): "",
    head("allowed-tools: Bash(git:*) Read"): "",
    head("metadata: {hermes: {tags: [a]}}"): "",
    head("license: MIT").replace("\n", "\r\n"): "",
}


@pytest.mark.parametrize("text", READABLE)
def test_a_published_skill_is_read_with_a_warning(text: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "lib" / "tidy", text)
    skill = Library.load(tmp_path / "lib").skills["tidy"]
    assert skill.text == (folder / "SKILL.md").read_bytes().decode()
    assert 0 < len(skill.description) <= skill_format.MAX_DESCRIPTION
    warnings = [str(note) for note in skill_format.warnings(skill)]
    assert any(READABLE[text] in warning for warning in warnings) if READABLE[text] else warnings == []
    assert skill_format.parse(head("license: MIT")).name == "tidy"


@pytest.mark.parametrize("text", READABLE)
def test_what_was_read_is_written_in_plain_yaml_and_in_a_store_as_it_was(text: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "lib" / "tidy", text)
    store = SkillStore(tmp_path / "lib")
    skill = store.load().skills["tidy"]
    again = skill_format.canonical(skill)
    if len(skill.description) < skill_format.MAX_DESCRIPTION and skill_format.body(skill):
        assert skill_format.parse(again.text).description == skill.description
    marked = store.change(
        lambda now: now.with_skill(skill_format.marked(skill, pinned="true")), origin="user", reason="x"
    )
    assert "hermes-pinned" in (folder / "SKILL.md").read_text()
    assert SkillStore(tmp_path / "lib").load().snapshot == marked.after == Library.load(tmp_path / "lib").snapshot
    store.change(lambda _: store.at(marked.before), origin="user", reason="back")
    assert (folder / "SKILL.md").read_bytes().decode() == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Do it.\n", "must begin with frontmatter"),
        ("---\nname: tidy\ndescription: x\n\nDo it.\n", "no closing ---"),
        ("---\nname: tidy\n---\n\nDo it.\n", "line 1: no description"),
        ("---\nname: tidy\ndescription:\n---\n\nDo it.\n", "line 3: no description"),
        ("---\nname: tidy\n: [\n---\n\nDo it.\n", "line 3: the frontmatter is not valid YAML"),
        ("---\n- name\n---\n\nDo it.\n", "is not a mapping"),
        ("---\n" + "[" * 50_000 + "\n---\n\nDo it.\n", "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, why: str, tmp_path: Path) -> None:
    write(tmp_path / "tidy", text)
    with pytest.raises(ConfigError, match=why) as raised:
        Library.load(tmp_path)
    assert str(tmp_path / "tidy" / "SKILL.md") in str(raised.value)


def test_yaml_aliases_are_read_as_text_and_never_expanded() -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"
    skill = skill_format.read(head(bomb))
    assert skill_format.fields(skill)["c"] == "[*b, *b]"


def test_a_folder_names_the_skill_in_a_library_and_must_be_a_valid_name_in_a_store(tmp_path: Path) -> None:
    write(tmp_path / "lib" / "My Skill", head("license: MIT"))
    assert list(Library.load(tmp_path / "lib").skills) == ["tidy"]
    write(tmp_path / "lib" / "tidy", head("license: MIT"))
    with pytest.raises(ConfigError, match="another skill 'tidy'"):
        Library.load(tmp_path / "lib")
    store = SkillStore(tmp_path / "lib")
    assert list(store.load().skills) == ["tidy"]
    assert "rename it to tidy" in store.broken()["My Skill"]


def test_an_agent_may_patch_a_published_skill_but_not_its_frontmatter_into_one() -> None:
    library = Library([skill_format.read(head("version: 1.0.0"), name="tidy")])
    by = {"episode": "e", "model": "m"}
    patch = SkillEdit("patch", "tidy", old_string="Do it.", new_string="Do it twice.")
    after, made = apply(library, patch, origin="foreground", **by)
    assert after.skills["tidy"].text == head("version: 1.0.0").replace("Do it.", "Do it twice.")
    assert library.after(made).snapshot == after.snapshot
    for new in ("version: 2", "description: a: b\nversion: 1.0.0"):
        with pytest.raises(ToolError):
            apply(
                library, SkillEdit("patch", "tidy", old_string="version: 1.0.0", new_string=new), origin="review", **by
            )
    with pytest.raises(ToolError, match="no body"):
        apply(library, SkillEdit("patch", "tidy", old_string="Do it.", new_string=" "), origin="review", **by)
