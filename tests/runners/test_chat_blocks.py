"""A reply is cut into blocks of Markdown while it comes."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.runners.chat.blocks import Blocks

REPLY = """\
# Title
One
two

- a
- b

```python
x = 1

y = 2
```

~~~
```

still code
~~~
The end."""
BLOCKS = [
    "# Title\nOne\ntwo\n",
    "- a\n- b\n",
    "```python\nx = 1\n\ny = 2\n```\n",
    "~~~\n```\n\nstill code\n~~~\nThe end.",
]


def cut(pieces: list[str]) -> list[str]:
    blocks = Blocks()
    return [block for piece in pieces for block in blocks.add(piece)] + [blocks.rest()]


def test_blocks_end_at_blank_lines_outside_of_code() -> None:
    assert cut([REPLY]) == BLOCKS


@given(st.lists(st.integers(1, len(REPLY) - 1)))
def test_it_does_not_matter_how_the_reply_comes(places: list[int]) -> None:
    ends = sorted({0, *places, len(REPLY)})
    assert cut([REPLY[a:b] for a, b in pairwise(ends)]) == BLOCKS


@given(st.lists(st.text("a\n`~ ", max_size=8), max_size=8))
def test_no_text_is_lost(pieces: list[str]) -> None:
    assert "\n".join(cut(pieces)) == "".join(pieces)


def test_the_tail_is_what_has_not_been_yielded() -> None:
    blocks = Blocks()
    assert list(blocks.add("done\n\none\ntwo\nthr")) == ["done\n"]
    assert blocks.tail(2) == "two\nthr"
