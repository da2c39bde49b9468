"""What follows a switch, with the new version's own commands: bundled skills, and the gateway."""

from pathlib import Path

from hermes_lab.errors import HermesLabError
from hermes_lab.gateway.restart import read_status
from hermes_lab.runners.updates.layout import Installation, installation_here
from hermes_lab.runners.updates.processes import attempt
from hermes_lab.runners.updates.screen import Screen

_SYNCED = Path("skills", ".hermes", "bundled.json")


def settle(installation: Installation, home: Path, screen: Screen) -> None:
    """Brings the home up to the current version. What fails here leaves the version in place, and is told with the
    command that does it later. A second time changes nothing.

    A second installation on trial, made with `--at`, shares the home with the one that is in use, and must not change
    what that one works with.
    """
    # A home that never had the bundled skills gets them with its first chat.
    if (home / _SYNCED).is_file():
        _sync_skills(installation, screen)
    place = _gateway(home)
    if place is None:
        return
    if place.is_relative_to(installation.versions):
        _restart_gateway(installation, screen)
    else:
        screen.say(f"the gateway runs from {place}, and keeps that version")


def _sync_skills(installation: Installation, screen: Screen) -> None:
    later = f"{installation.program} skills sync"
    here = installation_here()
    if here is None or here.root != installation.root:
        screen.say(f"bundled skills were not updated from another installation; to do it: {later}")
        return
    code, output = attempt([installation.program, "skills", "sync"], screen)
    if code == 0:
        for line in output.splitlines():
            screen.say(f"skills: {line}")
    else:
        screen.say(f"warning: the bundled skills were not synced; do it with: {later}")


def _restart_gateway(installation: Installation, screen: Screen) -> None:
    code, output = attempt([installation.program, "gateway", "restart", "--if-older"], screen)
    for line in output.splitlines():
        screen.say(f"gateway: {line}")
    if code != 0:
        screen.say("warning: the gateway was not restarted; see: hermes-lab gateway status")


def _gateway(home: Path) -> Path | None:
    """The folder of the version that the gateway of the home runs from; None if none runs that can restart."""
    try:
        found, runs = read_status(home)
        return Path(found["installation"]) if runs else None
    except (OSError, HermesLabError, KeyError, TypeError):  # a damaged status is told by `gateway status`
        return None
