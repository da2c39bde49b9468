"""What is indexed of a message, and what a person or a model types into a search, as FTS5 takes both.

FTS5 takes letters in a row for one word. In scripts without spaces, and where a word of one script stands in text of
another, that is a whole sentence. So such texts and queries are cut, by a character that nobody sees: each letter of
those scripts is a word of its own, and what is looked for is a phrase of them.
"""

import re
import unicodedata

CUT = "\u200b"
"""The zero-width space, which separates words to FTS5."""

_MOST_WORDS = 100
_OPERATORS = frozenset({"AND", "OR", "NOT"})
# Thai, Lao, Burmese, Hangul, Khmer, kana and Han. Hangul has spaces, but its words have endings: 서버를 is 서버.
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
    """The text with a `CUT` between words that no space separates."""
    return text if text.isascii() else _BORDER.sub(CUT, unicodedata.normalize("NFC", text))


def is_cut(query: str) -> bool:
    """Whether the query looks for words of scripts whose letters are words of their own."""
    return CUT in query


def clean(query: str) -> str:
    """The query as text that SQLite takes whole: without NUL, a lone surrogate as `?`, and no star in front, by which
    FTS5 would be asked about itself."""
    return cut(re.sub(r"\A[\s*]+", "", query.replace("\0", " ").encode(errors="replace").decode()))


def quoted(query: str) -> str:
    """All words of a query that is no FTS5 syntax, each as a phrase (`foo-bar` is foo beside bar), `*` as a prefix."""
    words = [word for word in query.replace('"', " ").split() if word not in _OPERATORS][:_MOST_WORDS]
    return " ".join(f'"{word.rstrip("*")}"{"*" * word.endswith("*")}' for word in words if word.strip("*"))
