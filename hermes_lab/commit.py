"""The commit that the running package is from: versions in development all have the same number."""

import functools
import json
import os
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

_PACKAGE = "hermes-lab"
INSTALLATION = "install.json"
"""What `hermes-lab update` writes into the environment of each version."""
CHECKOUT = Path(__file__).parents[1]
"""The folder around the package: that of the repository in a checkout."""
_SECONDS = 10.0


def checkout_commit(folder: Path = CHECKOUT) -> str:
    """The commit of the repository in `folder`, with `-dirty` if tracked files differ from it.

    "" where there is no repository, as in an installed package, or where git does not answer.
    """
    if not (folder / ".git").exists():
        return ""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0"},  # it may run beside a commit
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def package_commit() -> str:
    """The commit of a checkout (`checkout_commit`), or the one that pip or `hermes-lab update` installed from a
    repository; "" where none is known, as for a release."""
    return checkout_commit() or _installed_commit()


@functools.cache
def package_version() -> str:
    """The version of the running package for a record, with the commit if one is known: `0.1.0` or
    `0.1.0 77c2d0a3f91b-dirty`."""
    commit, dash, dirty = package_commit().partition("-")
    try:
        number = version(_PACKAGE)
    except PackageNotFoundError:  # its source files alone
        number = ""
    return f"{number} {commit[:12]}{dash}{dirty}".strip()


def _installed_commit() -> str:
    try:
        found = distribution(_PACKAGE)
    except PackageNotFoundError:
        return ""
    if Path(str(found.locate_file("hermes_lab"))).resolve() != Path(__file__).parent.resolve():
        return ""  # that is another copy of the package
    return _text(_direct(found).get("vcs_info"), "commit_id") or _text(_read(Path(sys.prefix, INSTALLATION)), "commit")


def _direct(found: Distribution) -> dict[str, Any]:
    text = found.read_text("direct_url.json")
    return _decoded(text) if text else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        return _decoded(path.read_text())
    except (OSError, UnicodeDecodeError):
        return {}


def _decoded(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(found: object, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""
