"""Hermes rows: upstream's shape, what the model saw, and a reader that gets back exactly what was written."""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from export_episodes import NATIVE, TOOLS, compressed, mixed, native
from fakes.episodes import conversation, episode, trajectory
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.models.hermes_format import parse_reply, render_results, render_tools
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.runners.export.hermes import parse_row, row
from hermes_lab.types import Message, ToolCall, ToolResult, Trajectory
from hermes_lab.types.trajectory import ToolFormat

PIECES = [
    *("<tool_call>", "</tool_call>", "<tools>", "</tools>", "<tool_response>", "</tool_response>", "<think>"),
    *("</think>", "<think>\n", "\n</think>\n", "<think>\n</think>\n", "<tool_call>\n", "\n</tool_call>", "&lt;tools>"),
    *("&lt;", "&amp;", "&amp;lt;think>", "<", ">", "&", '"', "\\", "\n", " ", "\r", "\u2028", "é", "\U0001f600", "\0"),
    *('{"a": 1}', '{"name": "x", "arguments": {}}', "null", "12", "a", render_tools(()), render_tools(TOOLS)),
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(texts | st.just("error"), values, max_size=2)
contents = objects.map(lambda value: json.dumps(value, ensure_ascii=False)) | objects.map(json.dumps) | texts
ids = st.sampled_from(["", "call_0", "call_1", "x"])
names = texts.filter(bool)


@st.composite
def results(draw: st.DrawFn, calls: Sequence[ToolCall]) -> list[ToolResult]:
    made = []
    for call in calls:
        content = draw(contents)
        made.append(ToolResult(call.id, call.name, content, ok=not is_failure(content)))
    return made


def is_failure(content: str) -> bool:
    """Tools answer in one spelling of JSON; what is spelled otherwise is text."""
    try:
        value = json.loads(content)
    except ValueError:
        return False
    return isinstance(value, dict) and "error" in value and json.dumps(value, ensure_ascii=False) == content


@st.composite
def native_turn(draw: st.DrawFn) -> list[Message]:
    good = st.builds(ToolCall, ids, names, objects)
    broken = st.builds(ToolCall, ids, names, st.just({}), names, texts)
    calls = draw(st.lists(good | broken, max_size=3))
    content = draw(texts)
    reasoning = split_reasoning(content).reasoning or draw(texts)
    reply = Message(role="assistant", content=content, tool_calls=tuple(calls), reasoning=reasoning)
    answers = draw(results(calls)) if draw(st.booleans()) else []
    return [
        reply,
        *(Message(role="tool", content=r.content, results=(r,), tool_call_id=r.call_id) for r in answers),
        *([] if answers else [Message(role="user", content=draw(texts))]),
    ]


@st.composite
def text_turn(draw: st.DrawFn) -> list[Message]:
    content = draw(texts)
    read = parse_reply(content)
    reply = Message(role="assistant", content=content, tool_calls=read.calls, reasoning=read.reasoning or draw(texts))
    answers = tuple(draw(results(read.calls)))
    if not answers:
        return [reply, Message(role="user", content=draw(texts))]
    return [reply, Message(role="user", content=render_results(answers), results=answers)]


@st.composite
def trajectories(draw: st.DrawFn, tool_format: ToolFormat) -> Trajectory:
    start = [Message(role="user", content=draw(texts))]
    if draw(st.booleans()):
        start.insert(0, Message(role="system", content=draw(texts)))
    turns = draw(st.lists(native_turn() if tool_format == "native" else text_turn(), max_size=3))
    tools = TOOLS if draw(st.booleans()) else ()
    messages = (*start, *(message for turn in turns for message in turn))
    return Trajectory(messages, tools, tool_format, "answered")


def through_a_file(trajectory: Trajectory) -> dict[str, Any]:
    written = msgspec.json.encode(row(episode("t"), trajectory))
    read: dict[str, Any] = json.loads(written)
    return read


@given(trajectories("native"))
def test_a_native_row_reads_back_as_the_same_messages(said: Trajectory) -> None:
    assert parse_row(through_a_file(said)) == list(said.messages)


@given(trajectories("hermes"))
def test_a_text_row_reads_back_as_the_same_messages(said: Trajectory) -> None:
    assert parse_row(through_a_file(said)) == list(said.messages)


@settings(max_examples=30)
@given(trajectories("native"))
def test_tags_of_a_native_row_are_tags_of_the_format_and_never_of_a_content(said: Trajectory) -> None:
    for turn in through_a_file(said)["conversations"]:
        calls = re.findall(r"<tool_call>(.*?)</tool_call>", turn["value"], re.DOTALL)
        answers = re.findall(r"<tool_response>(.*?)</tool_response>", turn["value"], re.DOTALL)
        if turn["from"] == "gpt":
            assert all({"name", "arguments"} <= json.loads(call).keys() for call in calls)
            assert (turn["value"].count("<think>"), turn["value"].count("</think>")) == (1, 1)
        if turn["from"] == "tool":
            assert answers
            assert all({"tool_call_id", "name", "content"} == json.loads(one).keys() for one in answers)


def test_every_made_up_episode_reads_back() -> None:
    for one in mixed():
        if one.trajectory:
            read = parse_row(through_a_file(one.trajectory))
            assert [known(message) for message in read] == [known(message) for message in one.trajectory.messages]


def known(message: Message) -> Message:
    """Without what a row does not hold."""
    kept = tuple(ToolResult(r.call_id, r.name, r.content, ok=r.ok) for r in message.results)
    return msgspec.structs.replace(message, results=kept)


GOLDEN = [
    ("system", "You use tools.\n\n" + render_tools(TOOLS)),
    ("human", "Count the files."),
    (
        "gpt",
        "<think>\nTwo at once.\n</think>\nI look.\n"
        '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls | wc -l"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "a", "limit": 5}}\n</tool_call>',
    ),
    (
        "tool",
        '<tool_response>\n{"tool_call_id": "call_a", "name": "terminal", '
        '"content": {"output": "3\\n", "exit_code": 0}}\n</tool_response>\n'
        '<tool_response>\n{"tool_call_id": "call_b", "name": "read_file", '
        '"content": {"error": "a: no such file"}}\n</tool_response>',
    ),
    (
        "gpt",
        '<think>\n</think>\n<tool_call>\n{"name": "terminal", "arguments": "{\\"command\\": \\"ls", '
        '"error": "invalid tool call: not JSON"}\n</tool_call>',
    ),
    (
        "tool",
        '<tool_response>\n{"tool_call_id": "call_c", "name": "terminal", '
        '"content": {"error": "invalid tool call: not JSON"}}\n</tool_response>',
    ),
    ("gpt", "<think>\n</think>\nThere are 3."),
]


def test_a_native_row_is_what_upstream_writes_but_correct() -> None:
    one = native(round=2, experience=10, place=3)
    assert one.trajectory
    made = row(one, one.trajectory)
    assert [(turn["from"], turn["value"]) for turn in made["conversations"]] == GOLDEN
    assert {key: made[key] for key in made if key not in ("conversations", "metadata")} == {
        "prompt_index": 13,
        "completed": True,
        "partial": False,
        "api_calls": 3,
        "toolsets_used": ["terminal", "file"],
        "tool_stats": {
            "terminal": {"count": 2, "success": 1, "failure": 1},
            "read_file": {"count": 1, "success": 0, "failure": 1},
            "unknown": {"count": 0, "success": 0, "failure": 0},
        },
        "tool_error_counts": {"terminal": 1, "read_file": 1, "unknown": 0},
    }
    told = made["metadata"]
    assert (told["batch_num"], told["model"], told["timestamp"]) == (2, "m", one.started_at)


def test_a_text_row_holds_the_prompt_and_the_replies_as_they_stood() -> None:
    one = episode("t")
    made = row(one, trajectory(conversation("Do it")))
    said = [turn["value"] for turn in made["conversations"]]
    assert said[0] == "You use tools."
    assert said[2].removeprefix("<think>\n</think>\n") == conversation("Do it")[2].content
    assert said[3].startswith('<tool_response>\n{"tool_call_id": "call_0", "name": "terminal", "content": {"output"')


@pytest.mark.parametrize(
    ("content", "reasoning", "value"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", "Hm.", "<think>\nHm.\n</think>\n\nYes."),
        ("Hm.\n</think>\n\nYes.", "Hm.", "<think>\nHm.\n</think>\n\nYes."),
        ("Yes.", "Hm.", "<think>\nHm.\n</think>\nYes."),
        ("Yes.", "", "<think>\n</think>\nYes."),
    ],
)
def test_a_thought_stands_in_one_block_wherever_the_server_had_put_it(content: str, reasoning: str, value: str) -> None:
    reply = Message(role="assistant", content=content, reasoning=reasoning)
    made = through_a_file(Trajectory((Message(role="user", content="?"), reply), (), "hermes", "answered"))
    assert made["conversations"][1]["value"] == value
    assert parse_row(made)[1] == reply


def test_json_that_cannot_be_had_back_from_an_object_stays_text() -> None:
    texts = [
        '{"a":1}',
        '{"a": 1.0e5}',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        "[" * 100_000,
        "12",
        '"x"',
        '{"a": "\\u00e9"}',
    ]
    messages = [
        Message(role="tool", content=text, results=(ToolResult("c", "t", text),), tool_call_id="c") for text in texts
    ]
    made = through_a_file(Trajectory((*NATIVE[:2], *messages), (), "native", "answered"))
    assert [message.content for message in parse_row(made)[2:]] == texts


def test_a_compressed_episode_keeps_the_whole_log_and_says_what_was_cut() -> None:
    one = compressed()
    assert one.trajectory
    made = through_a_file(one.trajectory)
    assert parse_row(made) == list(one.trajectory.messages)
    assert made["metadata"]["compressions"] == [
        {"at": 4, "start": 2, "end": 3, "prompt_tokens": 9, "completion_tokens": 3}
    ]


def test_upstreams_own_rows_can_be_read() -> None:
    conversations = [("human", "Hi"), GOLDEN[2], GOLDEN[3], GOLDEN[6]]
    theirs = {
        "conversations": [{"from": speaker, "value": value} for speaker, value in conversations],
        "metadata": {"batch_num": 0, "timestamp": "2026", "model": "m"},
    }
    assert [message.tool_calls for message in parse_row(theirs)][1] == NATIVE[2].tool_calls
