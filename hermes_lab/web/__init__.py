"""The web that tools search: a task's own pages, a folder of documents, or a search service with an API key."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hermes_lab.config.schema import WebConfig


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


def open_web(config: WebConfig) -> WebProvider | None:
    """The configured provider; None for `none`.

    Makes no request yet. Raises `ConfigError` if the key or the corpus is missing.
    """
    if config.provider == "none":
        return None
    if config.provider == "corpus":
        from hermes_lab.web.corpus import load_corpus

        return load_corpus(config.corpus)
    from hermes_lab.web.services import open_service

    return open_service(config)
