"""How the running package was installed, and how such an installation is updated."""

import json
import os
import shlex
import sys
import sysconfig
from collections.abc import Mapping
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hermes_lab.config.sandboxes import IMAGE
from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.sources import INDEX, parse_source

_AT = "hermes-lab update --at DIR --from {source} makes an installation that this command can update"
_ANY = "SOURCE"
"""Stands for a source where none is known, as in the help."""
_NEW_WHEEL = "get the wheel of the new version, then {} WHEEL"


def how_to_update() -> str:
    """What a person does to update a package that `hermes-lab update` does not manage."""
    prefix = Path(sys.prefix)
    if os.environ.get(IMAGE):
        return (
            "this is a container: on its host, fetch the new version and run `docker compose up -d --build`, or for "
            "docker-compose.lab.yml `docker compose -f docker-compose.lab.yml build lab`; data, skills, database and "
            "runs stay in their folders and volumes"
        )
    if checkout := _checkout():
        where = shlex.quote(str(checkout))
        again = f"make -C {where} setup" if _is_of_make(checkout, prefix) else f"{_pip()} -e {where}"
        if not (checkout / ".git").exists():
            return (
                f"this runs from {where}, which is no Git repository: put the new version's files there, then {again}"
            )
        return f"this is a checkout: git -C {where} pull --ff-only && {again}; or {_AT.format(source=where)}"
    direct = _direct()
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx installed this: {_pipx(direct)}"
    if (prefix / "uv-receipt.toml").exists():
        new = _NEW_WHEEL.format("uv tool install --force") if _is_file(direct) else "uv tool upgrade hermes-lab"
        return f"uv installed this: {new}"
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        return "this Python belongs to the system: update the package as it was installed there"
    installed, source = _given(direct)
    what = "pip installed this" if _has_pip() else "this environment has no pip"
    return f"{what}: {_again(installed, direct)}; or {_AT.format(source=shlex.quote(source))}"


def _again(installed: str, direct: Mapping[str, Any]) -> str:
    """The command that installs the newest version of what pip was given."""
    if _is_file(direct):
        return _NEW_WHEEL.format(_pip())
    upgrade = f"{_pip()} --upgrade {shlex.quote(installed)}"
    if "vcs_info" in direct and _has_pip():
        # pip keeps an installed package with the same number, which all commits between two releases have.
        return f"{upgrade} && {_pip()} --force-reinstall --no-deps {shlex.quote(installed)}"
    return upgrade


def _pipx(direct: Mapping[str, Any]) -> str:
    if _is_file(direct):
        return _NEW_WHEEL.format("pipx install --force")
    # `upgrade` leaves the same number to pip, which keeps it.
    return "pipx reinstall hermes-lab" if "vcs_info" in direct else "pipx upgrade hermes-lab"


def _is_file(direct: Mapping[str, Any]) -> bool:
    """Whether the package came as a wheel or an archive, which is one version for ever."""
    return "archive_info" in direct


def _has_pip() -> bool:
    return PathFinder.find_spec("pip") is not None


def _pip() -> str:
    """The command that installs into this environment; those of uv have no pip."""
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install" if _has_pip() else f"uv pip install --python {python}"


def _is_of_make(checkout: Path, prefix: Path) -> bool:
    """Whether `make setup` made this environment, with everything that tests and trainings need."""
    made = checkout / ".venv"
    return (made / "ready").exists() and made.resolve() == prefix.resolve()


def _checkout() -> Path | None:
    """The folder of an editable installation."""
    found = _direct()
    if not found.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(str(found["url"])).path))


def _given(found: Mapping[str, Any]) -> tuple[str, str]:
    """What pip was given to install, and the same as a source of `hermes-lab update`."""
    if not found:
        return "hermes-lab", INDEX
    url, vcs = str(found["url"]), found.get("vcs_info", {}).get("vcs", "")
    if vcs:
        return f"{vcs}+{url}", _accepted(url) if vcs == "git" else _ANY
    parts = urlsplit(url)
    given = unquote(parts.path) if parts.scheme == "file" else url
    return given, _accepted(given)


def _accepted(source: str) -> str:
    try:
        return parse_source(source)
    except ConfigError:
        return _ANY


def _direct() -> dict[str, Any]:
    try:
        text = distribution("hermes-lab").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(text) if text else {}
