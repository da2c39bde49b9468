import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.command import lab
from fakes.processes import cancelled_once
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.given import given_tool
from hermes_lab.tools.registry import Tool, ToolContext, known_tools, unavailable_tools
from hermes_lab.tools.schema import Profile
from hermes_lab.tools.toolbox import Toolbox, check_toolsets, known_toolsets, reload_tools
from hermes_lab.types import ToolCall

pytestmark = pytest.mark.anyio

PLUGIN = '''
import time
import anyio
from hermes_lab.errors import SandboxError, ToolError
from hermes_lab.tools.registry import ToolContext, tool

calls = []

@tool(toolset="plugin")
async def note(ctx: ToolContext, text: str, times: int = 1, tags: list[str] | None = None) -> dict:
    """Note a text."""
    calls.append((text, times, tags))
    return {"noted": text}

@tool(toolset="plugin")
async def fail(ctx: ToolContext, how: str) -> dict:
    """Fail."""
    kinds = {"tool": ToolError, "bug": ZeroDivisionError, "infra": SandboxError}
    raise kinds[how]("as asked")

@tool(toolset="plugin")
def block(ctx: ToolContext, seconds: float) -> dict:
    """Sleep as code does that knows nothing of an event loop."""
    time.sleep(seconds)
    return {"slept": seconds}

@tool(toolset="plugin")
async def hang(ctx: ToolContext) -> dict:
    """Hang."""
    await anyio.sleep_forever()

@tool(toolset="plugin")
async def odd(ctx: ToolContext) -> dict:
    """Answer with what is no JSON."""
    return {"bytes": b""}

@tool(toolset="plugin")
async def grouped(ctx: ToolContext) -> dict:
    """Fail in a task group."""
    async with anyio.create_task_group() as group:
        group.start_soon(fail.handler, ctx, "infra")

running = set()

async def pause(what, seconds):
    running.add(what)
    calls.append((what, sorted(running)))
    try:
        await anyio.sleep(seconds)
    finally:
        running.discard(what)

@tool(toolset="plugin", parallel=True)
async def look(ctx: ToolContext, what: str, seconds: float = 0.01, how: str = "") -> dict:
    """Look."""
    await pause(what, seconds)
    if how:
        await fail.handler(ctx, how)
    return {"seen": what}

@tool(toolset="plugin")
async def touch(ctx: ToolContext, what: str) -> dict:
    """Touch."""
    await pause(what, 0.01)
    return {"touched": what}

@tool(toolset="keyed", requires_env=["LAB_KEY", "LAB_OTHER_KEY"])
async def ring(ctx: ToolContext) -> dict:
    """Ring."""
    return {}

@tool(toolset="half", available=lambda: "it has no ears")
async def hear(ctx: ToolContext) -> dict:
    """Hear."""
    return {}

@tool(toolset="locked", serves=lambda ctx, offered: False)
async def lock(ctx: ToolContext) -> dict:
    """Lock."""
    return {}

@tool(toolset="locked", serves=lambda ctx, offered: "lock" in offered)
async def key(ctx: ToolContext) -> dict:
    """Unlock."""
    return {}

@tool(toolset="half", available=lambda: "")
async def smell(ctx: ToolContext) -> dict:
    """Smell."""
    return {}
'''


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """An installed distribution that brings the toolset `plugin`; gives what its `note` was called with."""
    (tmp_path / "lab_plugin.py").write_text(PLUGIN)
    metadata = tmp_path / "lab_plugin-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-plugin\nVersion: 1\n")
    names = ("note", "fail", "hang", "odd", "grouped", "block", "look", "touch", "ring", "hear", "smell", "lock", "key")
    points = "\n".join(f"{name} = lab_plugin:{name}" for name in names)
    (metadata / "entry_points.txt").write_text(f"[hermes_lab.tools]\n{points}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("LAB_KEY", raising=False)
    monkeypatch.setenv("LAB_OTHER_KEY", "k")
    reload_tools()
    known_tools()
    yield sys.modules["lab_plugin"].calls
    reload_tools()
    del sys.modules["lab_plugin"]


async def run(toolbox: Toolbox, name: str, /, **arguments: Any) -> dict[str, Any]:
    result = await toolbox.run(ToolCall("c1", name, arguments))
    assert (result.call_id, result.name) == ("c1", name)
    answer: dict[str, Any] = json.loads(result.content)
    assert result.ok == ("error" not in answer)
    return answer


async def test_schemas_stand_in_the_order_of_toolsets_then_names(context: ToolContext) -> None:
    toolbox = Toolbox(("terminal", "skills", "file"), context, profile="compact")
    assert names(toolbox) == [
        *("terminal", "skill_manage", "skill_view", "skills_list"),
        *("patch", "read_file", "search_files", "write_file"),
    ]


def names(toolbox: Toolbox) -> list[str]:
    return [schema["function"]["name"] for schema in toolbox.schemas]


async def test_toolsets_may_be_made_of_others_and_of_tools(context: ToolContext) -> None:
    assert names(Toolbox(("reading",), context)) == ["read_file", "search_files"]
    assert names(Toolbox(("todo", "shell", "read_file", "terminal"), context)) == [
        *("todo", "terminal", "process", "read_file")
    ]
    core = known_toolsets()["core"]
    toolsets = ("terminal", "process", "file", "code_execution", "todo", "skills", "memory", "compile")
    toolsets += ("session_search", "delegation", "clarify")
    assert set(core) == {name for toolset in toolsets for name in known_toolsets()[toolset]}
    assert names(Toolbox(("core",), context, profile="compact")) == list(core)


REFUSING = {
    "clarify": "decide yourself",
    "cronjob": "jobs cannot be scheduled here",
    "delegate_task": "child agents are not available",
    "memory": "notes are not available",
    "send_message": "no chat to send to",
    "session_search": "no sessions",
    "skill_compile": "skills are not available",
    "skill_manage": "skills are not available",
    "skill_view": "skills are not available",
    "skills_list": "skills are not available",
    "web_extract": "the web is not available",
    "web_search": "the web is not available",
}
"""The tools that need more than a sandbox, and what they say where it is not there."""
EXAMPLES: dict[str, dict[str, Any]] = {
    "clarify": {"question": "Which?"},
    "cronjob": {"action": "list"},
    "delegate_task": {"goal": "Count."},
    "memory": {"action": "add", "target": "user", "content": "x"},
    "send_message": {"text": "x"},
    "session_search": {"query": "x"},
    "skill_compile": {"name": "f", "purpose": "p", "code": "c", "tests": "t"},
    "skill_manage": {"action": "create", "name": "x"},
    "skill_view": {"name": "x"},
    "web_extract": {"urls": ["https://a.example"]},
    "web_search": {"query": "x"},
}


async def test_a_tool_that_can_only_refuse_is_not_offered(context: ToolContext) -> None:
    everything = ("core", "web", "messages", "cron")
    offered = names(Toolbox(everything, context))
    assert set(names(Toolbox(everything, context, profile="compact"))) - set(offered) == set(REFUSING)
    for name, tool in known_tools().items():
        assert (tool.serves is not None) == (name in REFUSING)


@pytest.mark.parametrize("name", REFUSING)
async def test_a_tool_that_is_not_offered_still_says_why_it_refuses(context: ToolContext, name: str) -> None:
    toolbox = Toolbox(("core", "web", "messages", "cron"), context)
    assert REFUSING[name] in (await run(toolbox, name, **EXAMPLES.get(name, {})))["error"]
    assert REFUSING[name] not in (await run(toolbox.allow(["todo"]), name, **EXAMPLES.get(name, {})))["error"]


async def test_a_toolset_of_refusing_tools_alone_is_an_empty_kit(context: ToolContext) -> None:
    assert Toolbox(("web", "clarify"), context).schemas == ()


async def test_a_tool_that_serves_only_beside_another_goes_with_it(context: ToolContext, calls: list[Any]) -> None:
    assert names(Toolbox(("locked", "plugin"), context)) == names(Toolbox(("plugin",), context))
    assert names(Toolbox(("locked",), context, profile="compact")) == ["key", "lock"]


def skilled(context: ToolContext, *names: str) -> ToolContext:
    skills = [skill_format.parse(skill_format.render(name, "When.", "Do it.")) for name in names]
    session = SkillSession(Library(skills), origin="foreground", episode="e", model="m")
    return ToolContext(context.sandbox, session, context.config)


async def test_an_empty_library_is_shown_only_beside_a_tool_that_can_add_to_it(context: ToolContext) -> None:
    reading = ["skill_view", "skills_list"]
    assert names(Toolbox(reading, skilled(context))) == []
    assert names(Toolbox(reading, skilled(context, "a-skill"))) == reading
    assert names(Toolbox([*reading, "skill_manage"], skilled(context))) == [*reading, "skill_manage"]
    assert names(Toolbox([*reading, "skill_compile"], skilled(context))) == [*reading, "skill_compile"]


async def test_a_toolbox_gives_its_profile_to_what_it_allows(context: ToolContext) -> None:
    some = skilled(context, "a-skill")
    for profile in ("full", "compact"):
        toolbox = Toolbox(("skills",), some, profile=profile)
        assert toolbox.allow(["skill_view"]).schemas is toolbox.schemas
        assert ("such as" in json.dumps(toolbox.schemas)) == (profile == "compact")


async def test_disabled_tools_are_left_out(context: ToolContext) -> None:
    toolbox = Toolbox(("file", "terminal"), context, disabled=("patch", "todo"))
    assert names(toolbox) == ["read_file", "search_files", "write_file", "terminal"]
    assert "unknown tool 'patch'" in (await run(toolbox, "patch", path="f"))["error"]


async def test_an_unknown_toolset_names_the_known_ones(context: ToolContext) -> None:
    with pytest.raises(ConfigError, match=r"agent.toolsets: no toolset 'kitchen'; there are: browser, clarify, "):
        Toolbox(("kitchen",), context)
    with pytest.raises(ConfigError, match=r"no toolset 'read_fil'; did you mean read_file\?"):
        Toolbox(("read_fil",), context)


async def test_a_tool_that_cannot_work_here_is_left_out_of_its_toolset(context: ToolContext, calls: list[Any]) -> None:
    reasons = {"ring": "set LAB_KEY in the environment", "hear": "it has no ears"}
    assert unavailable_tools().items() >= reasons.items()  # a machine may lack a browser, too
    assert names(Toolbox(("half",), context)) == ["smell"]


async def test_to_ask_for_what_cannot_work_here_is_an_error(calls: list[Any]) -> None:
    with pytest.raises(ConfigError, match=r"agent\.toolsets: hear cannot work here: hear: it has no ears"):
        check_toolsets(("hear",))
    with pytest.raises(
        ConfigError, match=r"agent\.toolsets: keyed cannot work here: ring: set LAB_KEY in the environm"
    ):
        check_toolsets(("keyed",))


async def test_a_tool_works_once_its_variables_are_set(
    context: ToolContext, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "k")
    reload_tools()
    assert names(Toolbox(("keyed",), context)) == ["ring"]


@pytest.mark.parametrize("profile", ["full", "compact"])
async def test_null_for_an_optional_argument_is_its_default(
    context: ToolContext, calls: list[Any], profile: Profile
) -> None:
    toolbox = Toolbox(("plugin",), context, profile=profile)
    assert await run(toolbox, "note", text="hi", times=None, tags=None) == {"noted": "hi"}
    assert calls == [("hi", 1, None)]
    assert "text" in (await run(toolbox, "note", text=None))["error"]
    assert "unknown argument" in (await run(toolbox, "note", text="hi", other=None))["error"]


async def test_words_of_the_schema_among_the_arguments_are_dropped(context: ToolContext, calls: list[Any]) -> None:
    toolbox = Toolbox(("plugin",), context)
    noise = {"required": ["text"], "additionalProperties": False, "type": "object"}
    assert await run(toolbox, "note", text="hi", **noise) == {"noted": "hi"}
    assert calls == [("hi", 1, None)]
    assert "unknown argument" in (await run(toolbox, "note", text="hi", properties={}))["error"]


async def test_numbers_and_truths_may_be_written_as_text(context: ToolContext) -> None:
    toolbox = Toolbox(("file",), context)
    await run(toolbox, "write_file", path="f", content="a\na\n")
    assert (await run(toolbox, "read_file", path="f", limit="1"))["content"] == "1|a"
    answer = await run(toolbox, "patch", path="f", old_string="a", new_string="b", replace_all="true")
    assert answer["replacements"] == 2


@pytest.mark.parametrize("known", known_tools().values(), ids=lambda known: known.name)
def test_every_optional_argument_of_every_tool_may_be_null(known: Tool) -> None:
    declared = known.beside(known_tools())
    needed = set(declared.schema["function"]["parameters"].get("required", ()))
    for name, field in declared.arguments.model_fields.items():
        if name not in needed:
            given = declared.arguments._without_noise({name: None})  # what is left is checked as ever
            assert given in ({}, {name: None})
            assert given == {} or field.default is None


async def test_a_null_that_a_given_tool_takes_reaches_it(context: ToolContext) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}, "c": {"type": "integer"}},
        "required": ["c"],
    }
    taken = given_tool("take", "Take.", schema, lambda **arguments: {"got": arguments})
    toolbox = Toolbox((), context, given=(taken,))
    assert await run(toolbox, "take", a=None, b=None, c=None) == {"got": {"b": None, "c": None}}


