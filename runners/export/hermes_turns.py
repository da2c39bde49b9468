"""Writes and reads the turns of a Hermes row: text in which tags mark calls, results and reasoning.

The text can be read back exactly:

- In JSON, a `<` that starts a tag of the format is written as `\\u003c`.
- In prose it is written as `&lt;`, and an existing `&lt;` before such a tag as `&amp;lt;`. Text sampled in the text
  format is not escaped: there the tags are calls, which the lab's own parser reads.
- `thoughts` records for each gpt turn where its `<think>` block comes from.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn

from hermes_lab.models.hermes_format import parse_reply, render_results, render_tools
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.types import Message, ToolCall, ToolResult, Trajectory

Turn = tuple[str, str]
"""The speaker (system, human, gpt or tool), and the text."""
Think = Literal["apart", "written", "opened"]
"""`apart`: the block is not part of the message's content; it has the reasoning that the server returned, or nothing.
`written`: the model wrote the block. `opened`: the chat template wrote the opening tag, and the model the rest."""

_TAG = r"/?(?:tool_call|tool_response|tools|think)>"
_IN_JSON = re.compile(rf"<(?={_TAG})")
_IN_PROSE = re.compile(rf"(?:<|&(?:amp;)*lt;)(?={_TAG})")
_ESCAPED = re.compile(rf"&(?:amp;)*lt;(?={_TAG})")
_CALL = re.compile(r"<tool_call>\n(.*)\n</tool_call>")
_RESPONSE = re.compile(r"<tool_response>\n(.*)\n</tool_response>")
_THINK, _THOUGHT = "<think>", "</think>"
_BEFORE_TOOLS, _, _AFTER_TOOLS = render_tools(()).partition("\n\n</tools>")
_ROLES = {"system": "system", "user": "human", "assistant": "gpt"}


def write_turns(trajectory: Trajectory) -> Iterator[Turn]:
    """One turn per message, except that all results of one reply's calls are a single turn."""
    native = trajectory.tool_format == "native"
    messages = trajectory.messages
    if native and trajectory.tools and (not messages or messages[0].role != "system"):
        yield "system", render_tools(trajectory.tools)
    for index, message in enumerate(messages):
        if message.results:
            # In the native format each result is a separate message.
            if not messages[index - 1].results:
                yield "tool", "\n".join(map(_response, _results_from(messages, index)))
        elif message.role == "assistant":
            results = list(_results_from(messages, index + 1))
            yield "gpt", _native(message, trajectory, results) if native else _text(message, trajectory)
        elif message.role == "system" and native and index == 0:
            yield "system", _with_tools(message.content, trajectory.tools)
        else:
            yield _ROLES[message.role], message.content


def thoughts(trajectory: Trajectory) -> list[Think]:
    """Where the `<think>` block of each gpt turn comes from."""
    return [_think(message, trajectory) for message in trajectory.messages if message.role == "assistant"]


def read_turns(turns: Sequence[Turn], *, native: bool, thoughts: Iterable[Think]) -> list[Message]:
    """The inverse of `write_turns`: the messages of the turns."""
    thinks = iter(thoughts)
    messages: list[Message] = []
    for index, (speaker, value) in enumerate(turns):
        if speaker == "gpt":
            answers = turns[index + 1] if index + 1 < len(turns) else ("", "")
            ids = [result.call_id for result in _read_results(answers[1])] if answers[0] == "tool" else []
            messages.append(
                _read_native(value, next(thinks), ids)
                if native
                else _read_text(value, next(thinks), answered=answers[0] == "tool")
            )
        elif speaker == "tool":
            messages += _answers(_read_results(value), native)
        elif speaker == "system" and native and index == 0:
            messages += _without_tools(value)
        else:
            messages.append(Message(role="system" if speaker == "system" else "user", content=value))
    return messages


# Writing.


def _results_from(messages: Sequence[Message], index: int) -> Iterator[ToolResult]:
    for message in messages[index:]:
        if not message.results:
            return
        yield from message.results


def _native(message: Message, trajectory: Trajectory, results: Sequence[ToolResult]) -> str:
    """Think block, prose, calls. A call's id is left out if its result has the same one."""
    ids = [result.call_id for result in results] + [""] * len(message.tool_calls)
    calls = [_call(call, id) for call, id in zip(message.tool_calls, ids, strict=False)]
    prose = message.content
    think = _think(message, trajectory)
    if think == "apart":
        start = _block("" if split_reasoning(prose).reasoning == message.reasoning else message.reasoning)
    else:
        opening, thought, prose = _thinking(prose, think)
        start = f"{opening}{_escape(thought)}{_THOUGHT}"
    text = _escape(prose)
    return start + "\n".join([text, *calls] if text or think != "apart" else calls)


def _text(message: Message, trajectory: Trajectory) -> str:
    """The sampled text, preceded by the part of the think block that the prompt or the server separated from it."""
    think = _think(message, trajectory)
    if think == "written":
        return message.content
    if think == "opened":
        return f"{_THINK}\n{message.content}"
    read = parse_reply(message.content).reasoning
    return _block("" if read else message.reasoning) + message.content


def _think(message: Message, trajectory: Trajectory) -> Think:
    content = message.content
    head, closed, _ = content.partition(_THOUGHT)
    if trajectory.tool_format == "native":
        inside = bool(closed) and split_reasoning(content).reasoning == message.reasoning
    else:
        read = parse_reply(content).reasoning
        inside = read == message.reasoning and bool(read or closed)
    if not inside:
        return "apart"
    if content.lstrip().startswith(_THINK):
        return "written"
    return "opened" if closed and "<tool_call>" not in head else "apart"


