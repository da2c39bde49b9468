"""Llama 3 and 4 with JSON calls: bare objects, after `<|python_tag|>` or without it, parted by `;` or line breaks.

    <|python_tag|>{"name": NAME, "parameters": {...}}; {"name": NAME, "parameters": {...}}

Without the tag, which is a special token that servers often leave out, an object is a call where it begins a line with
its name (or `"type": "function"`) and has `parameters` or `arguments`; other JSON is an answer like any other text.
"""

import re

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, call_of, expect, read_blocks, read_object
from hermes_lab.models.parsers._values import Schemas, Unreadable

_TAG = "<|python_tag|>"
_GRAMMAR = Grammar(
    re.compile(
        r'<\|python_tag\|>|(?:^|(?<=;))[ \t]*+(?=\{\s*+"(?:name"\s*+:\s*+"|type"\s*+:\s*+"function"))', re.MULTILINE
    )
)
_ENDING = re.compile(r"[^\S\n]*+(?:;|\n|\Z|(?=<\|python_tag\|>))")
_ARGUMENTS = ("parameters", "arguments")


def parse(text: str, _schemas: Schemas = (), /) -> Reply:
    """See `Parser`."""
    return read_blocks(text, _GRAMMAR, _read)


def _read(text: str, start: int) -> Block:
    value, end = read_object(text, start)
    given = [key for key in _ARGUMENTS if isinstance(value, dict) and key in value]
    if not given and not text.endswith(_TAG, 0, start):
        return Block([], end)
    after = expect(_ENDING, text, end)
    if len(given) != 1:
        raise Unreadable('expected a JSON object with "name" and "parameters"', end)
    try:
        return Block([call_of(value, key=given[0])], after)
    except ValueError as error:
        raise Unreadable(str(error), end) from None
