"""Parses HTML into a tree of elements with text and attributes. Does not run scripts or fetch anything."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
DEEPEST = 60
MOST = 5_000
"""Limit of elements per page."""
LONGEST = 60_000
"""Limit of characters per page."""
_TOKEN = re.compile(r"""[^<]++|<!--.*?-->|<[/!]?[A-Za-z](?:"[^"]*+"|'[^']*+'|[^<>"'])*+>""", re.DOTALL)
"""A text, or a complete comment or tag."""


@dataclass
class Element:
    """A tag with its attributes and content."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    inside: "list[Element | str]" = field(default_factory=list)

    @property
    def children(self) -> "list[Element]":
        """The direct child elements."""
        return [each for each in self.inside if isinstance(each, Element)]

    @property
    def text(self) -> str:
        """All text in the element, with whitespace collapsed."""
        return " ".join("".join(each if isinstance(each, str) else f" {each.text} " for each in self.inside).split())

    def find(self, tag: str) -> "Iterator[Element]":
        """All descendants with that tag."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.find(tag)


def read_html(text: str) -> Element | None:
    """The root of a page, an element without a tag.

    None for a page that is too deep or too large, has a character reference with too many digits, or an unclosed tag or
    comment, on which `HTMLParser` takes quadratic time. Comments and the content of `script`, `style` and `template` do
    not count as text.
    """
    if len(text) > LONGEST or not _is_closed(text):
        return None
    builder = _Builder()
    try:
        builder.feed(text)
        builder.close()
    except (_TooMuch, AssertionError, ValueError):
        return None
    return builder.root


def _is_closed(text: str) -> bool:
    end = 0
    while end < len(text):
        token = _TOKEN.match(text, end)
        if not token:
            return False
        end = token.end()
    return True


class _TooMuch(Exception):
    pass


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self._open = [self.root]
        self._count = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = self._add(tag, attrs)
        if tag not in VOID:
            self._open.append(element)
            if len(self._open) > DEEPEST:
                raise _TooMuch

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        for depth in range(len(self._open) - 1, 0, -1):
            if self._open[depth].tag == tag:
                del self._open[depth:]
                return

    def handle_data(self, data: str) -> None:
        if self._open[-1].tag not in ("script", "style", "template"):
            self._open[-1].inside.append(data)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> Element:
        self._count += 1
        if self._count > MOST:
            raise _TooMuch
        # If an attribute occurs twice the first one counts, as in browsers.
        element = Element(tag, {name: value or "" for name, value in reversed(attrs)})
        self._open[-1].inside.append(element)
        return element
