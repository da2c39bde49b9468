"""What a person or a model types into a search, as a query that FTS5 takes."""

import re

_MOST_WORDS = 100
_OPERATORS = frozenset({"AND", "OR", "NOT"})
# Thai, Lao, Burmese, Khmer, kana and Han: words without spaces between them, which FTS5 takes for one word.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def clean(query: str) -> str:
    """The query as text that SQLite takes whole: without NUL, a lone surrogate as `?`, and no star in front, by which
    FTS5 would be asked about itself."""
    return re.sub(r"\A[\s*]+", "", query.replace("\0", " ").encode(errors="replace").decode())


def quoted(query: str) -> str:
    """All words of a query that is no FTS5 syntax, each as a phrase (`foo-bar` is foo beside bar), `*` as a prefix."""
    words = [word for word in query.replace('"', " ").split() if word not in _OPERATORS][:_MOST_WORDS]
    return " ".join(f'"{word.rstrip("*")}"{"*" * word.endswith("*")}' for word in words if word.strip("*"))


def unspaced(query: str) -> list[str]:
    """The words to look for as plain text, where the query is in a script without spaces and has no operators."""
    words = re.sub(r'["()*]', " ", query).split()[:_MOST_WORDS]
    return words if _UNSPACED.search(query) and _OPERATORS.isdisjoint(words) else []
