"""Safe HTML and SVG: text written by a model or a tool cannot execute or reorder a line."""

import html
import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Control, invisible and bidirectional-override characters, except tab and newline."""


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def visible(text: str) -> str:
    """Replaces invisible and bidirectional characters with a visible sign: `[U+202E]` or `␛`."""
    return _UNSEEN.sub(lambda found: _sign(ord(found[0])), text)


def _sign(code: int) -> str:
    return chr(0x2400 + code) if code < 0x20 else f"[U+{code:04X}]"


def element(name: str, *content: str, **attributes: str | float | bool | None) -> Markup:
    """`<name attributes>content</name>`. Content is escaped unless it is `Markup`; attribute values always are.

    `class_` becomes `class`, `data_x` becomes `data-x`. True gives an attribute without a value, None and False omit
    it."""
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    inner = "".join(part if isinstance(part, Markup) else html.escape(visible(part)) for part in content)
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{inner}</{name}>")


def join(parts: list[Markup]) -> Markup:
    """Concatenates the parts."""
    return Markup("".join(parts))


_VOID = frozenset({"input", "meta", "br"})


def _attribute(key: str, value: str | float | bool | None) -> str:
    # SVG has camel-case attributes, so only known hyphenated ones are changed.
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(visible(shown))}"'
