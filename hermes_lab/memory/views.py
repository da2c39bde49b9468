"""The readings of a text that a model may recover: as written, undisguised, and decoded, including double encoding."""

import base64
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from hermes_lab.memory.hidden import INVISIBLE, without_look_alikes

_DEPTH = 3
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,]?){12,}")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+|(?:\\x[0-9A-Fa-f]{2})+|(?:\\u[0-9A-Fa-f]{4})+")
_BLANKS = re.compile(r"[^\S\n]+")
_SPREAD = re.compile(r"(?<!\w)\w(?:([ .\-_*|])\w(?:\1\w)+)(?!\w)")
_LEET = str.maketrans("01345789@$", "oieastbgas")
_LEET_WORD = re.compile(r"\b(?=[a-z]{0,20}[0-9@$])(?=[0-9@$]{0,20}[a-z])[a-z0-9@$]{3,40}\b")
_WORD = re.compile(r"[a-z]{5,16}")
_TELLING = (
    "ignore",
    "forget",
    "disregard",
    "override",
    "bypass",
    "previous",
    "prior",
    "instruction",
    "instructions",
    "prompt",
    "system",
    "rules",
    "guidelines",
    "reveal",
    "password",
    "secrets",
    "credentials",
    "unrestricted",
    "developer",
)
"""Words whose letters attackers like to shuffle; a reversed text without any of them is not worth reading."""
_SHUFFLED = {(word[0], "".join(sorted(word[1:-1])), word[-1]): word for word in _TELLING if len(word) > 4}


class View(NamedTuple):
    """One reading of a text or a part of it: in lowercase, starting at line `line`, obtained by `by` ("" or a chain
    such as `base64, base64`)."""

    text: str
    line: int
    by: str


def views(text: str) -> Iterator[View]:
    """All readings. Line breaks are kept, so line numbers of a view are those of the text."""
    layers: list[tuple[str, int, tuple[str, ...]]] = [(text, 1, ())]
    for _ in range(_DEPTH):
        deeper: list[tuple[str, int, tuple[str, ...]]] = []
        for content, line, by in layers:
            for reading, how in _readings(content):
                yield View(reading, line, ", ".join((*by, how) if how else by))
            deeper += [(inner, line + at, (*by, how)) for inner, at, how in _decoded(content)]
        layers = deeper


def plain(text: str) -> str:
    """Lowercase text with compatibility forms unified, invisible characters removed and blanks collapsed."""
    text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    return _BLANKS.sub(" ", text).replace("\u2019", "'").lower()


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """The plain text, then the undisguised one, reduced to lines that had a disguise and their neighbours."""
    as_it_stands = plain(text)
    yield as_it_stands, ""
    for how, before, after in (
        ("look-alike letters", as_it_stands, without_look_alikes(as_it_stands)),
        ("spread letters", wide := _bare(text), _SPREAD.sub(lambda spread: spread[0].replace(spread[1], ""), wide)),
        ("digits for letters", as_it_stands, _LEET_WORD.sub(lambda word: word[0].translate(_LEET), as_it_stands)),
        ("shuffled letters", as_it_stands, _WORD.sub(_unshuffled, as_it_stands)),
    ):
        if after != before:
            yield _changed(before, after), how
    for how, reading in (
        ("rot13", codecs.encode(as_it_stands, "rot13")),
        ("reversed", "\n".join(line[::-1] for line in as_it_stands.split("\n"))),
    ):
        if any(word in reading for word in _TELLING):
            yield reading, how


def _changed(before: str, after: str) -> str:
    """`after` with lines emptied that are the same in `before`, as are their neighbours."""
    lines = after.split("\n")
    same = [True, *(old == new for old, new in zip(before.split("\n"), lines, strict=True)), True]
    return "\n".join("" if all(same[n : n + 3]) else line for n, line in enumerate(lines))


def _bare(text: str) -> str:
    """As `plain`, but with all blanks kept: between spread letters they separate words."""
    return INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).lower()


def _unshuffled(word: re.Match[str]) -> str:
    letters: str = word[0]
    return _SHUFFLED.get((letters[0], "".join(sorted(letters[1:-1])), letters[-1]), letters)


def _decoded(text: str) -> Iterator[tuple[str, int, str]]:
    """The decoded parts of the text, with the number of line breaks before each, and the encoding."""
    bare = INVISIBLE.sub("", text)
    unescaped = "\n".join(map(_unescaped, bare.split("\n")))
    if unescaped != bare:
        yield _changed(bare, unescaped), 0, "escapes"
    for how, pattern, decode in (("base64", _BASE64, _from_base64), ("hex", _HEX, _from_hex)):
        line = passed = 0
        for token in pattern.finditer(bare):
            line += bare.count("\n", passed, token.start())
            passed = token.start()
            if inner := _text_of(decode(token[0])):
                yield inner, line, how


def _unescaped(line: str) -> str:
    return _ESCAPES.sub(_unescape, html.unescape(line)).replace("\n", " ")


def _unescape(match: re.Match[str]) -> str:
    run = match[0]
    if run.startswith("\\u"):
        return "".join(chr(int(digits, 16)) for digits in run[2:].split("\\u"))
    return bytes.fromhex(run.replace("%", "").replace("\\x", "")).decode(errors="replace")


def _from_base64(token: str) -> bytes:
    digits = token.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(digits[: len(digits) - (len(digits) % 4 == 1)] + "===")


def _from_hex(token: str) -> bytes:
    return bytes.fromhex(re.sub(r"0x|[^0-9A-Fa-f]", "", token))


def _text_of(data: bytes) -> str:
    """The bytes as text; "" if they are not text. A few invalid bytes are tolerated, as a decoded part may end too
    late."""
    text = data.decode(errors="ignore").replace("\n", " ")
    readable = sum(map(str.isprintable, text))
    return text if len(text) >= 8 and readable >= 0.95 * len(text) and len(text.encode()) >= 0.9 * len(data) else ""
