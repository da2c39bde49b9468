"""Real text that exists on any machine with Python: paragraphs of documentation and docstrings."""

import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_DOCUMENTS = {".md", ".rst", ".txt"}
_DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_BLANK = re.compile(r"\n\s*\n")
_WORD = re.compile(r"[A-Za-z]{2,}")
_LARGEST = 1 << 20


def paragraphs(count: int) -> list[str]:
    """The first `count` distinct paragraphs, ordered by file name; fewer if there are not enough."""
    found: dict[str, None] = {}
    for folder in ("stdlib", "purelib"):
        for path in sorted(Path(sysconfig.get_path(folder)).rglob("*")):
            for text in _texts(path):
                found.update(dict.fromkeys(_parts(text)))
            if len(found) >= count:
                return list(found)[:count]
    return list(found)


def _texts(path: Path) -> Iterator[str]:
    document = path.suffix in _DOCUMENTS or path.name == "METADATA"
    if (document or path.suffix == ".py") and path.is_file() and path.stat().st_size <= _LARGEST:
        text = path.read_text(errors="replace")
        yield from [text] if document else _DOCSTRING.findall(text)


def _parts(text: str) -> Iterator[str]:
    for part in _BLANK.split(text):
        paragraph = " ".join(part.split())
        if 60 <= len(paragraph) <= 1_500 and len(_WORD.findall(paragraph)) >= 10:
            yield paragraph
