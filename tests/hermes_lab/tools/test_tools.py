import json
import threading
from functools import partial
from typing import Any

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.text.replace import Replaced, replace
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import ToolCall

pytestmark = pytest.mark.anyio


@pytest.fixture
def toolbox(context: ToolContext) -> Toolbox:
    return Toolbox(("core",), context)


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
    answer = await run(toolbox, "terminal", command="echo begun; sleep 60", timeout=1.5)
    assert answer == {"output": "begun\n", "exit_code": 124, "error": "killed after 1.5 seconds"}


async def test_terminal_has_the_configured_timeout(context: ToolContext) -> None:
    hasty = ToolContext(context.sandbox, None, SandboxConfig(timeout=0.2))
    answer = await run(Toolbox(("terminal",), hasty), "terminal", command="sleep 60", timeout=None)
    assert answer["error"] == "killed after 0.2 seconds"


@pytest.mark.parametrize("timeout", [0, -1])
async def test_terminal_refuses_a_timeout_that_is_none(toolbox: Toolbox, timeout: float) -> None:
    assert "greater than 0" in (await run(toolbox, "terminal", command="true", timeout=timeout))["error"]


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


async def test_long_lines_and_long_files_are_shown_in_part(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="wide", content="x" * 50_000)
    wide = await run(toolbox, "read_file", path="wide")
    assert wide == {"content": f"1|{'x' * 2_000} [... 48000 characters cut]", "total_lines": 1}
    await run(toolbox, "write_file", path="long", content="".join(f"line {n}\n" for n in range(1, 1_001)))
    numbers: list[str] = []
    answer: dict[str, Any] = {"next_offset": 1}
    while "next_offset" in answer:  # each page holds about 2000 characters
        answer = await run(toolbox, "read_file", path="long", offset=answer["next_offset"])
        assert len(answer["content"]) <= 2_000
        numbers += [line.partition("|")[0] for line in answer["content"].splitlines()]
        assert answer["total_lines"] == 1_000
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert len(numbers) >= 500


@pytest.mark.parametrize(
    ("content", "shown", "total"),
    [("", "", 0), ("\n", "1|", 1), ("a\r\nb", "1|a\n2|b", 2), ("a\x0cb\u2028c\n", "1|a\x0cb\u2028c", 1)],
)
async def test_lines_are_what_other_tools_count_as_lines(
    toolbox: Toolbox, content: str, shown: str, total: int
) -> None:
    await run(toolbox, "write_file", path="f", content=content)
    assert await run(toolbox, "read_file", path="f") == {"content": shown, "total_lines": total}


async def test_a_file_that_cannot_be_shown_says_why(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="a/data.bin", content="GIF\0" * 10)
    assert await run(toolbox, "read_file", path="a/data.bin") == {
        "error": "a/data.bin: a binary file (40 bytes), not text"
    }
    await run(toolbox, "write_file", path="f", content="1\n2\n")
    assert "the file has 2 lines" in (await run(toolbox, "read_file", path="f", offset=3))["error"]
    assert "outside the workspace" in (await run(toolbox, "read_file", path="/etc/passwd"))["error"]


async def test_a_missing_file_is_answered_with_its_like(toolbox: Toolbox) -> None:
    assert await run(toolbox, "read_file", path="nope") == {"error": "nope: No such file or directory"}
    for path in ("src/main.py", "src/README.md", ".git/main.py"):
        await run(toolbox, "write_file", path=path, content="x")
    await run(toolbox, "terminal", command="cd src; ln -s /usr/bin main.p")
    for asked, like in (("main.py", "src/main.py"), ("src/mian.py", "src/main.py"), ("Readme.md", "src/README.md")):
        error = (await run(toolbox, "read_file", path=asked))["error"]
        assert error == f"{asked}: No such file or directory; did you mean {like}?"


async def test_patch_replaces_exactly_one_passage(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="f", content="a = 1\r\nb = 1\r\n")
    assert await run(toolbox, "patch", path="f", old_string="a = 1", new_string="a = 2") == {
        "path": "f",
        "replacements": 1,
        "diff": "@@ -1,2 +1,2 @@\n-a = 1\r\n+a = 2\r\n b = 1\r",
    }
    assert (await run(toolbox, "terminal", command="cat f"))["output"] == "a = 2\r\nb = 1\r\n"


