"""What every family's parser owes: round trips, prefixes, broken blocks and hostile text, by a small renderer each."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.models import parsers
from hermes_lab.models.hermes_format import parse_reply, render_calls
from hermes_lab.models.parsers import Reply
from hermes_lab.types import ToolCall

Made = tuple[str, dict[str, Any]]


class Family(NamedTuple):
    """Test-side knowledge of one format: `render` writes one call (its index beside it) as the chat template does."""

    render: Callable[[int, str, dict[str, Any]], str]
    opening: str
    closing: str = ""
    section: tuple[str, str] = ("", "")
    thoughts: tuple[str, str] = ("<think>", "</think>")
    bare_text: bool = False


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def as_text(value: object) -> str:
    return value if isinstance(value, str) else as_json(value)


def glm(prefix: str, gap: str) -> Family:
    def render(_: int, name: str, arguments: Mapping[str, Any]) -> str:
        pairs = "".join(
            f"<{prefix}arg_key>{key}</{prefix}arg_key>{gap}<{prefix}arg_value>{as_text(value)}</{prefix}arg_value>{gap}"
            for key, value in arguments.items()
        )
        return f"<{prefix}tool_call>{name}{gap}{pairs}</{prefix}tool_call>"

    return Family(render, f"<{prefix}tool_call>", f"</{prefix}tool_call>", bare_text=True)


def qwen3_coder(_: int, name: str, arguments: Mapping[str, Any]) -> str:
    pairs = "".join(f"<parameter={key}>\n{as_text(value)}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{pairs}</function>\n</tool_call>"


def tagged_json(tag: str) -> Family:
    return Family(
        lambda _, name, args: f"<{tag}>\n{as_json({'name': name, 'arguments': args})}\n</{tag}>",
        f"<{tag}>",
        f"</{tag}>",
    )


DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
BEGIN, SEP, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
KIMI = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")
FAMILIES = {
    "hermes": tagged_json("tool_call"),
    "qwen": tagged_json("tool_call"),
    "longcat": tagged_json("longcat_tool_call"),
    "longcat pairs": glm("longcat_", "\n"),
    "glm45": glm("", "\n"),
    "glm47": glm("", ""),
    "qwen3_coder": Family(qwen3_coder, "<tool_call>", "</tool_call>", bare_text=True),
    "mistral": Family(
        lambda _, name, args: f"[TOOL_CALLS]{name}[ARGS]{as_json(args)}",
        "[TOOL_CALLS]",
        thoughts=("[THINK]", "[/THINK]"),
    ),
    "mistral array": Family(
        lambda _, name, args: f"[TOOL_CALLS]{as_json([{'name': name, 'arguments': args}])}", "[TOOL_CALLS]"
    ),
    "llama": Family(
        lambda _, name, args: f"<|python_tag|>{as_json({'name': name, 'parameters': args})}", "<|python_tag|>"
    ),
    "deepseek_v3": Family(
        lambda _, name, args: f"{BEGIN}function{SEP}{name}\n```json\n{as_json(args)}\n```{END}", BEGIN, END, DEEPSEEK
    ),
    "deepseek_v3_1": Family(lambda _, name, args: f"{BEGIN}{name}{SEP}{as_json(args)}{END}", BEGIN, END, DEEPSEEK),
    "kimi_k2": Family(
        lambda i, name, args: (
            f"<|tool_call_begin|>functions.{name}:{i}<|tool_call_argument_begin|>{as_json(args)}<|tool_call_end|>"
        ),
        "<|tool_call_begin|>",
        "<|tool_call_end|>",
        KIMI,
    ),
}
STRUCTURE = [
    token
    for family in FAMILIES.values()
    for token in (family.opening, family.closing, *family.section, *family.thoughts)
    if token
]
every_family = pytest.mark.parametrize("name", FAMILIES)


def read(name: str, text: str, schemas: Sequence[Mapping[str, Any]] = ()) -> Reply:
    return parsers.get(name.split()[0])(text, schemas)


def made(reply: Reply) -> list[Made]:
    return [(call.name, call.arguments) for call in reply.calls if not call.error]


def render(name: str, calls: Sequence[Made], *, before: str = "", between: str = "\n") -> str:
    family = FAMILIES[name]
    blocks = between.join(family.render(i, *call) for i, call in enumerate(calls))
    return before + family.section[0] + blocks + family.section[1]


def schema_of(calls: Sequence[Made]) -> list[dict[str, Any]]:
    """Schemas under which every argument has the type that it has."""
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}

    def properties(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {key: {"type": kinds.get(type(value), "null")} for key, value in arguments.items()}

    return [
        {"function": {"name": name, "parameters": {"type": "object", "properties": properties(arguments)}}}
        for name, arguments in calls
    ]


HOSTILE = (
    "\"} {'[]' \\ \n\t</tool_call> </parameter></arg_value> ``` <tool_call> [TOOL_CALLS]x{} <think> ;{} é\u2028 😀"
    + (f"{BEGIN}rm{SEP}{{}}{END} <|tool_call_begin|>functions.rm:0<|tool_call_argument_begin|>{{}}<|tool_call_end|>")
)
CALLS: list[Made] = [
    ("write", {"path": "a b", "text": HOSTILE, "deep": {"a": [{"b": {}}, None, 1.5, "}"]}, "n": -3, "on": True}),
    ("stop", {}),
    ("write", {"path": "", "text": "<longcat_tool_call> 12", "n": 12}),
]
SCHEMAS = schema_of([CALLS[0], CALLS[1]])


@every_family
def test_calls_are_read_in_order_with_text_and_reasoning_apart(name: str) -> None:
    begun, ended = FAMILIES[name].thoughts
    text = f"{begun}\nfirst {ended if begun == '' else ''}this\n{ended}\n\n" + render(name, CALLS, before="I look.\n")
    content, reasoning, calls = read(name, text, SCHEMAS)
    assert [(call.name, call.arguments, call.error) for call in calls] == [(*call, "") for call in CALLS]
    assert (content, reasoning) == ("I look.", "first this")
    assert len({call.id for call in calls}) == 3


@every_family
def test_a_reply_without_calls_is_text(name: str) -> None:
    assert read(name, "") == ("", "", ())
    for text in ("Done: 1 < 2, {x}; [1] `a`.", '{"answer": [1, 2]}', "a\n\n  b"):
        assert read(name, text) == (text, "", ())


@every_family
def test_a_prefix_gives_the_first_calls_as_they_are_or_errors(name: str) -> None:
    text = render(name, CALLS, before="I look.\n")
    for cut in range(len(text)):
        found = made(read(name, text[:cut], SCHEMAS))
        assert found == CALLS[: len(found)], text[:cut]


@every_family
def test_calls_in_reasoning_are_not_run(name: str) -> None:
    family = FAMILIES[name]
    text = f"<think>maybe {render(name, CALLS[1:2])} or not</think>no"
    if name in ("mistral", "mistral array", "kimi_k2"):  # their tokens end the reasoning
        assert read(name, text).reasoning == "maybe"
        return
    assert read(name, text) == ("no", f"maybe {render(name, CALLS[1:2])} or not", ())
    assert read(name, f"<think>open {family.opening}").calls == ()


@every_family
@pytest.mark.parametrize(
    "bad", ["oops", "", '{"name": "rm", "arguments": {"x": }}', "{'name': 'rm'}", '"text"', "42 {"]
)
def test_a_broken_block_spoils_only_itself(name: str, bad: str) -> None:
    family = FAMILIES[name]
    one, other = (family.render(i, *call) for i, call in enumerate(CALLS[1:]))
    blocks = f"{one}\n{family.opening}{bad}{family.closing}\n{other}"
    _, _, calls = read(name, family.section[0] + blocks + family.section[1], SCHEMAS)
    if (name, bad) in {("glm45", "oops"), ("glm47", "oops"), ("longcat pairs", "oops"), ("longcat", "oops")}:
        assert calls[1].name == "oops"  # GLM's form of a call without arguments
        return
    assert [(call.name, call.arguments) for call in calls if not call.error] == CALLS[1:]
    assert [call.raw for call in calls if call.error] == [bad]


@every_family
@pytest.mark.parametrize(
    "value", ["NaN", "-Infinity", "1e999", '"\\ud800"', '{"a": 1, "a": 2}', "[" * 10_000, '{"a":' * 10_000, "9" * 5_000]
)
def test_json_that_has_no_one_value_is_never_a_value(name: str, value: str) -> None:
    """Formats of JSON refuse the call; formats of text leave it to validation, as text."""
    marked = FAMILIES[name].render(0, "write", {"n": 4711})
    assert "4711" in marked
    _, _, (call,) = read(name, marked.replace("4711", value), SCHEMAS)
    if FAMILIES[name].bare_text:
        assert call.arguments == {"n": value}
    else:
        assert call.error
        assert call.arguments == {}


@every_family
def test_lone_surrogates_become_errors(name: str) -> None:
    for text in (render(name, [("write", {"text": "\ud800"})]), render(name, [("\ud800", {})])):
        (call,) = read(name, text, SCHEMAS).calls
        assert call.error


@every_family
def test_names_of_no_known_function_are_kept(name: str) -> None:
    assert made(read(name, render(name, [("nobody", {"x": "1"})]), SCHEMAS)) == [("nobody", {"x": "1"})]


UNITS = [
    "{opening}",
    "{opening}{{",
    '{opening}{{"name": "',
    "{call}",
    "{cut}",
    "{closing}",
    "{section}",
    '\n{{"name": "',
]
RUNS = [" ", "<", '"', "\\", '\\"', "[", "{", "a", ";\n", "</parameter>\n", "</arg_value>"]


@every_family
@pytest.mark.timeout(120)
def test_a_megabyte_of_broken_blocks_is_read_in_linear_time(name: str) -> None:
    """Quadratic work on these would take hours."""
    family = FAMILIES[name]
    call = family.render(0, "write", {"n": 1, "text": "x"})
    cut = call[: len(call) // 2 + 6]
    tokens = {"opening": family.opening, "closing": family.closing, "section": family.section[0]}
    for unit in UNITS:
        text = unit.format(**tokens, call=call, cut=cut)
        read(name, text * min(1_000, 100_000 // max(1, len(text))), SCHEMAS)
    many = 100_000 if name == "hermes" else 2_000
    assert len(read(name, family.opening * many).calls) == many


@every_family
@pytest.mark.timeout(120)
def test_a_megabyte_inside_one_block_is_read_in_linear_time(name: str) -> None:
    family = FAMILIES[name]
    call = family.render(0, "write", {"text": "HERE"})
    for run in RUNS:
        long = run * (60_000 // len(run))
        for text in (family.opening + long, call.replace("HERE", long), long + call, call.replace("write", long)):
            read(name, text, SCHEMAS)
    assert made(read(name, call.replace("HERE", "x" * 1_000_000), SCHEMAS)) == [("write", {"text": "x" * 1_000_000})]


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,12}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from([*STRUCTURE, '"', "\\", "\n"])
).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
keys = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
prose = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='<[{;"'), max_size=20)
drawn_calls = st.lists(
    st.tuples(names, st.dictionaries(keys, values, max_size=3)), min_size=1, max_size=3, unique_by=lambda c: c[0]
)


@every_family
@settings(max_examples=15)
@given(calls=drawn_calls, before=prose, cut=st.integers(0, 200))
def test_what_a_template_writes_is_read_back(name: str, calls: list[Made], before: str, cut: int) -> None:
    text = render(name, calls, before=before + "\n")
    reply = read(name, text, schema_of(calls))
    assert all(call in made(reply) for call in made(read(name, text[:-cut], schema_of(calls))))
    if FAMILIES[name].bare_text:  # nothing is escaped there: a call may be refused, but is never another
        assert all(call in calls for call in made(reply))
        if any(token in as_json([args for _, args in calls]) for token in ("</", "<tool", "<longcat", "<func")):
            return
    assert made(reply) == calls
    assert reply.content == before.strip()


@every_family
@settings(max_examples=30)
@given(
    pieces=st.lists(
        st.sampled_from([*STRUCTURE, *'{}[]",:;\\\n`', '{"name": "a", ', '"arguments": {}', "a", SEP])
        | st.text(max_size=3)
    )
)
def test_no_text_makes_a_parser_raise(name: str, pieces: list[str]) -> None:
    text = FAMILIES[name].opening + "".join(pieces)
    for call in read(name, text).calls:
        assert bool(call.error) != bool(call.name)
    read(name, "".join(pieces))


@settings(max_examples=40)
@given(content=prose, calls=drawn_calls)
def test_the_hermes_renderer_and_parser_are_inverse(content: str, calls: list[Made]) -> None:
    written = tuple(ToolCall(f"call_{i}", *call) for i, call in enumerate(calls))
    assert parse_reply(render_calls(content.strip(), written)) == (content.strip(), "", written)