def _thinking(content: str, think: Think) -> tuple[str, str, str]:
    """The opening of the block, the thought, and the text after the closing tag."""
    head, _, rest = content.partition(_THOUGHT)
    if think == "opened":
        return f"{_THINK}\n", head, rest
    space, opening, thought = head.partition(_THINK)
    return space + opening, thought, rest


def _block(reasoning: str) -> str:
    return f"{_THINK}\n{_escape(reasoning)}\n{_THOUGHT}\n" if reasoning else f"{_THINK}\n{_THOUGHT}\n"


def _call(call: ToolCall, result_id: str) -> str:
    """A call as a tagged block. One that could not be parsed has its raw text in place of the arguments."""
    written: dict[str, Any] = {"name": call.name, "arguments": call.raw if call.error else call.arguments}
    if call.error:
        written["error"] = call.error
    if call.id != result_id:
        written["id"] = call.id
    return f"<tool_call>\n{_dumps(written)}\n</tool_call>"


def _response(result: ToolResult) -> str:
    answer = {"tool_call_id": result.call_id, "name": result.name, "content": _embedded(result.content)}
    return f"<tool_response>\n{_dumps(answer)}\n</tool_response>"


def _embedded(content: str) -> Any:
    """The content as an object or array, if encoding that gives the same text; else the text."""
    try:
        value = json.loads(content, parse_constant=_refuse)
        same = isinstance(value, dict | list) and json.dumps(value, ensure_ascii=False) == content
    except (ValueError, RecursionError):
        return content
    return value if same else content


def _with_tools(content: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """The system prompt with the tool signatures, which a native endpoint adds itself."""
    if tools or _tools_at(content) is not None:
        return f"{content}\n\n{render_tools(tools)}"
    return content


# Reading.


def _read_native(value: str, think: Think, ids: Sequence[str]) -> Message:
    start = value.find("<tool_call>\n")
    text, blocks = (value[:start], value[start:]) if start >= 0 else (value, "")
    reasoning = ""
    if think == "apart":
        reasoning, text = _split_block(text)
    if blocks and text:
        text = text.removesuffix("\n")
    if think != "apart":
        opening, thought, rest = _thinking(text, "written")
        text = f"{opening}{_unescape(thought)}{_THOUGHT}{_unescape(rest)}"
        text = text.removeprefix(f"{_THINK}\n") if think == "opened" else text
    else:
        text = _unescape(text)
    reasoning = reasoning or split_reasoning(text).reasoning
    written = [json.loads(block) for block in _CALL.findall(blocks)]
    calls = [_read_call(one, ids[i] if i < len(ids) else "") for i, one in enumerate(written)]
    return Message(role="assistant", content=text, tool_calls=tuple(calls), reasoning=reasoning)


def _read_text(value: str, think: Think, *, answered: bool) -> Message:
    """A sampled reply. Calls are only read if they were answered; otherwise the model's JSON was plain text."""
    reasoning, content = _split_block(value) if think == "apart" else ("", value)
    content = content.removeprefix(f"{_THINK}\n") if think == "opened" else content
    read = parse_reply(content)
    return Message(
        role="assistant",
        content=content,
        tool_calls=read.calls if answered else (),
        reasoning=read.reasoning or reasoning,
    )


def _split_block(text: str) -> tuple[str, str]:
    """The reasoning of the block at the start of a turn, and the rest."""
    block, _, rest = text.removeprefix(f"{_THINK}\n").partition(f"{_THOUGHT}\n")
    return _unescape(block.removesuffix("\n")), rest


def _read_call(written: Mapping[str, Any], result_id: str) -> ToolCall:
    call_id, arguments = written.get("id", result_id), written["arguments"]
    if "error" in written:
        return ToolCall(call_id, written["name"], error=written["error"], raw=arguments)
    return ToolCall(call_id, written["name"], arguments)


def _read_results(value: str) -> list[ToolResult]:
    results = []
    for block in _RESPONSE.findall(value):
        answer = json.loads(block)
        content = answer["content"]
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        failed = isinstance(content, dict) and "error" in content
        results.append(ToolResult(answer["tool_call_id"], answer["name"], text, ok=not failed))
    return results


def _answers(results: Sequence[ToolResult], native: bool) -> list[Message]:
    if not native:
        return [Message(role="user", content=render_results(results), results=tuple(results))]
    return [Message(role="tool", content=r.content, results=(r,), tool_call_id=r.call_id) for r in results]


def _without_tools(value: str) -> list[Message]:
    at = _tools_at(value)
    if at == 0:
        return []
    return [Message(role="system", content=value if at is None else value[: at - 2])]


def _tools_at(text: str) -> int | None:
    """The start of the tool signatures at the end of a text, or None. A signature contains no line break."""
    at = text.rfind(f"{_BEFORE_TOOLS}\n")
    return at if at >= 0 and text.endswith(f"\n</tools>{_AFTER_TOOLS}") else None


# Tags.


def _escape(prose: str) -> str:
    return _IN_PROSE.sub(lambda m: "&lt;" if m[0] == "<" else f"&amp;{m[0][1:]}", prose)


def _unescape(prose: str) -> str:
    return _ESCAPED.sub(lambda m: "<" if m[0] == "&lt;" else f"&{m[0][5:]}", prose)


def _dumps(value: object) -> str:
    return _IN_JSON.sub(r"\\u003c", json.dumps(value, ensure_ascii=False))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
