"""What pip was given to install the running package, by the record that it keeps (PEP 610)."""

import json
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.sources import INDEX, parse_source

_PACKAGE = "hermes-lab"
_ANY = "SOURCE"
"""Stands for a source where none is known, as in the help."""
_WHEEL = "WHEEL"
_NEEDED = re.compile(r"(?P<name>[\w.-]+).*;.*\bextra == ['\"](?P<extra>[\w.-]+)['\"]")


class Given(NamedTuple):
    """What pip was given. `requirement` says it again, for the newest version; `source` and `ref` say it to
    `hermes-lab update`. `folder` is where it came from if that was a folder."""

    requirement: str
    source: str
    extras: tuple[str, ...]
    ref: str = ""
    folder: Path | None = None
    editable: bool = False
    is_file: bool = False
    is_repository: bool = False


def given() -> Given:
    """What pip was given to install the running package."""
    direct, extras = _direct(), _extras()
    named = f"[{','.join(extras)}]" if extras else ""
    if not direct:
        return Given(f"{_PACKAGE}{named}", INDEX, extras)
    if "archive_info" in direct:  # a wheel or an archive, which is one version for ever
        return Given(f"{_WHEEL}{named}", _WHEEL, extras, is_file=True)
    url = str(direct["url"])
    if vcs := direct.get("vcs_info"):
        return _of_repository(url, vcs, str(direct.get("subdirectory", "")), extras, named)
    folder = Path(unquote(urlsplit(url).path))
    editable = bool(direct.get("dir_info", {}).get("editable"))
    return Given(f"{folder}{named}", _accepted(str(folder)), extras, folder=folder, editable=editable)


def _of_repository(url: str, vcs: Mapping[str, Any], subdirectory: str, extras: tuple[str, ...], named: str) -> Given:
    ref = str(vcs.get("requested_revision", ""))
    if ref and str(vcs.get("commit_id", "")).startswith(ref):
        ref = ""  # a commit is one version for ever
    where = f"{vcs['vcs']}+{url}{f'@{ref}' if ref else ''}{f'#subdirectory={subdirectory}' if subdirectory else ''}"
    requirement = f"{_PACKAGE}{named} @ {where}" if named else where
    if vcs["vcs"] != "git" or subdirectory:
        return Given(requirement, _ANY, extras, is_repository=True)
    return Given(requirement, _accepted(url), extras, ref, is_repository=True)


def _extras() -> tuple[str, ...]:
    """The extras whose packages are all installed: pip does not record which a person named."""
    needed: dict[str, list[str]] = {}
    try:
        lines = distribution(_PACKAGE).requires or []
    except PackageNotFoundError:
        return ()
    for line in lines:
        if (found := _NEEDED.match(line)) and found["name"] != _PACKAGE:  # not the extras that name others
            needed.setdefault(found["extra"], []).append(found["name"])
    return tuple(sorted(extra for extra, names in needed.items() if all(map(_is_installed, names))))


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _accepted(source: str) -> str:
    try:
        return parse_source(source)
    except ConfigError:
        return _ANY


def _direct() -> dict[str, Any]:
    try:
        text = distribution(_PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(text) if text else {}
