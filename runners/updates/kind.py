"""How the running package was installed, and how such an installation is updated."""

import os
import shlex
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path

from hermes_lab.config.sandboxes import IMAGE
from hermes_lab.runners.updates.given import Given, given

_NEW_WHEEL = "get the wheel of the new version, then "


def how_to_update() -> str:
    """What a person does to update a package that `hermes-lab update` does not manage."""
    prefix = Path(sys.prefix)
    if os.environ.get(IMAGE):
        return (
            "this is a container: on its host, fetch the new version and run `docker compose up -d --build`, or for "
            "docker-compose.lab.yml `docker compose -f docker-compose.lab.yml build lab`; data, skills, database and "
            "runs stay in their folders and volumes"
        )
    found = given()
    if found.folder and found.editable:
        return _checkout(found, found.folder, prefix)
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx installed this: {_first(found)}{_pipx(found)}"
    if (prefix / "uv-receipt.toml").exists():
        return f"uv installed this: {_first(found)}{_uv_tool(found)}"
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        return "this Python belongs to the system: update the package as it was installed there"
    what = "pip installed this" if _has_pip() else "this environment has no pip"
    return f"{what}: {_first(found)}{_again(found)}; or {_at(found)}"


def _checkout(found: Given, folder: Path, prefix: Path) -> str:
    again = f"{_pip()} -e {shlex.quote(found.requirement)}"
    if _is_of_make(folder, prefix):
        again = f"make -C {shlex.quote(str(folder))} setup"
    if not _is_cloned(folder):
        return f"this runs from {folder}, which is no Git repository: {_first(found)}{again}"
    return f"this is a checkout: {_first(found)}{again}; or {_at(found)}"


def _first(found: Given) -> str:
    """How the new version gets to where it is installed from."""
    if found.is_file:
        return _NEW_WHEEL
    if not found.folder:
        return ""
    where = shlex.quote(str(found.folder))
    return f"git -C {where} pull --ff-only && " if _is_cloned(found.folder) else f"put its files in {where}, then "


def _again(found: Given) -> str:
    """The command that installs the newest version of what pip was given."""
    what = shlex.quote(found.requirement)
    if found.is_file:
        return f"{_pip()} {what}"
    upgrade = f"{_pip()} --upgrade {what}"
    if found.is_repository and _has_pip():
        # pip keeps an installed package with the same number, which all commits between two releases have.
        return f"{upgrade} && {_pip()} --force-reinstall --no-deps {what}"
    return upgrade


def _pipx(found: Given) -> str:
    if found.is_file:
        return f"pipx install --force {shlex.quote(found.requirement)}"
    # `upgrade` leaves the same number to pip, which keeps it.
    return "pipx reinstall hermes-lab" if found.is_repository or found.folder else "pipx upgrade hermes-lab"


def _uv_tool(found: Given) -> str:
    if found.is_file:
        return f"uv tool install --force {shlex.quote(found.requirement)}"
    # What it built of a folder is kept until pyproject.toml changes.
    return f"uv tool upgrade hermes-lab{' --reinstall' if found.folder else ''}"


def _at(found: Given) -> str:
    to = f" --to {shlex.quote(found.ref)}" if found.ref else ""
    extras = f" --extras {','.join(found.extras)}" if found.extras else ""
    command = f"hermes-lab update --at DIR --from {shlex.quote(found.source)}{to}{extras}"
    return f"{command} makes an installation that this command can update"


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


def _is_cloned(folder: Path) -> bool:
    return (folder / ".git").exists()
