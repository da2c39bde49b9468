"""The web that tools search: a task's own pages, a folder of documents, or a search service with an API key."""

from hermes_lab.config.schema import WebConfig
from hermes_lab.web.provider import Document, Hit, WebProvider

__all__ = ["Document", "Hit", "WebProvider", "open_web"]


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
