"""Whether a version reads the databases of a home, which a newer one may have migrated."""

from collections.abc import Iterator
from pathlib import Path

from hermes_lab.runners.updates.layout import PROGRAM
from hermes_lab.runners.updates.processes import attempt
from hermes_lab.runners.updates.screen import Screen

_READERS = {"sessions.db": ("sessions", "list"), "cron.db": ("cron", "list"), "gateway.db": ("gateway", "pair")}
"""The databases of a home, and the command of a version that reads each and changes nothing in it."""


def unreadable(folder: Path, home: Path, screen: Screen) -> Iterator[str]:
    """The databases of the home that the version in `folder` does not open, each with its own reason."""
    for name, command in _READERS.items():
        if not (home / name).is_file():
            continue
        # What it prints are names of people and conversations.
        code, output = attempt([folder / "bin" / PROGRAM, *command], screen, log_output=False)
        if code != 0:
            lines = [line.strip() for line in output.splitlines() if line.strip()]
            yield f"{name}: {lines[-1] if lines else f'exit code {code}'}"
