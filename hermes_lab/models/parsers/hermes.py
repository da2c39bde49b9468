"""Hermes 2 and 3: JSON objects in tags.

<tool_call>
{"name": NAME, "arguments": {...}}
</tool_call>
"""

import re
from collections.abc import Collection

import msgspec

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, read_blocks, read_call
from hermes_lab.models.parsers._fences import bare_calls
from hermes_lab.models.parsers._values import Schemas

_GRAMMAR = Grammar(re.compile("<tool_call>"), closing="</tool_call>")
_ENDING = re.compile(r"\s*+(?:</tool_call>|(?=<tool_call>)|\Z)")


def parse(text: str, schemas: Schemas = (), /) -> Reply:
    """See `Parser`. The closing tag may be missing before the next block and at the end. If there is no block, JSON in
    a code fence or as the whole text may be a call."""
    return read(text, {schema["function"]["name"] for schema in schemas} if schemas else None)


def read(text: str, tools: Collection[str] | None = None) -> Reply:
    """As `parse`, if the tool names are known, or known to be none."""
    reply = read_blocks(text, _GRAMMAR, _read)
    if reply.calls:
        return reply
    found = bare_calls(reply.content, tools)
    if not found.calls:
        return reply
    calls = tuple(msgspec.structs.replace(call, id=f"call_{n}") for n, call in enumerate(found.calls))
    return Reply(found.content, reply.reasoning, calls)


def _read(text: str, start: int) -> Block:
    return read_call(text, start, ending=_ENDING, closing=_GRAMMAR.closing)
