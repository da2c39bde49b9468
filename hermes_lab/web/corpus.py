"""Pages in memory, ranked by BM25: deterministic, and without network access."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.types import Page
from hermes_lab.web.provider import Document, Hit

_WORD = re.compile(r"\w+")
_SATURATION, _LENGTH_SHARE = 1.2, 0.75
_TITLE_WEIGHT = 3
"""How often a word in the title counts, compared with one in the text."""
_SNIPPET = 240
_GONE = {404: "not found", 410: "gone"}


class Corpus:
    """A `WebProvider` over fixed pages. If two share an address, the first one wins."""

    outside = False

    reads_pages = True

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages: dict[str, Page] = {}
        for page in pages:
            self._pages.setdefault(_key(page.url), page)
        self._listed = [page for page in self._pages.values() if page.listed]
        self._index: dict[str, list[tuple[int, float]]] | None = None

    async def search(self, query: str, limit: int) -> list[Hit]:
        """The listed pages that contain a word of the query; ties keep the order of the pages."""
        words = dict.fromkeys(_words(query))
        scores: defaultdict[int, float] = defaultdict(float)
        if self._index is None:
            self._index = _weigh(self._listed)
        for word in words:
            for number, weight in self._index.get(word, ()):
                scores[number] += weight
        best = sorted(scores, key=lambda number: (-scores[number], number))[:limit]
        return [Hit(page.title, page.url, _snippet(page, words)) for page in map(self._listed.__getitem__, best)]

    async def extract(self, urls: Sequence[str]) -> list[Document]:
        """The pages at these addresses, ignoring http or https, fragments and a trailing slash."""
        return [self._document(url) for url in urls]

    def page(self, url: str) -> Page | None:
        """The page at an address; if there is none, that at the address without its query."""
        return self._pages.get(_key(url)) or self._pages.get(_key(url.partition("?")[0]))

    def has_host(self, host: str) -> bool:
        """Whether a page has an address of that host."""
        return any(urlsplit(key).hostname == host.lower() for key in self._pages)

    def _document(self, url: str) -> Document:
        page = self._pages.get(_key(url))
        if page is None:
            return Document(url, "", "", f"HTTP 404 ({_GONE[404]})")
        reason = f" ({_GONE[page.status]})" if page.status in _GONE else ""
        return Document(url, page.title, page.text, f"HTTP {page.status}{reason}" if page.status >= 400 else "")


@lru_cache(maxsize=64)  # shared by the samples of a task
def corpus_of(pages: tuple[Page, ...]) -> Corpus:
    """The corpus of a task with its own pages."""
    return Corpus(pages)


@lru_cache(maxsize=4)
def load_corpus(path: str) -> Corpus:
    """Loads a JSONL file with one `Page` per line, or a folder of `.md` and `.txt` files.

    Files of a folder get `file:` addresses relative to it. Raises `ConfigError` for unreadable input.
    """
    source = Path(path).expanduser()
    try:
        pages = _folder(source) if source.is_dir() else _lines(source)
    except OSError as error:
        raise ConfigError(f"web.corpus: {error.filename}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"web.corpus: {path}: not UTF-8 text") from None
    if not pages:
        raise ConfigError(f"web.corpus: {path}: no pages; use a JSONL file or a folder of .md and .txt files")
    return Corpus(pages)


def _folder(folder: Path) -> list[Page]:
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".md", ".txt") and path.is_file())
    return [_of_file(path, path.relative_to(folder).as_posix()) for path in files]


def _of_file(path: Path, name: str) -> Page:
    text = path.read_text()
    first = text.lstrip().partition("\n")[0]
    title = first.lstrip("# ").strip() if first.startswith("#") else path.stem.replace("-", " ").replace("_", " ")
    return Page(url=f"file:{name}", title=title, text=text)


def _lines(file: Path) -> list[Page]:
    pages = []
    # Split at \n only: `splitlines` also splits at U+2028 and the like, which a text may contain.
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        text = line.decode().removeprefix("\ufeff")
        if not text.strip():
            continue
        try:
            pages.append(msgspec.convert(json.loads(text, strict=False), Page))
        except (ValueError, RecursionError) as error:  # msgspec.ValidationError is a ValueError
            raise ConfigError(f"web.corpus: {file}:{number}: invalid page: {error}") from None
    return pages


def _key(url: str) -> str:
    """Normalises an address, so that addresses of the same page are equal."""
    address = url.strip().partition("#")[0].rstrip("/")
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    host, slash, path = rest.partition("/")
    return f"{'http' if scheme.lower() == 'https' else scheme.lower()}://{host.lower()}{slash}{path}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _weigh(pages: Sequence[Page]) -> dict[str, list[tuple[int, float]]]:
    """The BM25 weight of each word in each page that contains it (Robertson and Zaragoza 2009, 3.3)."""
    counts = [Counter(_words(page.title) * _TITLE_WEIGHT + _words(page.text)) for page in pages]
    lengths = [count.total() for count in counts]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    holding = Counter(word for count in counts for word in count)
    index: dict[str, list[tuple[int, float]]] = {}
    for number, count in enumerate(counts):
        room = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * lengths[number] / mean)
        for word, times in count.items():
            rarity = math.log(1 + (len(pages) - holding[word] + 0.5) / (holding[word] + 0.5))
            index.setdefault(word, []).append((number, rarity * times * (_SATURATION + 1) / (times + room)))
    return index


def _snippet(page: Page, words: Iterable[str]) -> str:
    """The line with the most query words; the first one if there are several."""
    wanted = set(words)
    lines = [line for line in page.text.splitlines() if line.strip() and not line.startswith("#")]
    best = max(lines, key=lambda line: len(wanted.intersection(_words(line))), default="").strip()
    return best if len(best) <= _SNIPPET else f"{best[:_SNIPPET]}…"