async def test_patch_says_how_it_read_a_loose_quote(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="f", content="if x:\n    y\n")
    answer = await run(toolbox, "patch", path="f", old_string="if x:\n  y", new_string="if x:\n  z")
    assert answer["fuzzy"] == "indentation"
    assert (await run(toolbox, "terminal", command="cat f"))["output"] == "if x:\n    z\n"


async def test_patch_searches_for_a_loose_quote_in_a_thread(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long search must not stop the other episodes, whatever the size of the file."""
    at_work: list[bool] = []

    def seen(*arguments: Any, **named: Any) -> Replaced:
        at_work.append(threading.current_thread() is threading.main_thread())
        return replace(*arguments, **named)

    monkeypatch.setattr("hermes_lab.tools.patch.replace", seen)
    await run(toolbox, "write_file", path="f", content="if x:\n    y\n")
    assert "fuzzy" in await run(toolbox, "patch", path="f", old_string="if x:\n  y", new_string="if x:\n  z")
    assert "error" in await run(toolbox, "patch", path="f", old_string="nothing", new_string="z")
    assert "error" not in await run(toolbox, "patch", path="f", old_string="z", new_string="u")
    assert at_work == [False, False, True]


async def test_patch_refuses_what_is_missing_or_ambiguous(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="f", content="x x\n")
    assert "f: old_string not found" in (await run(toolbox, "patch", path="f", old_string="y", new_string="z"))["error"]
    assert "2 times" in (await run(toolbox, "patch", path="f", old_string="x", new_string="z"))["error"]
    assert "empty" in (await run(toolbox, "patch", path="f", old_string="", new_string="z"))["error"]
    assert "the same" in (await run(toolbox, "patch", path="f", old_string="x x", new_string="x x"))["error"]
    assert (await run(toolbox, "terminal", command="cat f"))["output"] == "x x\n"
    answer = await run(toolbox, "patch", path="f", old_string="x", new_string="z", replace_all=True)
    assert answer == {"path": "f", "replacements": 2, "diff": "@@ -1,1 +1,1 @@\n-x x\n+z z"}


async def test_patch_keeps_bytes_that_are_no_text(toolbox: Toolbox, context: ToolContext) -> None:
    await context.sandbox.write("f", b"caf\xe9 = 1\n" + b"#" * 60_000)
    answer = await run(toolbox, "patch", path="f", old_string=" = 1", new_string=" = \udce9")
    assert answer["replacements"] == 1
    assert await context.sandbox.read("f") == b"caf\xe9 = ?\n" + b"#" * 60_000


async def test_todo_writes_merges_and_reads(toolbox: Toolbox) -> None:
    assert await run(toolbox, "todo") == {"todos": []}
    first = {"id": "1", "content": "Sweep.", "status": "in_progress"}
    await run(toolbox, "todo", todos=[first, {"id": "2", "content": "Mop."}])
    merged = await run(
        toolbox,
        "todo",
        todos=[{"id": "1", "status": "completed"}, {"id": "3", "content": "Air.", "status": "cancelled"}],
        merge=True,
    )
    expected = {
        "todos": [
            {"id": "1", "content": "Sweep.", "status": "completed"},
            {"id": "2", "content": "Mop.", "status": "pending"},
            {"id": "3", "content": "Air.", "status": "cancelled"},
        ]
    }
    assert merged == await run(toolbox, "todo") == expected
    assert await run(toolbox, "todo", todos=[first]) == {"todos": [first]}
    assert await run(toolbox, "todo", todos=[]) == {"todos": []}


@pytest.mark.parametrize(
    ("todos", "complaint"),
    [
        ([{"id": "1"}], "'1' has no content"),
        ([{"id": "1", "content": "a"}, {"id": "1", "content": "b"}], "'1' occurs twice"),
        ([{"id": "1", "content": "a", "status": "done"}], "invalid arguments for todo: todos.0.status"),
        ([{"id": "1", "content": "a"}] * 101, "at most 100 items"),
    ],
)
async def test_a_wrong_todo_changes_nothing(toolbox: Toolbox, todos: list[Any], complaint: str) -> None:
    kept = await run(toolbox, "todo", todos=[{"id": "0", "content": "Keep."}])
    assert complaint in (await run(toolbox, "todo", todos=todos, merge=True))["error"]
    assert await run(toolbox, "todo") == kept


async def test_a_script_sees_the_workspace_and_leaves_nothing_there(toolbox: Toolbox) -> None:
    await run(toolbox, "write_file", path="sub/helper.py", content="ANSWER = 'it''s 42'\n")
    await run(toolbox, "terminal", command="cd sub; export PYTHONDONTWRITEBYTECODE=1 WORD=hi")
    code = "import helper, os\nprint(helper.ANSWER, os.environ['WORD'])\nprint(\"it's\", '$HOME `x` \\\\')\n"
    answer = await run(toolbox, "execute_code", code=code)
    assert answer == {"output": "its 42 hi\nit's $HOME `x` \\\n", "exit_code": 0}
    assert (await run(toolbox, "terminal", command="find /app/data"))["output"].split() == [
        *("/app/data", "/app/data/sub", "/app/data/sub/helper.py")
    ]


async def test_a_failing_script_gives_its_traceback_and_exit_code(toolbox: Toolbox) -> None:
    answer = await run(toolbox, "execute_code", code="print('begun')\n1 / 0")
    assert answer["exit_code"] == 1
    assert answer["output"].startswith('begun\nTraceback (most recent call last):\n  File "script.py", line 2, in <mod')
    assert await run(toolbox, "execute_code", code="import sys; sys.exit(7)") == {"output": "", "exit_code": 7}


async def test_a_script_has_limits(toolbox: Toolbox) -> None:
    answer = await run(toolbox, "execute_code", code="print('x' * 10**6)")
    assert "characters cut" in answer["output"]
    assert len(answer["output"]) < 2_100
    answer = await run(toolbox, "execute_code", code="print(1)\nwhile True: pass", timeout=0.5)
    assert answer == {"output": "1\n", "exit_code": 124, "error": "killed after 0.5 seconds"}


async def test_clarify_asks_the_person_who_is_there(context: ToolContext) -> None:
    asked: list[Any] = []

    async def ask(question: str, choices: tuple[str, ...]) -> str:
        asked.append((question, choices))
        return "blue"

    toolbox = Toolbox(("clarify",), ToolContext(context.sandbox, None, context.config, ask=ask))
    assert await run(toolbox, "clarify", question="Which?", choices=["red", "blue"]) == {"answer": "blue"}
    assert await run(toolbox, "clarify", question="How?") == {"answer": "blue"}
    assert asked == [("Which?", ("red", "blue")), ("How?", ())]
    assert "at most 4" in (await run(toolbox, "clarify", question="Which?", choices=list("abcde")))["error"]


async def test_where_nobody_can_be_asked_the_agent_is_told_to_go_on(toolbox: Toolbox) -> None:
    assert "decide yourself" in (await run(toolbox, "clarify", question="Which?"))["error"]


async def test_skills_are_created_patched_and_viewed(context: ToolContext) -> None:
    session = SkillSession(Library(()), origin="foreground", episode="e", model="m")
    toolbox = Toolbox(("skills",), ToolContext(context.sandbox, session, context.config))
    tidy_up = partial(run, toolbox, "skill_manage", name="tidy-up")
    created = await tidy_up(action="create", description="At the end.", content="Sweep.\n")
    assert created == {"action": "create", "name": "tidy-up"}
    patched = await tidy_up(action="patch", old_string="Sweep.", new_string="Sweep twice.")
    assert patched == {"action": "patch", "name": "tidy-up"}
    viewed = await run(toolbox, "skill_view", name="tidy-up")
    assert "Sweep twice." in viewed["content"]
    assert [write.action for write in session.writes] == ["create", "patch"]


async def test_without_a_library_skill_tools_say_so(toolbox: Toolbox) -> None:
    assert await run(toolbox, "skill_view", name="any") == {"error": "skills are not available here"}
    assert "skills are not available" in (await run(toolbox, "skill_manage", action="create", name="any"))["error"]
