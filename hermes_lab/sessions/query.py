"""Prepares messages and search queries for FTS5.

FTS5 treats adjacent letters as one word, which in scripts without spaces, or where scripts mix, can be a whole
sentence. Such texts and queries are therefore split by an invisible character: each letter of those scripts becomes a
word, and a query becomes a phrase of them.
"""

import re
import unicodedata

CUT = "\u200b"
"""The zero-width space, which separates words for FTS5."""

_MOST_WORDS = 100
_OPERATORS = frozenset({"AND", "OR", "NOT"})
# Thai, Lao, Burmese, Hangul, Khmer, kana and Han. Hangul has spaces, but its words have suffixes: 서버를 contains 서버.
_CUT_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u3400-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_LATIN = "A-Za-z\u00c0-\u02af\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff"
_OTHER = rf"[^\W\d_{_LATIN}]"
_BORDER = re.compile(
    rf"(?<=[{_CUT_SCRIPTS}\w])(?=[{_CUT_SCRIPTS}])|(?<=[{_CUT_SCRIPTS}])(?=\w)"
    rf"|(?<=[{_LATIN}])(?={_OTHER})|(?<={_OTHER})(?=[{_LATIN}])"
)


def cut(text: str) -> str:
    """The text with `CUT` between words that no space separates."""
    return text if text.isascii() else _BORDER.sub(CUT, unicodedata.normalize("NFC", text))


def is_cut(query: str) -> bool:
    """Whether the query contains words of scripts in which each letter is indexed as a word."""
    return CUT in query


def clean(query: str) -> str:
    """The query as valid SQLite text: without NUL, with `?` for lone surrogates, and without leading stars, which FTS5
    reads as special commands."""
    return cut(re.sub(r"\A[\s*]+", "", query.replace("\0", " ").encode(errors="replace").decode()))


def quoted(query: str) -> str:
    """Quotes each word of a query that is not valid FTS5 syntax (`foo-bar` becomes the phrase "foo bar"); `*` still
    marks a prefix."""
    words = [word for word in query.replace('"', " ").split() if word not in _OPERATORS][:_MOST_WORDS]
    return " ".join(f'"{word.rstrip("*")}"{"*" * word.endswith("*")}' for word in words if word.strip("*"))
