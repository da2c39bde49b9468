"""DeepSeek V3.1: the tokens of V3, with the bare name and the bare JSON of the arguments.

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
"""

import re

from hermes_lab.models.parsers._blocks import Block, Reply, read_blocks, read_named
from hermes_lab.models.parsers._values import Schemas
from hermes_lab.models.parsers.deepseek_v3 import GRAMMAR, NEXT

_HEADER = re.compile(r"\s*+(?P<name>[^\s<]++)\s*+<｜tool▁sep｜>")
_ENDING = re.compile(rf"\s*+(?:{NEXT})")


def parse(text: str, _schemas: Schemas = (), /) -> Reply:
    """See `Parser`."""
    return read_blocks(text, GRAMMAR, _read)


def _read(text: str, start: int) -> Block:
    shape = "NAME<｜tool▁sep｜>"
    return read_named(text, start, header=_HEADER, shape=shape, ending=_ENDING, closing=GRAMMAR.closing)
