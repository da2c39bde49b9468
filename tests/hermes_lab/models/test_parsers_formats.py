"""Texts as the families write them, what only one family does, and the registry."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.models import parsers
from hermes_lab.types import ToolCall

FAMILIES = [
    "deepseek_v3", "deepseek_v3_1", "glm45", "glm47", "hermes", "kimi_k2", "llama", "longcat", "mistral", "qwen",
    "qwen3_coder",
]  # fmt: skip


def schema(**properties: Any) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": "other"}},
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": properties}}},
    ]


def read(name: str, text: str, schemas: list[dict[str, Any]] | None = None) -> list[ToolCall]:
    return list(parsers.get(name)(text, schemas or ()).calls)


@pytest.mark.parametrize(
    ("name", "text", "calls"),
    [
        ("qwen", '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', [("f", {"x": 1})]),
        (
            "mistral",
            '[TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}, {"name": "g"}] ok',
            [("f", {"x": 1}), ("g", {})],
        ),
        ("mistral", '[TOOL_CALLS]f{"x": 1}[TOOL_CALLS]g[ARGS]{}', [("f", {"x": 1}), ("g", {})]),
        ("llama", '{"name": "f", "parameters": {"x": 1}}', [("f", {"x": 1})]),
        ("llama", '{"type": "function", "name": "f", "parameters": {"x": 1}}', [("f", {"x": 1})]),
        ("llama", 'So:\n {"name": "f", "arguments": {}};  {"name": "g", "parameters": {}};', [("f", {}), ("g", {})]),
        (
            "llama",
            '<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}',
            [("f", {}), ("g", {})],
        ),
        (
            "llama",
            '<|python_tag|>{"parameters": {}, "name": "f"}<|python_tag|>{"name": "g", "parameters": {}}',
            [("f", {}), ("g", {})],
        ),
        (
            "deepseek_v3",
            '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"x": 1}\n<｜tool▁call▁end｜>',
            [("f", {"x": 1})],
        ),
        ("deepseek_v3_1", "<｜tool▁call▁begin｜>f<｜tool▁sep｜><｜tool▁call▁end｜>", [("f", {})]),
        (
            "kimi_k2",
            '<|tool_call_begin|>a.f-1:12 <|tool_call_argument_begin|> {"x": 1}<|tool_call_end|>',
            [("a.f-1", {"x": 1})],
        ),
        ("kimi_k2", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|><|tool_call_end|>", [("f", {})]),
        ("longcat", '<longcat_tool_call>{"name": "f", "arguments": {}}', [("f", {})]),
        ("longcat", "<longcat_tool_call>f</longcat_tool_call>", [("f", {})]),
        (
            "glm45",
            "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value> a\nb </arg_value>\n</tool_call>",
            [("f", {"x": " a\nb "})],
        ),
        (
            "glm47",
            "<tool_call>f</tool_call>\n<tool_call>g<arg_key>x</arg_key><arg_value></arg_value></tool_call>",
            [("f", {}), ("g", {"x": ""})],
        ),
        (
            "qwen3_coder",
            "<function=f>\n<parameter=x>\na\n\n</parameter>\n</function>\n</tool_call>",
            [("f", {"x": "a\n"})],
        ),
        (
            "qwen3_coder",
            "<tool_call><function=f><parameter=x>a</parameter></function></tool_call>",
            [("f", {"x": "a"})],
        ),
    ],
)
def test_texts_of_the_families(name: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert [(call.name, call.arguments, call.error) for call in read(name, text)] == [(*call, "") for call in calls]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("mistral", "[TOOL_CALLS]", "start with NAME"),
        ("mistral", "[TOOL_CALLS]f[ARGS]", "not JSON"),
        ("mistral", "[TOOL_CALLS][]", "contains no call"),
        ("mistral", '[TOOL_CALLS][{"name": "f", "arg', "not JSON"),
        ("mistral", '[TOOL_CALLS]f{"x": 1}, "y": 2}', "text after"),
        ("llama", "<|python_tag|>brave_search.call(query='x')", "not JSON"),
        ("llama", '<|python_tag|>{"name": "f"}', '"parameters"'),
        ("llama", '{"name": "f", "parameters": {}, "arguments": {}}', '"parameters"'),
        ("llama", '{"name": "f", "parameters": [1]}', "JSON object"),
        ("llama", '{"name": "f", "parameters": {}}}', "text after"),
        ("llama", '{"name": "f", "parameters": {"x": "12', "Unterminated"),
        ("deepseek_v3", "<｜tool▁calls▁begin｜>f({})<｜tool▁calls▁end｜>", "contains no call"),
        ("deepseek_v3", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>", "must start with"),
        ("deepseek_v3_1", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>[1]<｜tool▁call▁end｜>", "JSON object, not an array"),
        ("deepseek_v3_1", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}}<｜tool▁call▁end｜>", "text between"),
        ("deepseek_v3_1", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>", "not JSON"),
        ("kimi_k2", "<|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|>", "functions.NAME:INDEX"),
        ("glm45", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n", "does not end"),
        ("glm45", "<tool_call>f\n<arg_key>x</arg_key>\n</tool_call>", "malformed"),
        ("glm45", "<tool_call>f", "missing"),
        ("qwen3_coder", "<tool_call>\n</tool_call>", "must start with <function=NAME>"),
        ("qwen3_coder", "<function=f>\n<parameter=x>\n1\n</parameter>\n</function>", "does not end"),
        ("qwen3_coder", "<function=f></function>", "missing"),
        (
            "qwen3_coder",
            "<function=f>" + "<parameter=x>1</parameter>" * 2 + "</function></tool_call>",
            "'x' occurs twice",
        ),
    ],
)
def test_what_is_no_call_says_why(name: str, text: str, reason: str) -> None:
    (call,) = read(name, text)
    assert (call.name, call.arguments) == ("", {})
    assert reason in call.error


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada", "age": 36} is one; "x"',
        'Write {"name": "f", "parameters": {}} in one line.',
        '```\n[{"name": "f", "parameters": {}}]\n```',
    ],
)
def test_other_json_is_an_answer_of_llama(text: str) -> None:
    assert parsers.get("llama")(text) == (text, "", ())


def test_kimi_keeps_its_ids_and_no_id_stands_twice() -> None:
    text = "<|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert [call.id for call in read("kimi_k2", text + text)] == ["functions.f:3", "call_1"]
    assert [call.id for call in read("mistral", "[TOOL_CALLS]f[CALL_ID]abc123DEF[ARGS]{}")] == ["abc123DEF"]


@pytest.mark.parametrize(
    ("name", "inner"),
    [
        ("deepseek_v3_1", "<｜tool▁call▁begin｜>rm<｜tool▁sep｜>{}<｜tool▁call▁end｜>"),
        ("kimi_k2", "<|tool_call_begin|>functions.rm:1<|tool_call_argument_begin|>{}<|tool_call_end|>"),
        ("mistral", "[TOOL_CALLS]rm{}"),
    ],
)
def test_a_call_inside_a_string_of_a_broken_call_is_not_run(name: str, inner: str) -> None:
    head = inner.split("{}")[0]
    for broken in (
        f'{{"x": oops, "y": "{inner}"}}',
        f'{{"y": "\\d {inner}"}}',
        f'{{"y": "{inner} ',
        f'{{"y": "{inner}"',
    ):
        assert all(call.error for call in read(name, head + broken))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "qwen3_coder",
            "<tool_call><function=f><parameter=x>never closed</tool_call>"
            "<tool_call><function=g><parameter=y>1</parameter></function></tool_call> after",
        ),
        (
            "glm45",
            "<tool_call>f<arg_key>x</arg_key><arg_value>never closed</tool_call>"
            "<tool_call>g<arg_key>y</arg_key><arg_value>1</arg_value></tool_call> after",
        ),
    ],
)
def test_text_with_two_readings_is_run_in_neither(name: str, text: str) -> None:
    content, _, (call,) = parsers.get(name)(text)
    assert "contains another tool call" in call.error
    assert content == "after"


@pytest.mark.parametrize("name", ["qwen3_coder", "glm45", "longcat"])
@pytest.mark.parametrize(
    ("text", "of_type", "value"),
    [
        ('{"a": 1}', {"type": "string"}, '{"a": 1}'),
        ("12", {"type": "string"}, "12"),
        (" 12 ", {}, " 12 "),
        ("12", {"type": "integer"}, 12),
        ('"5"', {"type": "integer"}, "5"),
        ("1.5", {"type": "number"}, 1.5),
        ("true", {"type": "boolean"}, True),
        ("True", {"type": "boolean"}, "True"),
        (' [1, "a"] ', {"type": "array"}, [1, "a"]),
        ('{"a": {"b": "\n"}}', {"type": "object"}, {"a": {"b": "\n"}}),
        ("{'a': 1}", {"type": "object"}, "{'a': 1}"),
        ("[1] [2]", {"type": "array"}, "[1] [2]"),
        ("NaN", {"type": "number"}, "NaN"),
        ("null", {"type": ["string", "null"]}, None),
        ("12", {"type": ["string", "null"]}, "12"),
        ("[1]", {"anyOf": [{"type": "string"}, {"type": "array"}]}, [1]),
        ("[1]", {"anyOf": [{"type": "string"}, {"type": "object"}]}, "[1]"),
        ("2", {"enum": [1, 2]}, 2),
        ("2", {"enum": ["1", "2"]}, "2"),
        ("2", {"const": 2}, 2),
        ('{"a": 1}', {"$ref": "#/$defs/Node"}, {"a": 1}),
        ("1", {"$ref": "#/$defs/Loop"}, "1"),
        ("1", {"$ref": "#/nowhere"}, "1"),
    ],
)
def test_text_becomes_what_the_schema_says(name: str, text: str, of_type: dict[str, Any], value: object) -> None:
    schemas = schema(x=of_type)
    schemas[1]["function"]["parameters"]["$defs"] = {
        "Node": {"type": "object"},
        "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}]},
    }
    written = {
        "qwen3_coder": f"<tool_call>\n<function=f>\n<parameter=x>\n{text}\n</parameter>\n</function>\n</tool_call>",
        "glm45": f"<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>",
        "longcat": "<longcat_tool_call>f\n<longcat_arg_key>x</longcat_arg_key>\n"
        f"<longcat_arg_value>{text}</longcat_arg_value>\n</longcat_tool_call>",
    }[name]
    (call,) = read(name, written, schemas)
    assert call == ToolCall("call_0", "f", {"x": value})
    assert type(call.arguments["x"]) is type(value)


def test_long_arguments_are_whole_wherever_the_reader_cuts_them() -> None:
    tail = [-1.5e-10, True, None, 123456, '\\ " 😀', {"a": []}]
    for pad in range(3_960, 4_100):
        arguments = {"pad": "x" * pad, "tail": tail}
        text = f"<tool_call>{json.dumps({'name': 'f', 'arguments': arguments})}</tool_call>"
        assert read("hermes", text) == [ToolCall("call_0", "f", arguments)]


def test_every_family_is_there_and_an_unknown_one_names_them() -> None:
    assert [name for name in parsers.names() if name in FAMILIES] == FAMILIES
    assert not any(name.startswith("_") for name in parsers.names())
    for unknown in ("gpt", "", "_blocks"):
        with pytest.raises(ConfigError, match=f"model.tool_parser: no parser {unknown!r}; available: .*deepseek_v3, "):
            parsers.get(unknown)


def test_a_third_party_brings_a_parser_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab_parser.py").write_text("def parse(text, schemas=(), /): return text.upper(), '', ()\n")
    info = tmp_path / "lab_parser-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-parser\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hermes_lab.tool_parsers]\nmine = lab_parser:parse\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "mine" in parsers.names()
    assert parsers.get("mine")("a") == ("A", "", ())
    del sys.modules["lab_parser"]


END_TOKENS = [
    *("<|eom_id|>", "<|eot_id|>", "<|eot|>", "</s>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<eos>"),
    *("<｜end▁of▁sentence｜>", "<end_of_turn>", "<|end|>", "<|call|>", "<|user|>", "<|observation|>"),
]
ENDED = {
    "deepseek_v3": '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"x": 1}\n```<｜tool▁call▁end｜>',
    "deepseek_v3 open": '<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"x": 1}\n```',
    "deepseek_v3_1": '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": 1}',
    "glm45": "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>',
    "hermes open": '<tool_call>\n{"name": "f", "arguments": {"x": 1}}',
    "kimi_k2": '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"x": 1}',
    "llama": '{"name": "f", "parameters": {"x": 1}}',
    "llama tag": '<|python_tag|>{"name": "f", "parameters": {"x": 1}}',
    "longcat": '<longcat_tool_call>{"name": "f", "arguments": {"x": 1}}',
    "mistral": '[TOOL_CALLS]f[ARGS]{"x": 1}',
    "mistral array": '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}}]',
    "qwen3_coder": "<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
}


@pytest.mark.parametrize("token", END_TOKENS)
@pytest.mark.parametrize("family", ENDED)
def test_an_end_token_behind_a_call_spoils_nothing(family: str, token: str) -> None:
    call = ENDED[family]
    parse = parsers.get(family.split()[0])
    given = schema(x={"type": "integer"})
    for text, count, content in (
        (f"So.\n{call}{token}", 1, "So."),
        (f"So.\n{call}\n{token}\n{token}\n", 1, "So."),
        (f"So.\n{call}{token}\n{call}{token}", 2, "So."),
        (f"So.\n{call}{token}Then.{token}\n", 1, "So.\nThen."),
    ):
        reply = parse(text, given)
        assert [(c.name, c.arguments, c.error) for c in reply.calls] == [("f", {"x": 1}, "")] * count, text
        assert reply.content == content


def test_an_end_token_inside_a_value_is_text() -> None:
    (call,) = read("hermes", '<tool_call>{"name": "f", "arguments": {"x": "a</s>"}}</tool_call></s>')
    assert call.arguments == {"x": "a</s>"}
    (cut,) = read("hermes", '<tool_call>{"name": "f", "arguments": {"x": "a</s>')
    assert cut.error


CALL_OBJECTS = {
    "hermes": "<tool_call>{}</tool_call>",
    "qwen": "<tool_call>{}</tool_call>",
    "longcat": "<longcat_tool_call>{}</longcat_tool_call>",
    "mistral": "[TOOL_CALLS][{}]",
}


@pytest.mark.parametrize("name", CALL_OBJECTS)
@pytest.mark.parametrize("key", ["arguments", "parameters", "args", "input"])
@pytest.mark.parametrize("value", [{"x": 1}, '{"x": 1}'])
def test_arguments_under_another_key_are_arguments(name: str, key: str, value: object) -> None:
    (call,) = read(name, CALL_OBJECTS[name].format(json.dumps({"name": "f", key: value})))
    assert (call.name, call.arguments, call.error) == ("f", {"x": 1}, "")


@pytest.mark.parametrize("name", CALL_OBJECTS)
@pytest.mark.parametrize(
    "more",
    [
        {"x": 1},
        {"params": {"x": 1}},
        {"arguments": None, "command": "ls"},
        {"arguments": {}, "parameters": {"x": 1}},
        {"arguments": " ", "input": {"x": 1}},
        {"parameters": {"x": 1}, "args": {"y": 2}},
        {"parameters": [1]},
        {"input": "ls"},
    ],
)
def test_a_call_never_runs_without_arguments_that_stand_in_it(name: str, more: dict[str, Any]) -> None:
    (call,) = read(name, CALL_OBJECTS[name].format(json.dumps({"name": "f", **more})))
    assert call.error
    assert "arguments" in call.error or "JSON" in call.error


@pytest.mark.parametrize("name", CALL_OBJECTS)
@pytest.mark.parametrize("more", [{}, {"arguments": None}, {"arguments": {}}, {"id": "c9", "type": "function"}])
def test_a_call_may_have_no_arguments(name: str, more: dict[str, Any]) -> None:
    (call,) = read(name, CALL_OBJECTS[name].format(json.dumps({"name": "f", **more})))
    assert (call.name, call.arguments, call.error) == ("f", {}, "")
