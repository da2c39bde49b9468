"""A compiled skill as a tool: its schema from the source alone, its call in a real sandbox."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ToolError
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.signature import check_function_name, read_function
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.compiled import compiled_tools
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Skill, SkillEdit, ToolCall

pytestmark = pytest.mark.anyio
DOC = '    """Do it."""\n'


def compiled(name: str, source: str) -> Skill:
    text = skill_format.render(name.replace("_", "-"), "About it", "Do it.", compiled=name)
    return skill_format.parse(text, {f"scripts/{name}.py": source.encode()})


def context(sandbox: Sandbox, library: Library, config: SandboxConfig | None = None) -> ToolContext:
    session = SkillSession(library, origin="foreground", episode="e", model="m")
    return ToolContext(sandbox, session, config or SandboxConfig())


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(SandboxConfig()) as box:
        yield box


async def answer_of(sandbox: Sandbox, body: str, given: str = "", **arguments: Any) -> dict[str, Any]:
    """What the tool `do_it` of this body answers."""
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    library = Library([compiled("do_it", f"import os, sys\ndef do_it({given}):\n{DOC}{indented}")])
    config = SandboxConfig(output_chars=5000, timeout=5)
    result = await Toolbox(("skills",), context(sandbox, library, config)).run(ToolCall("c", "do_it", arguments))
    answer: dict[str, Any] = json.loads(result.content)
    assert result.ok == ("error" not in answer)
    return answer


async def test_arguments_and_results_pass_as_json_and_what_is_printed_stands_apart(sandbox: Sandbox) -> None:
    body = "print('one')\nos.system('echo two')\nprint('three', file=sys.stderr)\nreturn {'got': [text, n, rows]}"
    given = {"text": 'é "\n\u2028', "rows": [{"a": None}]}
    answer = await answer_of(sandbox, body, "text: str, n: int = 3, rows: list = []", **given)
    assert answer["result"] == {"got": [given["text"], 3, [{"a": None}]]}
    assert sorted(answer["output"].split()) == ["one", "three", "two"]


async def test_a_call_takes_more_than_a_command_line_could_hold(sandbox: Sandbox) -> None:
    assert await answer_of(sandbox, "return len(text)", "text: str", text="x" * 500_000) == {"result": 500_000}


async def test_a_call_begins_in_the_workspace_and_leaves_the_agents_shell_as_it_was(sandbox: Sandbox) -> None:
    await sandbox.exec("cd /tmp; export A=1 PYTHONPATH=/tmp; echo 'raise SystemExit(0)' >sitecustomize.py")
    answer = await answer_of(sandbox, "os.environ['A'] = '2'\nopen('made', 'w').close()\nreturn os.getcwd()")
    assert answer == {"result": "/app/data"}
    assert (await sandbox.exec("echo $PWD $A; ls /app/data")).output == "/tmp 1\nmade\n"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("row = {}\nreturn row['price']", "KeyError: 'price' (do_it.py, line 5: return row['price'])"),
        ("sys.exit('no more')", "SystemExit: no more (do_it.py, line 4: sys.exit('no more'))"),
        ("return {1, 2}", "do_it returned a value that is not JSON: Object of type set is not JSON serializable"),
        ("return float('nan')", "do_it returned a value that is not JSON"),
        ("return 'x' * 10_000", "the result has 10014 characters, more than the limit of 4800: return less"),
        ("import nopandas", "ModuleNotFoundError: No module named 'nopandas' (do_it.py, line 4: import nopandas)"),
        ("os.kill(os.getpid(), 9)", "do_it ended without a result, exit code 137"),
        ("os._exit(0)", "do_it ended without a result, exit code 0"),
    ],
)
async def test_what_goes_wrong_is_told_in_a_line(body: str, why: str, sandbox: Sandbox) -> None:
    assert why in (await answer_of(sandbox, body))["error"]


async def test_a_call_that_does_not_end_is_killed(sandbox: Sandbox) -> None:
    library = Library([compiled("do_it", f"def do_it():\n{DOC}    while True: pass\n")])
    toolbox = Toolbox(("skills",), context(sandbox, library, SandboxConfig(timeout=0.3)))
    result = await toolbox.run(ToolCall("c", "do_it"))
    assert "was killed after 0.3 seconds" in result.content


@pytest.mark.parametrize("arguments", [{}, {"n": "many"}, {"n": 1, "m": 2}, {"n": None}])
async def test_arguments_are_checked_like_any_tools(arguments: dict[str, Any], sandbox: Sandbox) -> None:
    answer = await answer_of(sandbox, "return n", "n: int", **arguments)
    assert answer["error"].startswith("invalid arguments for do_it: ")


def test_the_schema_is_read_without_running_the_source() -> None:
    source = '''
raise SystemExit("this must not run")
def do_it(a: str, b: "Optional[dict[str, float]]" = None, *, c: list[dict[str, Any]] = [], d: int | float = 1) -> str:
    """Do it to {a: everything}.

    Args:
        a: What to do
            it to.
        d: How often.
    """
'''
    tool = compiled_tools(Library([compiled("do_it", source)]))["do_it"]
    function = tool.beside(()).schema["function"]
    assert function["description"] == "Do it to (a: everything)."
    assert function["parameters"]["required"] == ["a"]
    properties = function["parameters"]["properties"]
    assert properties["a"] == {"description": "What to do it to.", "type": "string"}
    assert properties["b"] == {"type": "object", "additionalProperties": {"type": "number"}}
    assert properties["c"]["type"] == "array"
    assert properties["d"]["anyOf"] == [{"type": "integer"}, {"type": "number"}]


@pytest.mark.parametrize("name", ["", "Report", "a-b", "a__b", "_a", "a_", "1a", "class", "csv", "test_a", "a" * 65])
def test_a_name_that_no_skill_or_module_can_have_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="name: "):
        check_function_name(name)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def other(): pass", "must define the function do_it"),
        ("class A:\n def do_it(self): pass", "must define the function do_it"),
        ("async def do_it():\n 'x'", "not `async def`"),
        ("def do_it(:", "line 1"),
        ("def do_it(): pass", "no docstring"),
        ("def do_it(a):\n 'x'", "argument a has no type"),
        ("def do_it(a: Path):\n 'x'", "argument a has the unsupported type Path; use"),
        ("def do_it(a: list[int, str]):\n 'x'", "argument a has the unsupported type"),
        ("def do_it(*a: int):\n 'x'", "name every argument"),
        ("def do_it(json: str):\n 'x'", "cannot be named 'json'"),
        ("def do_it(_a: str):\n 'x'", "cannot be named '_a'"),
        ("def do_it(a: str = f()):\n 'x'", "default of argument a is not a literal"),
        ("\0", "null"),
    ],
)
def test_what_no_tool_can_be_made_of_is_said_with_how_to_mend_it(source: str, why: str) -> None:
    with pytest.raises(ToolError, match="code: ") as error:
        read_function(source, "do_it")
    assert why in str(error.value)


def names(toolbox: Toolbox) -> list[str]:
    return [schema["function"]["name"] for schema in toolbox.schemas]


async def test_compiled_skills_come_last_and_only_beside_tools_for_skills(sandbox: Sandbox) -> None:
    library = Library([compiled("do_it", f"def do_it():\n{DOC}"), compiled("terminal", f"def terminal():\n{DOC}")])
    given = context(sandbox, library)
    assert names(Toolbox(("terminal", "skills"), given))[-1] == "do_it"
    assert names(Toolbox(("terminal", "skills"), given)).count("terminal") == 1
    assert names(Toolbox(("terminal",), given)) == ["terminal"]
    none = context(sandbox, Library())
    assert Toolbox(("skills",), none).schemas is Toolbox(("skills",), none).schemas  # nothing was put together anew


def test_a_skill_that_is_broken_archived_or_not_compiled_is_no_tool() -> None:
    good = compiled("do_it", f"def do_it():\n{DOC}")
    assert not compiled_tools(Library([compiled("do_it", "def do_it(: pass")]))
    assert not compiled_tools(Library([skill_format.marked(good, state="archived")]))
    assert not compiled_tools(Library([skill_format.marked(good, compiled="")]))
    assert list(compiled_tools(Library([good]))) == ["do_it"]


async def test_one_that_is_written_in_the_session_can_be_called_at_once_but_not_by_a_review(sandbox: Sandbox) -> None:
    given = context(sandbox, Library())
    toolbox = Toolbox(("skills",), given)
    before = toolbox.schemas
    call = ToolCall("c", "do_it")
    assert "unknown tool" in (await toolbox.run(call)).content
    assert given.skills is not None
    skill = compiled("do_it", f"def do_it():\n{DOC}    return 1\n")
    given.skills.manage(SkillEdit("create", "do-it", content=skill.text, compiled="do_it"))
    given.skills.manage(
        SkillEdit("write_file", "do-it", path="scripts/do_it.py", content=f"def do_it():\n{DOC}    return 1\n")
    )
    assert json.loads((await toolbox.run(call)).content) == {"result": 1}
    assert toolbox.schemas == before
    limited = await toolbox.allow(("skill_view",)).run(call)
    assert not limited.executed
    again = Toolbox(("skills",), given).allow(("skill_view",))
    assert "is not allowed now" in (await again.run(call)).content
    given.skills.manage(
        SkillEdit("patch", "do-it", path="scripts/do_it.py", old_string="return 1", new_string="return 2")
    )
    assert json.loads((await Toolbox(("skills",), given).run(call)).content) == {"result": 2}
    given.skills.manage(SkillEdit("delete", "do-it"))
    assert not (await toolbox.run(call)).ok


async def test_an_agent_cannot_call_its_own_skill_compiled(sandbox: Sandbox) -> None:
    given = context(sandbox, Library())
    skill = compiled("do_it", f"def do_it():\n{DOC}")
    create = {"action": "create", "name": "do-it", "description": "About it", "content": skill.text}
    write = {"action": "write_file", "name": "do-it", "path": "scripts/do_it.py", "content": f"def do_it():\n{DOC}"}
    toolbox = Toolbox(("skills",), given)
    assert (await toolbox.run(ToolCall("c", "skill_manage", create))).ok
    assert (await toolbox.run(ToolCall("c", "skill_manage", write))).ok
    assert "unknown tool" in (await toolbox.run(ToolCall("c", "do_it"))).content


async def test_a_loaded_skills_files_lie_where_its_answer_says(sandbox: Sandbox) -> None:
    toolbox = Toolbox(("skills",), context(sandbox, Library([compiled("do_it", f"def do_it():\n{DOC}")])))
    answer = json.loads((await toolbox.run(ToolCall("c", "skill_view", {"name": "do-it"}))).content)
    assert (answer["folder"], answer["files"]) == ("/app/skills/do-it", ["scripts/do_it.py"])
    assert "hermes-" not in answer["content"]
    assert (await sandbox.exec(f"cat {answer['folder']}/scripts/do_it.py")).output == f"def do_it():\n{DOC}"
