"""Qwen 3 Coder, and Qwen 3.5 and later: values as text on lines of their own.

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

The models at times leave the first tag out, so a block may begin with `<function=`.
"""

import re
from functools import partial

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, read_blocks
from hermes_lab.models.parsers._pairs import Pairs
from hermes_lab.models.parsers._values import Schemas, Unreadable

_FUNCTION = "<function="
_GRAMMAR = Grammar(re.compile(r"(?:<tool_call>\s*+)?+<function=|<tool_call>"), closing="</tool_call>")
_PAIRS = Pairs(
    header=re.compile(r"(?P<name>[^\s<>]++)>\s*+"),
    key=re.compile(r"<parameter=(?P<key>[^<>\n]{1,256})>"),
    value_end=re.compile(r"</parameter>\s*+(?=<parameter=|</function>\s*+</tool_call>)"),
    ending=re.compile(r"</function>\s*+</tool_call>"),
    closing=_GRAMMAR.closing,
    nested=re.compile(r"<function=[^\s<>]++>"),
    shape="<function=NAME>",
    own_lines=True,
)


def parse(text: str, schemas: Schemas = (), /) -> Reply:
    """See `Parser`."""
    return read_blocks(text, _GRAMMAR, partial(_read, schemas=schemas))


def _read(text: str, start: int, *, schemas: Schemas) -> Block:
    if not text.endswith(_FUNCTION, 0, start):
        raise Unreadable(f"it must start with {_PAIRS.shape}", start)
    return _PAIRS.read(text, start, schemas)
