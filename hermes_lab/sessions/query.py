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
# Thai, Lao, Burmese, Hangul, Khmer, Tai, Balinese, kana, Bopomofo, Han, Yi, Javanese, Cham and their extensions. Hangul
# has spaces, but its words have suffixes: 서버를 contains 서버.
_CUT_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u3007"
    "\u3040-\u31bf\u31f0-\u31ff\u3400-\u9fff\ua000-\ua4cf\ua960-\uaadf\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_LATIN = "A-Za-z\u00c0-\u02af\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff"
# Letters of other scripts. Vowel signs are no letters for `re`, so the scripts that have them are named; so are keycaps
# and emoji, which FTS5 joins to the word behind them.
_OTHER = rf"(?:[^\W\d_{_LATIN}]|[\u0590-\u0dff\u20d0-\u20ff\U0001f000-\U0001faff])"
_BORDER = re.compile(
    rf"(?<=[{_CUT_SCRIPTS}\w]|{_OTHER})(?=[{_CUT_SCRIPTS}])|(?<=[{_CUT_SCRIPTS}])(?=\w)"
    rf"|(?<=[{_LATIN}])(?={_OTHER})|(?<={_OTHER})(?=[{_LATIN}])"
)
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
"""Variation selectors, which choose a glyph of the character before them, as in most emoji."""
_WIDTHS = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f\ufb00-\ufb06]+")
"""Letters and digits of another width, such as ＰＤＦ and ﾃｽﾄ, and ligatures of Latin letters."""
_TYPED = str.maketrans("“”„«»＂＊（）", '""""""*()')
"""What input methods and editors write for the characters of the query syntax."""


def cut(text: str) -> str:
    """The text with `CUT` between words that no space separates, in one width, and without variation selectors."""
    if text.isascii():
        return text
    text = _WIDTHS.sub(lambda run: unicodedata.normalize("NFKC", run[0]), _SELECTORS.sub("", text))
    return _BORDER.sub(CUT, unicodedata.normalize("NFC", text))


def is_cut(query: str) -> bool:
    """Whether the query contains words of scripts in which each letter is indexed as a word."""
    return CUT in query


def clean(query: str) -> str:
    """The query as valid SQLite text: without NUL, with `?` for lone surrogates, with plain spaces, quotes, stars and
    parentheses, and without leading stars, which FTS5 reads as special commands."""
    query = query.replace("\0", " ").encode(errors="replace").decode().translate(_TYPED)
    return cut(re.sub(r"\s", " ", query).lstrip(" *"))


def quoted(query: str) -> str:
    """Quotes each word of a query that is not valid FTS5 syntax (`foo-bar` becomes the phrase "foo bar"); `*` still
    marks a prefix."""
    words = [word for word in query.replace('"', " ").split() if word not in _OPERATORS][:_MOST_WORDS]
    return " ".join(f'"{word.rstrip("*")}"{"*" * word.endswith("*")}' for word in words if word.strip("*"))
