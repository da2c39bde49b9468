"""LongCat: JSON objects as Hermes writes them, or pairs as GLM writes them, in tags of their own.

    <longcat_tool_call>{"name": NAME, "arguments": {...}}</longcat_tool_call>
    <longcat_tool_call>NAME
    <longcat_arg_key>KEY</longcat_arg_key>
    <longcat_arg_value>VALUE</longcat_arg_value>
    </longcat_tool_call>

The chat template of LongCat Flash Chat asks for the first; its successors write the second.
"""

import re
from functools import partial

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, read_blocks, read_call
from hermes_lab.models.parsers._values import Schemas
from hermes_lab.models.parsers.glm45 import tagged_pairs

_PAIRS = tagged_pairs("longcat_")
_GRAMMAR = Grammar(re.compile("<longcat_tool_call>"), closing=_PAIRS.closing)
_ENDING = re.compile(r"\s*+(?:</longcat_tool_call>|(?=<longcat_tool_call>)|\Z)")
_NAME = re.compile(r"\s*+[^\W\d]")


def parse(text: str, schemas: Schemas = (), /) -> Reply:
    """See `Parser`."""
    return read_blocks(text, _GRAMMAR, partial(_read, schemas=schemas))


def _read(text: str, start: int, *, schemas: Schemas) -> Block:
    if _NAME.match(text, start):
        return _PAIRS.read(text, start, schemas)
    return read_call(text, start, ending=_ENDING, closing=_GRAMMAR.closing)
