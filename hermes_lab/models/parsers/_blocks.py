"""The structure shared by all formats: reasoning, then text containing blocks of calls."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from hermes_lab.models.parsers._ends import skip_ends, without_ends
from hermes_lab.models.parsers._values import (
    Unreadable,
    can_be_carried,
    decode,
    kind,
    parse_arguments,
    skip_space,
)
from hermes_lab.models.reasoning import CLOSING, OPENING, split_reasoning, tags
from hermes_lab.types import ToolCall

_THINK = re.compile(rf"\s*+(?:{OPENING.pattern})", OPENING.flags)
_STRING = r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))'


class Reply(NamedTuple):
    """A parsed reply: the text outside of calls and reasoning, the reasoning, and the calls in order."""

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]


class Block(NamedTuple):
    """The calls of one block (ids may be empty) and its end index. A block without calls is plain text."""

    calls: list[ToolCall]
    end: int


@dataclass(frozen=True)
class Grammar:
    """How a format marks its calls.

    `opening` starts a block, and `closing` (a token, or "") ends it. `section` surrounds the blocks and is not content.
    `json_after_name`: a bare name precedes the JSON arguments, so a whole block could be part of a JSON string; blocks
    inside strings are then ignored. `think` and `thought` open and close the reasoning; a zero-width `thought` only
    closes reasoning that was opened.
    """

    opening: re.Pattern[str]
    closing: str = ""
    section: re.Pattern[str] | None = None
    json_after_name: bool = False
    think: re.Pattern[str] = _THINK
    thought: re.Pattern[str] = CLOSING

    def end_of_unreadable(self, text: str, at: int) -> tuple[int, int]:
        """The end of an unreadable block that is understood up to `at`, and where to continue: at its closing token,
        else at the next block."""
        for match in self._boundary.finditer(text, at):
            if match.lastgroup == "closing":
                return match.span()
            if match.lastgroup != "string":
                return match.start(), match.start()
        return len(text), len(text)

    @cached_property
    def _boundary(self) -> re.Pattern[str]:
        parts = [f"(?P<closing>{re.escape(self.closing)})"] if self.closing else []
        parts += [_STRING] if self.json_after_name else []
        return re.compile("|".join([*parts, self.opening.pattern]), self.opening.flags | re.DOTALL)


def read_blocks(text: str, grammar: Grammar, read: Callable[[str, int], Block]) -> Reply:
    """Parses a reply; `read` gets the index after an opening, and raises `ValueError` if there is no call."""
    first, rest = _split_reasoning(text, grammar)
    rest = without_ends(rest)
    thoughts = [first]
    pieces: list[str] = []
    calls: dict[str, ToolCall] = {}
    begin = at = 0
    while opening := grammar.opening.search(rest, at):
        if tag := next((tag for tag in tags(rest, at, opening.start()) if tag.opens), None):
            closing = grammar.thought.search(rest, tag.end)
            pieces.append(rest[begin : tag.start])
            thoughts.append(rest[tag.end : closing.start() if closing else len(rest)].strip())
            begin = at = closing.end() if closing else len(rest)
            continue
        start = opening.end()
        try:
            found, at = read(rest, start)
        except ValueError as error:
            known = error.at if isinstance(error, Unreadable) else start
            end, at = grammar.end_of_unreadable(rest, max(known, opening.start() + 1))  # an opening may be zero-width
            found = [broken(str(error), rest[start:end])]
        if found:
            pieces.append(rest[begin : opening.start()])
            _number(calls, found)
            begin = at
    pieces.append(rest[begin:])
    if grammar.section:
        if not calls and (section := grammar.section.search(rest)):
            _number(calls, [broken("the tool call section contains no call", rest[section.end() :])])
            pieces = [rest[: section.start()]]
        pieces = [part for piece in pieces for part in grammar.section.split(piece)]
    if not calls:
        answer, reasoning, _ = split_reasoning(text)
        return Reply(answer.strip(), reasoning, ())
    # End tokens between calls or before more text are not content.
    pieces = [pieces[0], *(piece[skip_ends(piece, 0) :] for piece in pieces[1:])]
    content = "\n".join(stripped for piece in pieces if (stripped := piece.strip()))
    return Reply(content, "\n".join(filter(None, thoughts)), tuple(calls.values()))


def broken(reason: str, raw: str) -> ToolCall:
    """A call that could not be parsed, with the reason."""
    return ToolCall("", "", error=f"invalid tool call: {reason}", raw=raw.strip())


def call_of(value: object, *, key: str = "arguments") -> ToolCall:
    """The call in an object with `name` and `arguments` (or an equivalent key). Raises `ValueError` if there is
    none."""
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, not {kind(value)}")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError('"name" must be the name of a tool')
    return ToolCall("", name, parse_arguments(_given(value, key)))


_OTHER_KEYS = ("arguments", "parameters", "args", "input")
_BESIDE = frozenset({"name", "id", "type"})


def _given(value: Mapping[str, Any], key: str) -> object:
    """The arguments of a call, which models sometimes write under another key. Raises `ValueError` if it is ambiguous,
    so that a call never runs without its arguments."""
    given = value.get(key)
    if not _is_empty(given):
        return given
    others = [other for other in _OTHER_KEYS if other != key and not _is_empty(value.get(other))]
    if given is None and len(others) == 1:
        return value[others[0]]
    if others:
        raise ValueError(f'"{key}" must contain all arguments, but there is also "{others[0]}"')
    if given is None and (unknown := [name for name in value if name not in _BESIDE and name not in _OTHER_KEYS]):
        raise ValueError(f'"{key}" is missing; put {", ".join(unknown)!r:.80} in it')
    return given


def _is_empty(arguments: object) -> bool:
    return arguments is None or arguments == {} or (isinstance(arguments, str) and not arguments.strip())


def read_call(text: str, start: int, *, ending: re.Pattern[str], closing: str) -> Block:
    """Parses a block that is one object with `name` and `arguments`; `ending` must follow it."""
    value, end = read_object(text, start)
    after = expect(ending, text, end, closing=closing)
    try:
        return Block([call_of(value)], after)
    except ValueError as error:
        raise Unreadable(str(error), end) from None


def read_object(text: str, start: int) -> tuple[Any, int]:
    """Parses a block that is entirely JSON; returns it and its end.

    If it is invalid, the search for the next block continues from `start`, even inside its strings: the quotes of a
    block in a string would be escaped, so it would not parse.
    """
    try:
        return decode(text, start)
    except Unreadable as error:
        raise ValueError(str(error)) from None


def read_named(
    text: str, start: int, *, header: re.Pattern[str], shape: str, ending: re.Pattern[str], closing: str = ""
) -> Block:
    """Parses a block whose `header` holds the name (and id), followed by JSON arguments and `ending`.

    If `closing` follows the header directly, there are no arguments. `shape` describes the beginning of a block to the
    model.
    """
    match = header.match(text, start)
    if not match or not can_be_carried(match.group()):
        raise Unreadable(f"it must start with {shape}", start)
    at = skip_space(text, match.end())
    arguments: Any = {}
    if not closing or not text.startswith(closing, at):
        arguments, at = decode(text, at)
    after = expect(ending, text, at, closing=closing)
    if not isinstance(arguments, dict):
        raise Unreadable(f"arguments must be a JSON object, not {kind(arguments)}", at)
    return Block([ToolCall(match.groupdict().get("id") or "", match["name"], arguments)], after)


def expect(ending: re.Pattern[str], text: str, at: int, *, closing: str = "") -> int:
    """The index after what must follow a call; an end token is also accepted. Raises `Unreadable` otherwise."""
    match = ending.match(text, at)
    if not match and (ended := skip_ends(text, at)) > at:
        match = ending.match(text, ended)
        return match.end() if match else ended
    if not match:
        where = f"between the JSON object and {closing}" if closing else "after the JSON object"
        raise Unreadable(f"there is text {where}", at)
    return match.end()


def _split_reasoning(text: str, grammar: Grammar) -> tuple[str, str]:
    """Splits off the reasoning. The template may have opened `<think>` in the prompt, so the reply may only have the
    closing tag."""
    begun, ended = grammar.think.match(text), grammar.thought.search(text)
    head, rest = (text[: ended.start()], text[ended.end() :]) if ended else (text, "")
    if begun:
        return head[begun.end() :].strip(), rest
    if ended and ended.group() and not ended.group().endswith(":") and not grammar.opening.search(head):
        return head.strip(), rest
    return "", text


def _number(calls: dict[str, ToolCall], found: list[ToolCall]) -> None:
    """Adds calls, with ids `call_0`, `call_1`, ... if the text has none."""
    for call in found:
        call_id = call.id if call.id and call.id not in calls else f"call_{len(calls)}"
        calls[call_id] = msgspec.structs.replace(call, id=call_id)