async def test_a_third_party_brings_tools_by_entry_point(context: ToolContext, calls: list[Any]) -> None:
    assert await run(Toolbox(("plugin",), context), "note", text="hi") == {"noted": "hi"}
    assert calls == [("hi", 1, None)]


async def test_a_taken_name_is_refused(calls: list[Any], tmp_path: Path) -> None:
    points = tmp_path / "lab_plugin-1.dist-info" / "entry_points.txt"
    points.write_text("[hermes_lab.tools]\nterminal = hermes_lab.tools.terminal:terminal\n")
    reload_tools()
    with pytest.raises(ConfigError, match="'terminal', which exists already; rename it"):
        check_toolsets(["terminal"])
    assert check_toolsets(["file"]) == {"patch", "read_file", "search_files", "write_file"}


async def test_a_broken_plugin_stops_only_what_uses_it(
    calls: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = tmp_path / "lab_plugin-1.dist-info" / "entry_points.txt"
    points.write_text("[hermes_lab.tools]\nnote = lab_plugin:note\ngone = lab_plugin_nowhere:gone\n")
    reload_tools()
    error = (
        r"agent\.toolsets: gone \(lab_plugin_nowhere:gone\) cannot be loaded: ModuleNotFoundError: "
        "No module named 'lab_plugin_nowhere'; update or uninstall the package lab-plugin$"
    )
    assert check_toolsets(["file"]) == {"patch", "read_file", "search_files", "write_file"}
    assert re.search(error, caplog.messages[0])
    (tmp_path / "run.yaml").write_text("agent:\n  toolsets: [plugin]\n")
    checked = lab("config", "check", tmp_path / "run.yaml").stdout
    assert checked.startswith(
        f"{tmp_path}/run.yaml:2: agent.toolsets: gone (lab_plugin_nowhere:gone) cannot be loaded: "
    )
    for used in ("plugin", "note", "gone"):
        with pytest.raises(ConfigError, match=error):
            check_toolsets([used])
    with pytest.raises(ConfigError, match=r"no toolset 'walks'.*; these plugins cannot be loaded.*: gone$"):
        check_toolsets(["walks"])
    assert "write_file" in check_toolsets(["file"], ["gone"])
    assert check_toolsets(["plugin"], ["gone"]) == {"note"}


async def test_an_unknown_tool_is_answered_with_the_known_ones(context: ToolContext) -> None:
    answer = await run(Toolbox(("terminal",), context), "shell", command="ls")
    assert answer == {"error": "unknown tool 'shell'; available: terminal"}
    answer = await run(Toolbox(("shell",), context), "terminl", command="ls")
    assert answer == {"error": "unknown tool 'terminl' (did you mean terminal?); available: terminal, process"}


async def test_an_unreadable_call_is_answered_and_not_executed(context: ToolContext, calls: list[Any]) -> None:
    call = ToolCall("c1", "note", {"text": "hi"}, error="not JSON: line 1")
    result = await Toolbox(("plugin",), context).run(call)
    assert (json.loads(result.content), result.ok) == ({"error": "not JSON: line 1"}, False)
    assert calls == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "text: Field required"),
        ({"text": 3}, "text: Input should be a valid string"),
        ({"text": "a", "times": "many"}, "times: Input should be a valid integer"),
        ({"text": "a", "loud": True}, "loud: unknown argument"),
        ({"text": "a", "tags": ["b", 1]}, "tags.1: Input should be a valid string"),
    ],
)
async def test_wrong_arguments_are_named_and_not_executed(
    context: ToolContext, calls: list[Any], arguments: dict[str, Any], complaint: str
) -> None:
    answer = await run(Toolbox(("plugin",), context), "note", **arguments)
    assert answer["error"].startswith("invalid arguments for note: ")
    assert complaint in answer["error"]
    assert calls == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.dictionaries(st.sampled_from(["text", "times", "tags", "x"]), JSON))
