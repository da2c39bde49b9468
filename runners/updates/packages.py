"""The packages of a person, which are installed with each version."""

import os
from collections.abc import Sequence

from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.urls import absolute, refuse_secrets

ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tar")
"""How the names of source archives end."""
_OPTION = "--with"


def parse_packages(given: Sequence[str]) -> tuple[str, ...]:
    """The packages as they are recorded, so that an update from any folder installs the same. Empty ones are left out.

    Raises `ConfigError` for an option of pip, and for a URL with a password or a token.
    """
    return tuple(_parsed(text) for text in map(str.strip, given) if text)


def _parsed(text: str) -> str:
    if text.startswith("-"):
        raise ConfigError(f"{_OPTION}: {text.split()[0].partition('=')[0]}: is an option of pip; give a package")
    refuse_secrets(_OPTION, text)
    if "://" in text:
        return text
    where, bracket, extras = text.partition("[")
    path = absolute(_OPTION, where)
    # As pip does: `name` is a package of the index, also where a folder has that name.
    as_path = (os.sep in where or where.startswith(".")) and path.exists()
    as_file = path.name.endswith((".whl", *ARCHIVES)) and path.is_file()
    return f"{path}{bracket}{extras}" if as_path or as_file else text
