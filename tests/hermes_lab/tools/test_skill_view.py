"""What a skill is shown as, and what counts as a load."""

import json
from typing import Any, get_args

import pytest

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.schema import Profile
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import ToolCall, ToolResult

pytestmark = pytest.mark.anyio
every_profile = pytest.mark.parametrize("profile", get_args(Profile))

FILES = {"references/hours.md": b"Open at nine.\n", "assets/map.png": b"\xff\xfe\0"}
SKILL = skill_format.parse(skill_format.render("canal-hall", "When it opens", "Ring twice."), FILES)
PLAIN = skill_format.parse(skill_format.render("tea-room", "When it opens", "Knock."))
ITSELF = {
    "name": "canal-hall",
    "content": SKILL.text,
    "folder": "/app/skills/canal-hall",
    "files": ["assets/map.png", "references/hours.md"],
}


@pytest.fixture
def session() -> SkillSession:
    return SkillSession(Library([SKILL, PLAIN]), origin="foreground", episode="e", model="m")


async def view(context: ToolContext, session: SkillSession, profile: Profile = "full", **arguments: Any) -> ToolResult:
    toolbox = Toolbox(("skills",), ToolContext(context.sandbox, session, context.config), profile=profile)
    return await toolbox.run(ToolCall("c", "skill_view", arguments))


def answer(result: ToolResult) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(result.content)
    return content


@every_profile
async def test_the_answer_with_the_skill_itself_never_changes(
    context: ToolContext, session: SkillSession, profile: Profile
) -> None:
    result = await view(context, session, profile, name="canal-hall")
    assert result.content == json.dumps(ITSELF)
    result = await view(context, session, profile, name="tea-room")
    assert result.content == json.dumps({"name": "tea-room", "content": PLAIN.text})


@every_profile
@pytest.mark.parametrize(
    "path",
    [
        *("SKILL.md", "./SKILL.md", "skill.md", " ", ".", "./", None, "canal-hall", "canal-hall/SKILL.md"),
        *("/app/skills/canal-hall", "/app/skills/canal-hall/SKILL.md", "references/../SKILL.md"),
    ],
)
async def test_a_path_to_the_skill_itself_is_the_skill(
    context: ToolContext, session: SkillSession, profile: Profile, path: str | None
) -> None:
    assert answer(await view(context, session, profile, name="canal-hall", path=path)) == ITSELF
    assert session.loaded == ["canal-hall"]


@every_profile
@pytest.mark.parametrize("path", ["references/x.md", "../secret", "/etc/passwd", "references", "hours.md", "a\0b"])
async def test_a_path_that_is_not_there_gives_the_skill_and_says_which_files_there_are(
    context: ToolContext, session: SkillSession, profile: Profile, path: str
) -> None:
    result = await view(context, session, profile, name="canal-hall", path=path)
    found = answer(result)
    assert result.ok
    assert f"no file {path!r}" in found["note"]
    assert "assets/map.png, references/hours.md" in found.pop("note")
    assert found == ITSELF
    assert session.loaded == ["canal-hall"]


async def test_both_notes_stand_where_the_name_was_wrong_too(context: ToolContext, session: SkillSession) -> None:
    found = answer(await view(context, session, name="tea_room", path="references/x.md"))
    assert found["note"] == (
        "there is no skill 'tea_room'; this is the closest one; "
        "the skill has no file 'references/x.md'; this is the skill itself, and it has no other files"
    )


@pytest.mark.parametrize(
    "path",
    [
        *("references/hours.md", "./references/hours.md", "canal-hall/references/hours.md"),
        "/app/skills/canal-hall/references/hours.md",
    ],
)
async def test_a_file_of_a_skill_is_shown_and_is_no_load(
    context: ToolContext, session: SkillSession, path: str
) -> None:
    assert answer(await view(context, session, name="canal-hall", path=path)) == {
        "name": "canal-hall",
        "path": "references/hours.md",
        "content": "Open at nine.\n",
    }
    assert session.loaded == []


@pytest.mark.parametrize("arguments", [{"name": "canal-hall", "path": "assets/map.png"}, {"name": "weather"}])
async def test_an_error_is_no_load(context: ToolContext, session: SkillSession, arguments: dict[str, str]) -> None:
    assert not (await view(context, session, **arguments)).ok
    assert session.loaded == []


async def test_only_what_the_model_was_told_is_loaded(context: ToolContext, session: SkillSession) -> None:
    session.view("tea-room")  # as in a message
    shown = await view(context, session, name="canal-hall")
    session.confirm_loads([ToolResult("c", "skill_view", '{"error": "stopped"}', ok=False)])
    assert session.loaded == ["tea-room"]
    await view(context, session, name="tea-room")
    session.confirm_loads([shown])  # a recorded answer
    assert session.loaded == ["tea-room", "canal-hall"]
    session.confirm_loads([])
    assert session.loaded == ["tea-room", "canal-hall"]


@pytest.mark.parametrize("place", ["${HERMES_SKILL_DIR}", "${CLAUDE_SKILL_DIR}"])
async def test_the_place_for_its_folder_is_filled(context: ToolContext, place: str) -> None:
    text = skill_format.render("canal-hall", "When it opens", f"Run {place}/scripts/x.py for $1.")
    library = Library([skill_format.parse(text, {"scripts/x.py": b"1"})])
    found = answer(
        await view(context, SkillSession(library, origin="foreground", episode="e", model="m"), name="canal-hall")
    )
    assert found["content"].endswith(f"Run {found['folder']}/scripts/x.py for $1.\n")
