"""GLM 4.5 and 4.6: the name, then pairs of tagged text.

<tool_call>NAME
<arg_key>KEY</arg_key>
<arg_value>VALUE</arg_value>
</tool_call>
"""

import re
from functools import partial

from hermes_lab.models.parsers._blocks import Block, Grammar, Reply, read_blocks
from hermes_lab.models.parsers._pairs import Pairs
from hermes_lab.models.parsers._values import Schemas


def tagged_pairs(prefix: str = "") -> Pairs:
    """The pairs of a format whose tags begin with `prefix`."""
    block, key, value = (f"{prefix}{tag}>" for tag in ("tool_call", "arg_key", "arg_value"))
    return Pairs(
        header=re.compile(r"\s*+(?P<name>[\w.-]++)\s*+"),
        key=re.compile(rf"<{key}(?P<key>[^<]{{1,256}})</{key}\s*+<{value}"),
        value_end=re.compile(rf"</{value}\s*+(?=<{key}|</{block})"),
        ending=re.compile(rf"</{block}"),
        closing=f"</{block}",
        nested=re.compile(rf"<{block}\s*+[^\s<]++\s*+(?:<{key}|</{block})"),
        shape=f"<{block}NAME",
    )


_PAIRS = tagged_pairs()
_GRAMMAR = Grammar(re.compile("<tool_call>"), closing=_PAIRS.closing)


def parse(text: str, schemas: Schemas = (), /) -> Reply:
    """See `Parser`."""
    return read_blocks(text, _GRAMMAR, partial(_read, schemas=schemas))


def _read(text: str, start: int, *, schemas: Schemas) -> Block:
    return _PAIRS.read(text, start, schemas)
