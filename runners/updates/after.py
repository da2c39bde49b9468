"""What follows a switch, with the new version's own commands: bundled skills, and the gateway."""

from pathlib import Path

from hermes_lab.runners.updates.layout import Installation
from hermes_lab.runners.updates.processes import attempt
from hermes_lab.runners.updates.screen import Screen

_SYNCED = Path("skills", ".hermes", "bundled.json")


def settle(installation: Installation, home: Path, screen: Screen) -> None:
    """Brings the home up to the current version. What fails here leaves the version in place, and is told with the
    command that does it later. A second time changes nothing."""
    # A home that never had the bundled skills gets them with its first chat.
    if (home / _SYNCED).is_file():
        code, output = attempt([installation.program, "skills", "sync"], screen)
        if code == 0:
            for line in output.splitlines():
                screen.say(f"skills: {line}")
        else:
            screen.say("warning: the bundled skills were not synced; do it with: hermes-lab skills sync")
    if (home / "gateway.json").is_file():
        code, output = attempt([installation.program, "gateway", "restart", "--if-older"], screen)
        for line in output.splitlines():
            screen.say(f"gateway: {line}")
        if code != 0:
            screen.say("warning: the gateway was not restarted; see: hermes-lab gateway status")
