"""URLs and paths that a person gives: what may not be stored is refused, and a path means the same everywhere."""

import re
from pathlib import Path

from hermes_lab.errors import ConfigError
from hermes_lab.skills.storage.sources import shown_url

_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)


def bare_url(url: str) -> str:
    """The URL without login, query and fragment."""
    return shown_url(url).partition("#")[0].partition("?")[0]


def refuse_secrets(option: str, text: str) -> None:
    """Raises `ConfigError` if a URL in the text has a password or a query: the log and the record of the installation
    would keep them."""
    for url in _URL.findall(text):
        if shown_url(url) != url:
            raise ConfigError(
                f"{option}: {bare_url(url)}: remove the password from the URL; git asks its helpers, pip reads ~/.netrc"
            )
        if "?" in url.partition("#")[0]:
            raise ConfigError(f"{option}: {bare_url(url)}: remove the query (?...) from the URL; it may have a token")


def absolute(option: str, path: str | Path) -> Path:
    """The path from the root. Raises `ConfigError` for the home of a user who does not exist."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise ConfigError(f"{option}: {path}: no such user; write the whole path") from None
