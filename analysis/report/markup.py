"""HTML and SVG in which every text is text: nothing that a model or a tool wrote can execute, or reorder a line."""

import html
import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Controls, invisible characters, and those that turn the direction of what follows. Not tab and newline."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def visible(text: str) -> str:
    """The text with a sign for every character that is not seen or that turns the direction: `[U+202E]`, or `␛`."""
    return _UNSEEN.sub(lambda found: _sign(ord(found[0])), text)


def _sign(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else f"[U+{code:04X}]"


def element(name: str, *content: str, **attributes: str | float | bool | None) -> Markup:
    """`<name attributes>content</name>`. Content that is not `Markup` is escaped, attribute values always are.

    `class_` is the attribute `class`, `data_x` is `data-x`. True is an attribute without a value, None and False none.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    inner = "".join(part if isinstance(part, Markup) else html.escape(visible(part)) for part in content)
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{inner}</{name}>")


def join(parts: list[Markup]) -> Markup:
    """The parts one after the other."""
    return Markup("".join(parts))


_VOID = frozenset({"input", "meta", "br"})


def _attribute(key: str, value: str | float | bool | None) -> str:
    # SVG has attributes of mixed case, so only what HTML writes with a hyphen is changed.
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(visible(shown))}"'