async def test_a_handler_sees_only_what_fits_its_signature(
    context: ToolContext, calls: list[Any], arguments: dict[str, Any]
) -> None:
    calls.clear()
    answer = await run(Toolbox(("plugin",), context), "note", **arguments)
    assert bool(calls) == ("error" not in answer)
    for text, times, tags in calls:
        assert isinstance(text, str)
        assert isinstance(times, int)
        assert tags is None or all(isinstance(tag, str) for tag in tags)


async def test_a_failing_tool_tells_the_model_what_failed(context: ToolContext, calls: list[Any]) -> None:
    toolbox = Toolbox(("plugin",), context)
    assert await run(toolbox, "fail", how="tool") == {"error": "as asked"}
    assert await run(toolbox, "fail", how="bug") == {"error": "fail failed: ZeroDivisionError: as asked"}
    assert (await run(toolbox, "odd"))["error"].startswith("odd failed: TypeError: ")


async def test_a_failure_of_the_sandbox_is_no_answer(context: ToolContext, calls: list[Any]) -> None:
    with pytest.raises(SandboxError, match="as asked"):
        await Toolbox(("plugin",), context).run(ToolCall("c1", "fail", {"how": "infra"}))
    with pytest.raises(SandboxError, match="as asked"):
        await Toolbox(("plugin",), context).run(ToolCall("c1", "grouped"))


