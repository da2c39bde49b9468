"""Kimi K2: an id that holds the name, then the JSON of the arguments, between special tokens.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>{...}<|tool_call_end|>
    <|tool_calls_section_end|>

The id is kept: the model counts its calls by it, over the whole conversation. The section may begin in the midst of
reasoning, which it ends. The server must leave special tokens in the text: with vLLM, `skip_special_tokens: false`.
"""

import re

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, read_blocks, read_named
from hermes_lab.models.parsers._values import Schemas
from hermes_lab.models.reasoning import CLOSING

_GRAMMAR = Grammar(
    re.compile(r"<\|tool_call_begin\|>"),
    closing="<|tool_call_end|>",
    section=re.compile(r"<\|tool_calls_section_(?:begin|end)\|>"),
    json_after_name=True,
    thought=re.compile(rf"{CLOSING.pattern}|(?=<\|tool_calls_section_begin\|>)", CLOSING.flags),
)
_HEADER = re.compile(r"\s*+(?P<id>(?:functions\.)?+(?P<name>[^\s:<]++):\d++)\s*+<\|tool_call_argument_begin\|>")
_ENDING = re.compile(r"\s*+(?:<\|tool_call_end\|>|(?=<\|tool_call_begin\|>|<\|tool_calls_section_end\|>)|\Z)")


def parse(text: str, _schemas: Schemas = (), /) -> Reply:
    """See `Parser`."""
    return read_blocks(text, _GRAMMAR, _read)


def _read(text: str, start: int) -> Block:
    shape = "functions.NAME:INDEX<|tool_call_argument_begin|>"
    return read_named(text, start, header=_HEADER, shape=shape, ending=_ENDING, closing=_GRAMMAR.closing)
