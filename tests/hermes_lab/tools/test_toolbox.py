import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.tools.registry import Toolbox, ToolContext, known_tools
from hermes_lab.types import ToolCall

pytestmark = pytest.mark.anyio

PLUGIN = '''
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
async def hang(ctx: ToolContext) -> dict:
    """Hang."""
    await anyio.sleep_forever()
'''


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """An installed distribution that brings the toolset `plugin`; gives what its `note` was called with."""
    (tmp_path / "lab_plugin.py").write_text(PLUGIN)
    metadata = tmp_path / "lab_plugin-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-plugin\nVersion: 1\n")
    points = "\n".join(f"{name} = lab_plugin:{name}" for name in ("note", "fail", "hang"))
    (metadata / "entry_points.txt").write_text(f"[hermes_lab.tools]\n{points}\n")
    monkeypatch.syspath_prepend(tmp_path)
    known_tools.cache_clear()
    known_tools()
    yield sys.modules["lab_plugin"].calls
    known_tools.cache_clear()
    del sys.modules["lab_plugin"]


async def run(toolbox: Toolbox, name: str, **arguments: Any) -> dict[str, Any]:
    result = await toolbox.run(ToolCall("c1", name, arguments))
    assert (result.call_id, result.name) == ("c1", name)
    answer: dict[str, Any] = json.loads(result.content)
    assert result.ok == ("error" not in answer)
    return answer


async def test_schemas_stand_in_the_order_of_toolsets_then_names(context: ToolContext) -> None:
    names = [schema["function"]["name"] for schema in Toolbox(("terminal", "skills", "file"), context).schemas]
    assert names == ["terminal", "skill_manage", "skill_view", "patch", "read_file", "write_file"]


async def test_an_unknown_toolset_names_the_known_ones(context: ToolContext) -> None:
    with pytest.raises(ConfigError, match="no toolset 'web'; there are: file, skills, terminal"):
        Toolbox(("web",), context)


async def test_a_third_party_brings_tools_by_entry_point(context: ToolContext, calls: list[Any]) -> None:
    assert await run(Toolbox(("plugin",), context), "note", text="hi") == {"noted": "hi"}
    assert calls == [("hi", 1, None)]


async def test_a_taken_name_is_refused(calls: list[Any], tmp_path: Path) -> None:
    points = tmp_path / "lab_plugin-1.dist-info" / "entry_points.txt"
    points.write_text("[hermes_lab.tools]\nterminal = hermes_lab.tools.terminal:terminal\n")
    known_tools.cache_clear()
    with pytest.raises(ConfigError, match="'terminal' is there already"):
        known_tools()


async def test_an_unknown_tool_is_answered_with_the_known_ones(context: ToolContext) -> None:
    answer = await run(Toolbox(("terminal",), context), "shell", command="ls")
    assert answer == {"error": "unknown tool 'shell'; the tools are: terminal"}


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
        ({"text": "a", "loud": True}, "loud: no such argument"),
        ({"text": "a", "tags": ["b", 1]}, "tags.1: Input should be a valid string"),
    ],
)
async def test_wrong_arguments_are_named_and_not_executed(
    context: ToolContext, calls: list[Any], arguments: dict[str, Any], complaint: str
) -> None:
    answer = await run(Toolbox(("plugin",), context), "note", **arguments)
    assert answer["error"].startswith("bad arguments for note: ")
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


async def test_a_failure_of_the_sandbox_is_no_answer(context: ToolContext, calls: list[Any]) -> None:
    with pytest.raises(SandboxError, match="as asked"):
        await Toolbox(("plugin",), context).run(ToolCall("c1", "fail", {"how": "infra"}))


async def test_cancellation_passes_through(context: ToolContext, calls: list[Any]) -> None:
    with anyio.move_on_after(0.05) as scope:
        await Toolbox(("plugin",), context).run(ToolCall("c1", "hang"))
    assert scope.cancelled_caught


async def test_a_limited_view_shows_all_tools_and_runs_the_allowed(context: ToolContext, calls: list[Any]) -> None:
    toolbox = Toolbox(("plugin", "terminal"), context)
    limited = toolbox.allow({"note"})
    assert limited.schemas == toolbox.schemas
    assert await run(limited, "note", text="hi") == {"noted": "hi"}
    assert await run(limited, "terminal", command="ls") == {"error": "terminal may not be used now; use: note"}
    assert "output" in await run(toolbox, "terminal", command="ls")


async def test_a_lone_surrogate_becomes_text_that_can_be_written(context: ToolContext, calls: list[Any]) -> None:
    result = await Toolbox(("plugin",), context).run(ToolCall("c1", "note", {"text": "half \ud800"}))
    assert result.content.encode() == b'{"noted": "half ?"}'