async def test_a_tool_that_blocks_stops_no_other_work(context: ToolContext, calls: list[Any]) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        assert await run(Toolbox(("block",), context), "block", seconds=0.2) == {"slept": 0.2}
        group.cancel_scope.cancel()
    assert ticks > 10


async def test_cancellation_passes_through(context: ToolContext, calls: list[Any]) -> None:
    with anyio.move_on_after(0.05) as scope:
        await Toolbox(("plugin",), context).run(ToolCall("c1", "hang"))
    assert scope.cancelled_caught


async def test_a_limited_view_shows_all_tools_and_runs_the_allowed(context: ToolContext, calls: list[Any]) -> None:
    toolbox = Toolbox(("plugin", "terminal"), context)
    limited = toolbox.allow({"note"})
    assert limited.schemas == toolbox.schemas
    assert await run(limited, "note", text="hi") == {"noted": "hi"}
    assert await run(limited, "terminal", command="ls") == {"error": "terminal is not allowed now; use: note"}
    assert "output" in await run(toolbox, "terminal", command="ls")


async def test_a_lone_surrogate_becomes_text_that_can_be_written(context: ToolContext, calls: list[Any]) -> None:
    result = await Toolbox(("plugin",), context).run(ToolCall("c1", "note", {"text": "half \ud800"}))
    assert result.content.encode() == b'{"noted": "half ?"}'


