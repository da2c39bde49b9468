"""How the running package was installed, and how such an installation is updated."""

import json
import os
import shlex
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_IMAGE = "HERMES_LAB_IMAGE"
"""Set in the images that the Dockerfile builds."""
_AT = "hermes-lab update --at DIR --from {source} makes an installation that this command can update"


def how_to_update() -> str:
    """What a person does to update a package that `hermes-lab update` does not manage."""
    prefix = Path(sys.prefix)
    if os.environ.get(_IMAGE):
        return (
            "this is a container: on its host, fetch the new version and run `docker compose up -d --build`; data, "
            "skills and database stay in their volumes"
        )
    if checkout := _checkout():
        where = shlex.quote(str(checkout))
        return (
            f"this is a checkout: git -C {where} pull --ff-only && make -C {where} setup; or {_AT.format(source=where)}"
        )
    if (prefix / "pipx_metadata.json").exists():
        return "pipx installed this: pipx upgrade hermes-lab"
    if (prefix / "uv-receipt.toml").exists():
        return "uv installed this: uv tool upgrade hermes-lab"
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        return "this Python belongs to the system: update the package as it was installed there"
    source = _url()
    what = shlex.quote(source) if source else "hermes-lab"
    return (
        f"pip installed this: {shlex.quote(sys.executable)} -m pip install --upgrade {what}; or "
        f"{_AT.format(source=what if source else 'index')}"
    )


def _checkout() -> Path | None:
    """The folder of an editable installation."""
    found = _direct()
    if not found.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(str(found["url"])).path))


def _url() -> str:
    """What pip was given to install, if not a name."""
    found = _direct()
    if not found:
        return ""
    url, vcs = str(found["url"]), found.get("vcs_info", {}).get("vcs", "")
    return f"{vcs}+{url}" if vcs else url


def _direct() -> dict[str, dict[str, str]]:
    try:
        text = distribution("hermes-lab").read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return json.loads(text) if text else {}
