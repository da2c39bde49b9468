"""How the running package was installed, and how such an installation is updated."""

import json
import os
import shlex
import sys
import sysconfig
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hermes_lab.config.sandboxes import IMAGE
from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.sources import INDEX, parse_source

_AT = "hermes-lab update --at DIR --from {source} makes an installation that this command can update"
_ANY = "SOURCE"
"""Stands for a source where none is known, as in the help."""


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
        return f"this is a checkout: git -C {where} pull --ff-only && {again}; or {_AT.format(source=where)}"
    if (prefix / "pipx_metadata.json").exists():
        return "pipx installed this: pipx upgrade hermes-lab"
    if (prefix / "uv-receipt.toml").exists():
        return "uv installed this: uv tool upgrade hermes-lab"
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        return "this Python belongs to the system: update the package as it was installed there"
    installed, source = _given()
    what = "pip installed this" if _has_pip() else "this environment has no pip"
    return f"{what}: {_pip()} --upgrade {shlex.quote(installed)}; or {_AT.format(source=shlex.quote(source))}"


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


def _given() -> tuple[str, str]:
    """What pip was given to install, and the same as a source of `hermes-lab update`."""
    found = _direct()
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


def _direct() -> dict[str, dict[str, str]]:
    try:
        text = distribution("hermes-lab").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(text) if text else {}
