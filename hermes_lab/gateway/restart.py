"""The status file of the gateway, and how the gateway of a home is asked to restart: by a file that it looks for."""

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.processes import python_module
from hermes_lab.records import write_atomic

STATUS = "gateway.json"
HEARTBEAT_SECONDS = 2.0
_LATE_SECONDS = 5 * HEARTBEAT_SECONDS
_REQUEST = Path("gateway", "restart")
_LOOK_SECONDS = 0.5


def read_status(home: Path) -> tuple[dict[str, Any], bool]:
    """What the gateway of a home last wrote, empty if there never was one, and whether it runs. Raises `ConfigError`
    if the file is damaged."""
    path = home / STATUS
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else {}
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: damaged: {error}; remove it, the gateway writes it again") from None
    runs = bool(found) and not found["ended"] and time.time() - found["heartbeat"] < _LATE_SECONDS
    return found, runs and lives(found["pid"])


def lives(pid: int) -> bool:
    """Whether a process of that number has not ended; one that nobody has waited for yet has."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def installation() -> str:
    """The folder of the version that this process runs from, also if its Python was started through a link."""
    return str(Path(sys.prefix).resolve())


def ask(home: Path) -> None:
    """Asks the gateway of a home to restart."""
    write_atomic(home / _REQUEST, "")


async def asked(home: Path) -> None:
    """Returns once the gateway is asked to restart. A request from before is forgotten first."""
    path = home / _REQUEST
    path.unlink(missing_ok=True)
    while not path.exists():  # noqa: ASYNC110  # another process writes it
        await anyio.sleep(_LOOK_SECONDS)
    path.unlink(missing_ok=True)


def program() -> list[str]:
    """The command that starts this program again, in the version that is current then."""
    folder = Path(installation())
    launcher = folder.parents[1] / "bin" / "hermes-lab"  # of an installation that `hermes-lab update` manages
    if folder.parent.name == "versions" and launcher.is_symlink():
        return [str(launcher)]
    return python_module("hermes_lab")
