"""What `skills diff` says of two libraries."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.diff import diff
from hermes_lab.types import Skill


def skill(name: str, body: str = "Do it.", **files: bytes) -> Skill:
    parsed = skill_format.parse(skill_format.render(name, f"About {name}", body))
    return msgspec.structs.replace(parsed, files={f"scripts/{path}": data for path, data in files.items()})


contents = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["One.", "Two.", "One.\n\nTwo."]))


@given(before=contents, after=contents)
def test_just_the_skills_that_differ_are_named_with_what_became_of_them(
    before: dict[str, str], after: dict[str, str]
) -> None:
    found = diff(*(Library(skill(*item) for item in side.items()) for side in (before, after)))
    expected = {
        name: "added" if name not in before else "removed" if name not in after else "changed"
        for name in {*before, *after}
        if before.get(name) != after.get(name)
    }
    assert {one.name: one.kind for one in found} == expected
    assert [one.name for one in found] == sorted(expected)


def test_a_changed_line_stands_in_a_unified_diff_under_its_path() -> None:
    (found,) = diff(Library([skill("a", "Add.")]), Library([skill("a", "Subtract.")]))
    (file,) = found.files
    assert file.text.startswith("--- a/a/SKILL.md\n+++ b/a/SKILL.md\n@@")
    assert "\n-Add.\n+Subtract.\n" in file.text


def test_files_that_come_go_and_are_no_text_are_told() -> None:
    before = Library([skill("a", gone=b"x = 1", same=b"1", image=b"\xff\x00")])
    after = Library([skill("a", new=b"y = 2\n", same=b"1", image=b"\xff\x00\x01")])
    (found,) = diff(before, after)
    assert {file.path: file.kind for file in found.files} == {
        "scripts/gone": "removed",
        "scripts/image": "changed",
        "scripts/new": "added",
    }
    texts = {file.path: file.text for file in found.files}
    assert texts["scripts/image"] == "binary file: a/scripts/image: 2 bytes -> 3 bytes\n"
    assert texts["scripts/new"] == "--- /dev/null\n+++ b/a/scripts/new\n@@ -0,0 +1 @@\n+y = 2\n"
    assert texts["scripts/gone"].endswith("-x = 1\n\\ No newline at end of file\n")