def turn(*calls: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(calls)]


async def test_a_turn_is_answered_in_the_order_of_its_calls(context: ToolContext, calls: list[Any]) -> None:
    slow_first = turn(*(("look", {"what": str(n), "seconds": (20 - n) / 500}) for n in range(20)))
    results = await Toolbox(("plugin",), context).run_all(slow_first)
    assert [result.call_id for result in results] == [call.id for call in slow_first]
    assert [json.loads(result.content) for result in results] == [{"seen": str(n)} for n in range(20)]
    assert max(len(running) for _, running in calls) == 8


async def test_only_neighbours_that_change_nothing_run_side_by_side(context: ToolContext, calls: list[Any]) -> None:
    await Toolbox(("plugin",), context).run_all(
        turn(
            ("look", {"what": "a"}),
            ("look", {"what": "b"}),
            ("touch", {"what": "c"}),
            ("touch", {"what": "d"}),
            ("look", {"what": "e"}),
            ("nothing", {}),
            ("look", {"what": "f"}),
        )
    )
    assert calls == [("a", ["a"]), ("b", ["a", "b"]), ("c", ["c"]), ("d", ["d"]), ("e", ["e"]), ("f", ["f"])]


async def test_a_wrong_call_among_parallel_ones_is_answered_in_its_place(
    context: ToolContext, calls: list[Any]
) -> None:
    results = await Toolbox(("plugin",), context).run_all(
        turn(("look", {"what": "a"}), ("look", {}), ("look", {"what": "b", "how": "bug"}), ("look", {"what": "c"}))
    )
    assert [(result.ok, result.executed) for result in results] == [
        (True, True),
        (False, False),
        (False, True),
        (True, True),
    ]


