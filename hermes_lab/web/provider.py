"""What a provider of web pages offers, and its results."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Hit(NamedTuple):
    """One search result."""

    title: str
    url: str
    snippet: str


class Document(NamedTuple):
    """The extracted content of one address, as Markdown; `error` says why there is none, or is the site's own error."""

    url: str
    title: str
    text: str
    error: str = ""


class WebProvider(Protocol):
    """Searches and reads pages. Failures are a `ToolError`, or a document with an error."""

    @property
    def outside(self) -> bool:
        """Whether pages come from third parties, and must be scanned before a model reads them."""
        ...

    @property
    def reads_pages(self) -> bool:
        """Whether it can read pages, not only search."""
        ...

    async def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` results, best first."""
        ...

    async def extract(self, urls: Sequence[str]) -> list[Document]:
        """One document for each of `urls`, in order."""
        ...
