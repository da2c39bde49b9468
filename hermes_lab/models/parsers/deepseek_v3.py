"""DeepSeek V3 and R1: type, name, and the arguments as fenced JSON, between tokens with fullwidth bars.

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME
    ```json
    {...}
    ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

The server must leave these tokens in the text: with vLLM, `skip_special_tokens: false`.
"""

import re

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, read_blocks, read_named
from hermes_lab.models.parsers._ends import END
from hermes_lab.models.parsers._values import Schemas

GRAMMAR = Grammar(
    re.compile("<｜tool▁call▁begin｜>"),
    closing="<｜tool▁call▁end｜>",
    section=re.compile("<｜tool▁calls▁begin｜>|<｜tool▁calls▁end｜>"),
    json_after_name=True,
)
NEXT = "<｜tool▁call▁end｜>|(?=<｜tool▁call▁begin｜>|<｜tool▁calls▁end｜>)|\\Z"
"""Matches what may follow a call."""

_HEADER = re.compile(r"[^<\n]*+<｜tool▁sep｜>\s*+(?P<name>[^\s<`]++)\s*+```json\b")
_ENDING = re.compile(rf"\s*+(?:```\s*+)?+(?:{NEXT}|(?={END}))")


def parse(text: str, _schemas: Schemas = (), /) -> Reply:
    """See `Parser`."""
    return read_blocks(text, GRAMMAR, _read)


def _read(text: str, start: int) -> Block:
    shape = "function<｜tool▁sep｜>NAME and a ```json block"
    return read_named(text, start, header=_HEADER, shape=shape, ending=_ENDING, closing=GRAMMAR.closing)
