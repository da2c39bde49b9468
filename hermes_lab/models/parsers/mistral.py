"""Mistral: an array of calls up to its tokenizer v7, later one token, a name and the JSON of the arguments a call.

    [TOOL_CALLS][{"name": NAME, "arguments": {...}}, ...]
    [TOOL_CALLS]NAME[ARGS]{...}[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{...}[TOOL_CALLS]NAME{...}

Reasoning is in `[THINK]` (tokenizer v13) or `<think>`; a call ends it. The server must leave special tokens in the
text: with vLLM, `skip_special_tokens: false`. A missing `[ARGS]` is harmless.
"""

import json
import re

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, broken, call_of, read_blocks, read_named
from hermes_lab.models.parsers._values import Schemas, Unreadable, decode, skip_space
from hermes_lab.models.reasoning import CLOSING
from hermes_lab.types import ToolCall

_OPENING = "[TOOL_CALLS]"
_GRAMMAR = Grammar(
    re.compile(re.escape(_OPENING)),
    json_after_name=True,
    thought=re.compile(rf"{CLOSING.pattern}|(?=\[TOOL_CALLS\])", CLOSING.flags),
)
_HEADER = re.compile(
    r"\s*+(?P<name>[^\s\[{]++)\s*+(?:\[CALL_ID\]\s*+(?P<id>[^\s\[{]++)\s*+)?+(?:\[ARGS\]|(?=\{))",
)
_ENDING = re.compile(r"\s*+(?:(?=\[TOOL_CALLS\])|\Z)")


def parse(text: str, _schemas: Schemas = (), /) -> Reply:
    """See `Parser`. Text may follow an array, as models write it. After JSON arguments it is an error, since their end
    is uncertain."""
    return read_blocks(text, _GRAMMAR, _read)


def _read(text: str, start: int) -> Block:
    at = skip_space(text, start)
    if text.startswith("[", at) and not text.startswith(_OPENING, at):
        return _read_array(text, at)
    return read_named(text, start, header=_HEADER, shape="NAME[ARGS]{", ending=_ENDING)


def _read_array(text: str, start: int) -> Block:
    values, end = decode(text, start)
    if not values:
        raise Unreadable("the array contains no call", end)
    return Block([_call(value) for value in values], end)


def _call(value: object) -> ToolCall:
    try:
        return call_of(value)
    except ValueError as error:
        return broken(str(error), json.dumps(value, ensure_ascii=False))
