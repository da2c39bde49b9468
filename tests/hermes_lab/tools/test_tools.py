import json
from typing import Any

import pytest

from hermes_lab.config import SandboxConfig
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import Toolbox, ToolContext
from hermes_lab.types import ToolCall

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolbox(context: ToolContext) -> Toolbox:
    return Toolbox(("terminal", "file", "skills"), context)


async def run(toolbox: Toolbox, tool: str, /, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await toolbox.run(ToolCall("c1", tool, arguments))).content)
    return answer


async def test_terminal_gives_output_and_exit_code(toolbox: Toolbox) -> None:
    assert await run(toolbox, "terminal", command="echo hi; exit 3") == {"output": "hi\n", "exit_code": 3}
    assert await run(toolbox, "terminal", command="pwd", workdir="/usr") == {
        "output": "/usr\n",
        "exit_code": 0,
    }


async def test_terminal_says_that_a_command_was_killed(toolbox: Toolbox) -> None:
    answer = await run(toolbox, "terminal", command="echo begun; sleep 60", timeout=0.2)
    assert answer == {"output": "begun\n", "exit_code": 124, "error": "killed after 0.2 seconds"}


async def test_terminal_has_the_configured_timeout(context: ToolContext) -> None:
    hasty = ToolContext(context.sandbox, None, SandboxConfig(timeout=0.2))
    answer = await run(Toolbox(("terminal",), hasty), "terminal", command="sleep 60", timeout=None)
    assert answer["error"] == "killed after 0.2 seconds"


@pytest.mark.parametrize("timeout", [0, -1])
async def test_terminal_refuses_a_timeout_that_is_none(toolbox: Toolbox, timeout: float) -> None:
    assert "above 0" in (await run(toolbox, "terminal", command="true", timeout=timeout))["error"]


async def test_what_was_written_is_read_with_line_numbers(toolbox: Toolbox) -> None:
    assert await run(toolbox, "write_file", path="a/b.txt", content="één\ntwo\nthree\n") == {
        "path": "a/b.txt",
        "bytes": 16,
    }
    assert await run(toolbox, "read_file", path="/app/data/a/b.txt", offset=2, limit=1) == {
        "content": "2|two",
        "total_lines": 3,
    }
    assert (await run(toolbox, "terminal", command="cat a/b.txt"))["output"] == "één\ntwo\nthree\n"


async def test_a_long_file_is_shown_in_part(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="long", content="x" * 50_000)
    answer = await run(toolbox, "read_file", path="long")
    assert len(answer["content"]) < 2_100
    assert "48002 characters cut" in answer["content"]


async def test_missing_files_are_errors(toolbox: Toolbox) -> None:
    assert await run(toolbox, "read_file", path="nope") == {"error": "nope: No such file or directory"}
    assert "outside the workspace" in (await run(toolbox, "read_file", path="/etc/passwd"))["error"]


async def test_patch_replaces_exactly_one_passage(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="f", content="a = 1\r\nb = 1\r\n")
    assert await run(toolbox, "patch", path="f", old_string="a = 1", new_string="a = 2") == {
        "path": "f",
        "replacements": 1,
    }
    assert (await run(toolbox, "terminal", command="cat f"))["output"] == "a = 2\r\nb = 1\r\n"


async def test_patch_refuses_what_is_missing_or_ambiguous(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="f", content="x x\n")
    assert "not found" in (await run(toolbox, "patch", path="f", old_string="y", new_string="z"))["error"]
    assert "2 times" in (await run(toolbox, "patch", path="f", old_string="x", new_string="z"))["error"]
    assert "empty" in (await run(toolbox, "patch", path="f", old_string="", new_string="z"))["error"]
    assert (await run(toolbox, "terminal", command="cat f"))["output"] == "x x\n"
    answer = await run(toolbox, "patch", path="f", old_string="x", new_string="z", replace_all=True)
    assert answer == {"path": "f", "replacements": 2}


async def test_skills_are_created_patched_and_viewed(context: ToolContext) -> None:
    session = SkillSession(Library(()), origin="foreground", episode="e", model="m")
    toolbox = Toolbox(("skills",), ToolContext(context.sandbox, session, context.config))
    created = await run(
        toolbox,
        "skill_manage",
        action="create",
        name="tidy-up",
        description="At the end.",
        content="Sweep.\n",
    )
    assert created == {"action": "create", "name": "tidy-up"}
    patched = await run(
        toolbox,
        "skill_manage",
        action="patch",
        name="tidy-up",
        old_string="Sweep.",
        new_string="Sweep twice.",
    )
    assert patched == {"action": "patch", "name": "tidy-up"}
    viewed = await run(toolbox, "skill_view", name="tidy-up")
    assert "Sweep twice." in viewed["content"]
    assert [write.action for write in session.writes] == ["create", "patch"]


async def test_without_a_library_skill_tools_say_so(toolbox: Toolbox) -> None:
    assert await run(toolbox, "skill_view", name="any") == {"error": "there is no skill library here"}
    assert "no skill library" in (await run(toolbox, "skill_manage", action="create", name="any"))["error"]