async def test_a_failure_of_the_sandbox_stops_the_calls_beside_it(context: ToolContext, calls: list[Any]) -> None:
    with pytest.raises(SandboxError, match="as asked"):
        await Toolbox(("plugin",), context).run_all(
            turn(
                ("look", {"what": "a", "seconds": 1e6}),
                ("look", {"what": "b", "how": "infra"}),
                ("look", {"what": "c", "how": "infra"}),
                ("touch", {"what": "d"}),
            )
        )
    assert [what for what, _ in calls] == ["a", "b", "c"]
    assert not sys.modules["lab_plugin"].running


async def test_cancellation_stops_all_calls_of_a_turn(context: ToolContext, calls: list[Any]) -> None:
    forever = turn(*(("look", {"what": str(n), "seconds": 1e6}) for n in range(3)), ("touch", {"what": "d"}))
    await cancelled_once(lambda: len(calls) == 3, lambda: Toolbox(("plugin",), context).run_all(forever))
    assert not sys.modules["lab_plugin"].running


async def test_what_a_tool_remembers_ends_with_the_episode(context: ToolContext) -> None:
    toolbox, again = Toolbox(("todo",), context), Toolbox(("todo",), context)
    other = Toolbox(("todo",), ToolContext(context.sandbox, None, context.config))
    await run(toolbox, "todo", todos=[{"id": "1", "content": "Sweep."}])
    assert len((await run(again, "todo"))["todos"]) == 1
    assert (await run(other, "todo"))["todos"] == []
