"""The Hermes text format."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.models.hermes_format import (
    parse_arguments,
    parse_reply,
    render_calls,
    render_results,
    render_tools,
)
from hermes_lab.types import ToolCall, ToolResult

TOOL = {
    "type": "function",
    "function": {
        "name": "terminal",
        "description": "Runs <b> & 'é'.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain_texts = texts.filter(lambda text: "<tool_call>" not in text and "think>" not in text)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(texts, json_values, max_size=3)
names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


@given(plain_texts, st.lists(st.tuples(names, arguments), max_size=3))
def test_rendered_calls_are_parsed_back(content: str, calls: list[tuple[str, dict]]) -> None:
    made = tuple(ToolCall(f"call_{i}", name, args) for i, (name, args) in enumerate(calls))
    parsed = parse_reply(render_calls(content.strip(), made))
    assert parsed == (content.strip(), "", made)


@given(st.text())
def test_no_text_makes_the_parser_fail(text: str) -> None:
    parse_reply(text)
    parse_reply(f"<tool_call>{text}")


def test_tags_and_braces_inside_arguments_are_not_structure() -> None:
    call = ToolCall("call_0", "write", {"text": "</tool_call> <tool_call> }}} {", "deep": {"a": {"b": {}}}})
    assert parse_reply(render_calls("", [call])).calls == (call,)


def test_a_bad_call_among_good_ones_spoils_only_itself() -> None:
    good = '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>'
    bad = "<tool_call>\n{'name': 'b'}\n</tool_call>"
    content, _, calls = parse_reply(f"First.\n{good}\n{bad}\n{good}\nDone.")
    assert content == "First.\nDone."
    assert [call.name for call in calls] == ["a", "", "a"]
    assert [bool(call.error) for call in calls] == [False, True, False]
    assert calls[1].raw == "{'name': 'b'}"
    assert [call.id for call in calls] == ["call_0", "call_1", "call_2"]


def test_a_missing_closing_tag_is_forgiven_when_the_json_is_whole() -> None:
    assert parse_reply('<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n').calls == (
        ToolCall("call_0", "a", {"x": 1}),
    )


def test_a_call_without_closing_tag_ends_at_the_next_one() -> None:
    one = '<tool_call>{"name": "a", "arguments": {}}'
    assert [call.name for call in parse_reply(one + one).calls] == ["a", "a"]
    broken, whole = parse_reply("<tool_call>{oops" + one).calls
    assert (broken.raw, whole.name) == ("{oops", "a")


def test_a_cut_off_call_is_an_error_that_keeps_its_text() -> None:
    (call,) = parse_reply('Look: <tool_call>{"name": "a", "arguments": {"x": "12').calls
    assert "Unterminated string" in call.error
    assert call.raw == '{"name": "a", "arguments": {"x": "12'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("[1]", "expected a JSON object, not an array"),
        ('{"arguments": {}}', '"name" must be'),
        ('{"name": "a", "arguments": [1]}', "arguments must be a JSON object, not an array"),
        ('{"name": "a", "arguments": "no json"}', "not JSON"),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"name": "a", "arguments": {"x": "\\ud800"}}', "cannot represent"),
        ('{"name": "a", "arguments": {}}}', "text between"),
        ('{"name": "a", "arguments": ' + '{"x":' * 50_000, "nested too deeply"),
    ],
)
def test_what_is_no_call_says_why(body: str, reason: str) -> None:
    (call,) = parse_reply(f"<tool_call>\n{body}\n</tool_call>").calls
    assert reason in call.error
    assert call.raw == body
    assert call.arguments == {}


def test_arguments_may_be_a_json_string_or_absent() -> None:
    assert parse_arguments('{"x": "1"}') == {"x": "1"}
    assert parse_arguments(" ") == parse_arguments(None) == {}


def test_line_breaks_inside_strings_are_read_as_they_stand() -> None:
    (call,) = parse_reply('<tool_call>{"name": "a", "arguments": {"x": "1\n2"}}</tool_call>').calls
    assert call.arguments == {"x": "1\n2"}


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>\nhm <tool_call>\n</think>\nyes", "hm <tool_call>", "yes"),
        ("hm</think>yes", "hm", "yes"),
        ("<think>never closed", "never closed", ""),
        ("no thought", "", "no thought"),
    ],
)
def test_reasoning_is_parted_from_the_reply(text: str, reasoning: str, content: str) -> None:
    assert parse_reply(text) == (content, reasoning, ())


def test_an_unparsed_call_is_rendered_as_it_was_written() -> None:
    text = "<tool_call>\n{'name': 1}\n</tool_call>"
    assert render_calls("", parse_reply(text).calls) == text


def test_results_stand_verbatim_in_order() -> None:
    results = [ToolResult("1", "a", '{"x": "<é>"}'), ToolResult("2", "b", "{}")]
    assert render_results(results) == (
        '<tool_response>\n{"x": "<é>"}\n</tool_response>\n<tool_response>\n{}\n</tool_response>'
    )


def test_the_texts_are_those_of_the_qwen_chat_template() -> None:
    """The server's rendering of structured messages (`native`) is the text that we send (`hermes`)."""
    trl = pytest.importorskip("trl")
    jinja2 = pytest.importorskip("jinja2")
    folder = Path(trl.__file__).parent / "chat_templates"
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    template = environment.from_string((folder / "qwen2_5.jinja").read_text())

    call = ToolCall("1", "terminal", {"command": "echo 'é' > \"x\""})
    results = [ToolResult("1", "terminal", '{"a": 1}'), ToolResult("2", "terminal", "{}")]
    wired = {"function": {"name": call.name, "arguments": call.arguments}}
    native = template.render(
        tools=[TOOL, TOOL],
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "Well.", "tool_calls": [wired, wired]},
            *({"role": "tool", "content": result.content} for result in results),
        ],
    )
    text = template.render(
        messages=[
            {"role": "system", "content": "Be brief.\n\n" + render_tools([TOOL, TOOL])},
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": render_calls("Well.", [call, call])},
            {"role": "user", "content": render_results(results)},
        ],
    )
    assert text == native


