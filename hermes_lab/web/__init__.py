"""The web as tools see it: a task's own pages, a folder of documents, or a search service behind an API key."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hermes_lab.config.schema import WebConfig


class Hit(NamedTuple):
    """One search result."""

    title: str
    url: str
    snippet: str


class Document(NamedTuple):
    """What extraction gives for one address, as Markdown; `error` says why there is nothing, or what the site said."""

    url: str
    title: str
    text: str
    error: str = ""


class WebProvider(Protocol):
    """Something that finds and reads pages. What cannot be had is a `ToolError`, or a document with an error."""

    @property
    def outside(self) -> bool:
        """Whether pages come from strangers, so that they are scanned before a model reads them."""
        ...

    @property
    def reads_pages(self) -> bool:
        """Whether it reads pages, and does not only find them."""
        ...

    async def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` results, the best first."""
        ...

    async def extract(self, urls: Sequence[str]) -> list[Document]:
        """A document for each of `urls`, in their order."""
        ...


def open_web(config: WebConfig) -> WebProvider | None:
    """The provider that the configuration names; None for `none`.

    Nothing is reached before the first call. Raises `ConfigError` where the key or the corpus is missing.
    """
    if config.provider == "none":
        return None
    if config.provider == "corpus":
        from hermes_lab.web.corpus import load_corpus

        return load_corpus(config.corpus)
    from hermes_lab.web.services import open_service

    return open_service(config)
