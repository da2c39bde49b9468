"""An installation of the stand-in for the package, and what a person does with it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from fakes.command import lab
from fakes.quick_update import quick
from fakes.small_lab import SmallLab

from hermes_lab.runners.updates import build
from hermes_lab.runners.updates.layout import Installation, Version


class World:
    """A repository, an installation and a home."""

    def __init__(self, folder: Path) -> None:
        self.lab = SmallLab(folder)
        self.home = folder / "home"
        self.home.mkdir()
        self.at = folder / "at"
        self.installation = Installation(self.at)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        self.environment = {**kept, **self.lab.environment, "HERMES_HOME": str(self.home)}
        self.command = [sys.executable, "-m", self.lab.updater, "update", "--at", str(self.at)]
        """An update in a process of its own, with `environment`."""
        self.update("--from", str(self.lab.repository))

    def run(self, *args: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
        """An update in this process."""
        with patch.dict(os.environ, self.environment, clear=True), patch.object(build, "run", quick):
            return lab("update", "--at", at or self.at, *args)

    def update(self, *args: str, code: int = 0) -> str:
        done = self.run(*args)
        assert done.returncode == code, done.stderr
        return done.stderr

    def update_itself(self) -> str:
        """An update by the installed program."""
        plain = {name: value for name, value in self.environment.items() if name != "PYTHONPATH"}
        command = [str(self.at / "bin" / "hermes-lab"), "update"]
        environment = {**plain, **self.lab.installed_environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    @property
    def version(self) -> str:
        """What the installed program answers."""
        environment = {name: value for name, value in self.environment.items() if name != "PYTHONPATH"}
        command = [str(self.at / "bin" / "hermes-lab"), "--version"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()[1]

    @property
    def installed(self) -> Version:
        """The record of the current version."""
        assert self.installation.current
        found = self.installation.read(self.installation.current)
        assert found
        return found

    @property
    def log(self) -> str:
        return (self.home / "logs" / "update.log").read_text()

    @property
    def folders(self) -> list[str]:
        return sorted(path.name.partition("-")[0] for path in (self.at / "versions").iterdir())

    def ended(self) -> bool:
        """Whether the last update in the log has ended."""
        return bool(re.search(r" ended.*\n\Z", self.log))