CALL = '{"name": "f", "arguments": {"x": 1}}'
OTHER = '{"name": "g", "parameters": {}}'


@pytest.mark.parametrize(
    ("text", "calls", "content"),
    [
        (f"```json\n{CALL}\n```", ["f"], ""),
        (f"```\n{CALL}\n```", ["f"], ""),
        (f"```tool_call\n{CALL}\n```", ["f"], ""),
        (f"~~~~ JSON\n{CALL}\n~~~~", ["f"], ""),
        (f"``` {CALL} ```", ["f"], ""),
        (f"I look.\n```json\n{CALL}\n```\nand\n  ```\n\n {OTHER}\n\n  ```\n", ["f", "g"], None),
        (f"```json\n{CALL}\n```<|im_end|>", ["f"], ""),
        (f"<think>so</think>\n```json\n{CALL}\n```", ["f"], ""),
        (f"  {CALL}\n", ["f"], ""),
        ('```json\n{"function": "f", "arguments": {"a": 1}}\n```', ["f"], ""),
        ('{"type": "function", "name": "f", "parameters": {"a": 1}}', ["f"], ""),
        ('```json\n{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}\n```', ["f"], ""),
        (f"{OTHER}</s>", ["g"], ""),
        (f"<think>so</think>{CALL}", ["f"], ""),
        ('```json\n{"name": "w", "arguments": {"text": "a\n```\nb\n```\n"}}\n```', ["w"], ""),
        (f"```python\nx = 1\n```\n```json\n{CALL}\n```", ["f"], "```python\nx = 1\n```"),
        (f"```json\n{{oops\n```\n```json\n{CALL}\n```", ["f"], "```json\n{oops\n```"),
    ],
)
def test_a_call_in_a_fence_or_bare_is_a_call(text: str, calls: list[str], content: str | None) -> None:
    reply = parse_reply(text)
    assert [call.name for call in reply.calls] == calls
    assert [call.id for call in reply.calls] == [f"call_{n}" for n in range(len(calls))]
    assert not any(call.error for call in reply.calls)
    assert reply.content == ("I look.\nand" if content is None else content)
    assert reply.reasoning == ("so" if "<think>" in text else "")


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"name": "Ada", "age": 36}\n```',
        '```json\n{"name": "f", "arguments": {}, "why": "x"}\n```',
        '```json\n{"name": "f", "arguments": [1]}\n```',
        '```json\n{"name": "f", "arguments": "x"}\n```',
        '```json\n{"name": 7, "arguments": {}}\n```',
        '```json\n{"name": "", "arguments": {}}\n```',
        '```json\n{"name": "f"}\n```',
        '```json\n{"type": "person", "name": "f", "arguments": {}}\n```',
        '```json\n{"function": {"name": "f"}, "arguments": {}}\n```',
        f"```json\n[{CALL}]\n```",
        f"```json\n{CALL}\n{CALL}\n```",
        f"```json\n// a call\n{CALL}\n```",
        f"```python\n{CALL}\n```",
        f"```json title\n{CALL}\n```",
        f"```json\n{CALL}",
        f"````json\n{CALL}\n```",
        f"```python\nx\n```\n{CALL}\n```\ny\n```",
        f"A call looks so: {CALL}",
        f"{CALL} is a call.",
        f"{CALL}\n{OTHER}",
        f"```json\n{CALL}\n```\nThat would be the call.",
        f"`{CALL}`",
    ],
)
def test_any_other_json_is_text(text: str) -> None:
    reply = parse_reply(text)
    assert reply.calls == ()
    assert reply.content == text


@pytest.mark.parametrize(
    ("text", "tools", "calls"),
    [
        (f"So:\n```json\n{CALL}\n```", ["f"], ["f"]),
        (f"So:\n```json\n{CALL}\n```", ["g"], []),
        (f"So:\n```json\n{CALL}\n```\n```json\n{OTHER}\n```", ["f"], []),
        (f"```json\n{CALL}\n```", ["g"], ["f"]),
        (f"```json\n{CALL}\n```", [], []),
        (CALL, [], []),
        (f"```json\r\n{CALL}\r\n```\r\n", ["f"], ["f"]),
        (f"So:\r\n```json\r\n{CALL}\r\n```\r\n", ["f"], ["f"]),
    ],
)
def test_a_fence_is_a_call_of_a_tool_that_there_is(text: str, tools: list[str], calls: list[str]) -> None:
    assert [call.name for call in parse_reply(text, tools).calls] == calls


def test_beside_a_block_a_fence_is_text() -> None:
    reply = parse_reply(f"```json\n{CALL}\n```\n<tool_call>\n{OTHER}\n</tool_call>")
    assert [call.name for call in reply.calls] == ["g"]
    assert reply.content == f"```json\n{CALL}\n```"


def test_very_many_fences_take_no_time() -> None:
    started = time.process_time()
    parse_reply('```json\n{"a": "\n' * 20_000)
    parse_reply("```json\n{}\n```\n" * 20_000)
    assert time.process_time() - started < 2  # CPU time, whatever else runs
