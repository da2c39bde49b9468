"""The Hermes text format: tools, calls and results as text in the conversation.

The texts are byte for byte those of the Qwen2.5 chat template, so that with such a model the prompt is the
same whether the server renders the tools (`native`) or Hermes Lab does (`hermes`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec

from hermes_lab.types import ToolCall, ToolResult

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_THINK, _THOUGHT = "<think>", "</think>"

_PREAMBLE = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>

For each function call, return a json object with function name and arguments \
within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


class Reply(NamedTuple):
    """A reply taken apart: text outside the blocks, the text of `<think>`, and the calls in order."""

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]


def render_tools(schemas: Sequence[Mapping[str, Any]]) -> str:
    """The preamble that declares OpenAI function schemas. It ends the system prompt, after an empty line."""
    return _PREAMBLE.format(signatures="\n".join(_dumps(schema) for schema in schemas))


def render_calls(content: str, calls: Sequence[ToolCall]) -> str:
    """An assistant turn: its text, then one block a call. An unparsed call is repeated as it was written."""
    return "\n".join([*([content] if content else []), *(f"{_OPEN}\n{_call(call)}\n{_CLOSE}" for call in calls)])


def render_results(results: Sequence[ToolResult]) -> str:
    """The user turn that answers an assistant turn's calls, in their order; each content stands verbatim."""
    return "\n".join(f"<tool_response>\n{result.content}\n</tool_response>" for result in results)


def parse_reply(text: str) -> Reply:
    """Takes a sampled reply apart; it never fails.

    A block that holds no call becomes a `ToolCall` with `error` and `raw`, and the blocks around it stand. A
    closing tag may be missing at the end of the text. Ids are `call_0`, `call_1`, ... in order.
    """
    reasoning, rest = _split_reasoning(text)
    pieces: list[str] = []
    calls: list[ToolCall] = []
    at = 0
    while (start := rest.find(_OPEN, at)) >= 0:
        pieces.append(rest[at:start])
        body = start + len(_OPEN)
        call, at = _parse_block(rest, body, f"call_{len(calls)}")
        calls.append(call)
    pieces.append(rest[at:])
    content = "\n".join(stripped for piece in pieces if (stripped := piece.strip()))
    return Reply(content, reasoning, tuple(calls))


def parse_arguments(arguments: object) -> dict[str, Any]:
    """The arguments of a call: an object, or a string that holds one; nothing at all is no arguments.

    Raises `ValueError` saying what is wrong with them.
    """
    if isinstance(arguments, str):
        arguments = _loads(arguments) if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ValueError(f"arguments must be a JSON object, not {_kind(arguments)}")
    return arguments


def _split_reasoning(text: str) -> tuple[str, str]:
    """Templates may open `<think>` in the prompt, so that the reply holds the closing tag alone."""
    head, closed, tail = text.partition(_THOUGHT)
    if head.lstrip().startswith(_THINK):
        return head.lstrip().removeprefix(_THINK).strip(), tail
    if closed and _OPEN not in head:
        return head.strip(), tail
    return "", text


def _parse_block(text: str, start: int, call_id: str) -> tuple[ToolCall, int]:
    """The call that begins at `start`, and the index behind its block."""
    try:
        value, end = _decode(text, start)
        end = _skip_space(text, end)
        after = end + len(_CLOSE) if text.startswith(_CLOSE, end) else end
        if after == end < len(text) and not text.startswith(_OPEN, end):
            raise ValueError("there is text between the JSON object and </tool_call>")
        name, arguments = _call_parts(value)
    except (ValueError, RecursionError) as error:
        end, after = _block_end(text, start)
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        return ToolCall(call_id, "", error=f"invalid tool call: {reason}", raw=text[start:end].strip()), after
    return ToolCall(call_id, name, arguments), after


def _call_parts(value: object) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, not {_kind(value)}")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError('"name" must be the name of a function')
    return name, parse_arguments(value.get("arguments"))


def _block_end(text: str, start: int) -> tuple[int, int]:
    """Where an unreadable block ends, and where to go on: at its closing tag, else before the next block."""
    following = text.find(_OPEN, start)
    limit = following if following >= 0 else len(text)
    close = text.find(_CLOSE, start, limit)
    return (close, close + len(_CLOSE)) if close >= 0 else (limit, limit)


def _call(call: ToolCall) -> str:
    if call.error:
        return call.raw
    return f'{{"name": "{call.name}", "arguments": {_dumps(call.arguments)}}}'


def _dumps(value: object) -> str:
    """What a chat template's `tojson` gives."""
    return json.dumps(value, ensure_ascii=False)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Line breaks inside strings are read as they stand: small models write them, and they have one meaning only.
_decoder = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _decode(text: str, start: int) -> tuple[object, int]:
    """One JSON value from `start` on, and its end. Raises `ValueError` also for what no record can hold."""
    start = _skip_space(text, start)
    try:
        value, end = _decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at character {error.pos - start}: {error.msg}") from None
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
        raise ValueError("it holds a number or a character that JSON cannot carry") from None
    return value, end


def _loads(text: str) -> object:
    value, end = _decode(text, 0)
    if text[end:].strip():
        raise ValueError("there is text after the JSON object")
    return value


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {list: "an array", str: "a string", bool: "a boolean"}.get(type(value), "a number")
