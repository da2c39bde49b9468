"""Kills `hermes-lab update` at random moments, and asks the installed program for its version after each kill.

Every second update is killed after it has switched to the new version. Every third is that of the installed program,
the others are those of this environment with `--at`. Then a tenth as many first installations are killed.

    PYTHONPATH=tests python tests/faults/update_kills.py --kills 100
    PYTHONPATH=tests python tests/faults/update_kills.py --kills 100 --real --wheels wheelhouse

Without --real a small stand-in for the package is installed. With it, this checkout's last commit is, from a local
repository and a folder of wheels, without a network. This fills one:

    pip download -c constraints.txt -d wheelhouse 'hatchling==1.33.0' .
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from fakes.small_lab import SmallLab

ROOT = Path(__file__).parents[2]
_FIRST = 10
"""One first installation is killed for so many updates."""
_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 [0-9a-f]{8}( .*)?")
_AUTHOR = {f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class RealLab:
    """A local repository with this package, whose version rises with each release."""

    updater = "hermes_lab"
    installed_environment: Mapping[str, str] = {}

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.repository = folder / "repository"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.repository)], check=True)
        self.environment = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels.absolute()),
            "PIP_CONFIG_FILE": os.devnull,
        }
        self._number = 0

    def release(self, version: str) -> None:
        """Commits a version."""
        module = self.repository / "hermes_lab" / "__init__.py"  # the build reads it there
        module.write_text(re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', module.read_text()))
        git = ["git", "-C", str(self.repository), "commit", "--quiet", "--all", "-m", version]
        subprocess.run(git, env={**os.environ, **_AUTHOR}, check=True)


def kill_updates(lab: SmallLab | RealLab, folder: Path, kills: int, seed: int) -> Counter[str]:
    """Installs version 0.2.0, and kills that many updates, each to a version of its own, and then a tenth as many first
    installations. Returns how often the program answered with the version before (`old`), with the new one, how many
    updates had ended by themselves, how many were those of the installed program, and how often a killed first
    installation had no program yet (`none`) or a complete one (`first`).

    Raises `AssertionError` if it does not answer, or with another version, or if the log or a rollback is broken.
    """
    home, at = folder / "home", folder / "at"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment = {**kept, **lab.environment, "HERMES_HOME": str(home)}
    plain = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", lab.updater, "update", "--at", str(at)]
    own = [str(at / "bin" / "hermes-lab"), "update"]
    own_environment = {**plain, **lab.installed_environment}

    def version(at: Path = at) -> str:
        asked = [str(at / "bin" / "hermes-lab"), "--version"]
        return subprocess.run(asked, env=plain, capture_output=True, text=True, check=True).stdout.split()[1]

    lab.release("0.2.0")
    subprocess.run([*command, "--from", str(lab.repository)], env=environment, check=True)
    began = time.monotonic()
    lab.release("0.3.0")
    subprocess.run(command, env=environment, check=True)
    seconds = time.monotonic() - began
    moments, seen, current = random.Random(seed), Counter[str](), "0.3.0"
    for number in range(kills):
        wanted = f"1.{number}.0"
        lab.release(wanted)
        switched = at / "current" if number % 2 else None
        after = moments.uniform(0, seconds / 20 if switched else seconds)
        if number % 3 == 2:
            seen["ended by itself"] += _killed(own, own_environment, after, switched)
            seen["of the installed program"] += 1
        else:
            seen["ended by itself"] += _killed(command, environment, after, switched)
        found = version()
        assert found in (current, wanted), f"kill {number}: {found}, and it was {current} or {wanted}"
        seen["new" if found == wanted else "old"] += 1
        print(f"kill {number + 1}: {found}", flush=True)
        current = found
    lab.release("2.0.0")
    subprocess.run(command, env=environment, check=True)
    assert version() == "2.0.0"
    subprocess.run([*command, "--rollback"], env=environment, check=True)
    assert version() == current
    lines = (home / "logs" / "update.log").read_text().splitlines()
    before = home / "logs" / "update.log.1"
    lines += before.read_text().splitlines() if before.exists() else []
    assert all(_LINE.fullmatch(line) for line in lines), "the log has a broken line"
    left = [path.name for path in (at / "versions").iterdir()]
    assert len(left) == 2, f"left: {left}"
    for number in range(-(-kills // _FIRST)):
        first = folder / f"first-{number}"
        command = [sys.executable, "-m", lab.updater, "update", "--at", str(first), "--from", str(lab.repository)]
        _killed(command, environment, moments.uniform(0, seconds))
        if (first / "bin" / "hermes-lab").exists():
            assert version(first) == "2.0.0"
            seen["first"] += 1
        else:
            seen["none"] += 1
        subprocess.run(command, env=environment, check=True)
        assert version(first) == "2.0.0"
        # A folder that is not complete stays while the pip of the killed update still writes into it.
        assert len(list((first / "versions").glob("*/install.json"))) == 1
        shutil.rmtree(first, ignore_errors=True)
    return seen


def _killed(command: Sequence[str], environment: Mapping[str, str], after: float, switched: Path | None = None) -> bool:
    """Kills an update so many seconds after it began, or after it has changed the link `switched`. Returns whether it
    had ended by itself."""
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        if switched:
            _await_switch(process, switched)
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    assert process.returncode == 0, f"{command}: exit code {process.returncode}"
    return True


def _await_switch(process: "subprocess.Popen[bytes]", link: Path) -> None:
    before = link.readlink()
    while process.poll() is None and link.readlink() == before:
        time.sleep(0.001)


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--real", action="store_true")
    options.add_argument("--wheels", type=Path, default=Path("wheelhouse"))
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="update-kills-") as folder:
        lab = RealLab(Path(folder), asked.wheels) if asked.real else SmallLab(Path(folder))
        print(dict(kill_updates(lab, Path(folder), asked.kills, asked.seed)))


if __name__ == "__main__":
    main()
