"""The driver and the Chromium on this machine. Playwright's Python package is found, and never imported."""

import importlib.util
import json
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hermes_lab.sandbox.extras import NOTHING_MORE, Extras

_SYSTEM = (
    "/usr/lib/chromium/chromium",  # not /usr/bin/chromium, a script that needs files of /etc
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
)
_DOWNLOADED = {
    "chromium-headless-shell": "chromium_headless_shell-{}/chrome-headless-shell-linux64/chrome-headless-shell",
    "chromium": "chromium-{}/chrome-linux64/chrome",
}
"""Where `playwright install` puts each browser, by the revision that the driver expects."""
_PACKAGE = "install the extra `browser`: pip install 'hermes-lab[browser]'"
_CHROMIUM = "install Chromium: `playwright install chromium-headless-shell`, or `apt install chromium`"


class Installed(NamedTuple):
    """The folder of Playwright's driver, with `node` and `package`, and the Chromium that it starts."""

    driver: Path
    chromium: Path


@cache
def find_installed() -> Installed | str:
    """What is installed, or else what to install, in a few words."""
    spec = importlib.util.find_spec("playwright")
    driver = Path(spec.origin).parent / "driver" if spec and spec.origin else None
    if driver is None or not (driver / "node").is_file():
        return _PACKAGE
    chromium = next((path for path in (*_downloads(driver), *map(Path, _SYSTEM)) if path.is_file()), None)
    return Installed(driver, chromium) if chromium else _CHROMIUM


def missing_browser() -> str:
    """What to install before the tools can work; "" if all is there (`available` of a tool)."""
    found = find_installed()
    return found if isinstance(found, str) else ""


def browser_extras() -> Extras:
    """What a sandbox needs for a browser (`extras` of a tool)."""
    found = find_installed()
    if isinstance(found, str):
        return NOTHING_MORE
    return Extras(installed=(found.driver, found.chromium.parent), address_space=False)


def _downloads(driver: Path) -> list[Path]:
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or cache_folder / "ms-playwright")
    try:
        listed = json.loads((driver / "package/browsers.json").read_bytes())["browsers"]
        revisions = {each["name"]: each["revision"] for each in listed}
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [folder / path.format(revisions[name]) for name, path in _DOWNLOADED.items() if name in revisions]
