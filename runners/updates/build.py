"""Builds a version in a folder of its own, and checks it there."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hermes_lab.errors import InfraError
from hermes_lab.runners.updates.layout import PROGRAM
from hermes_lab.runners.updates.pip import pip_of
from hermes_lab.runners.updates.processes import attempt, run
from hermes_lab.runners.updates.screen import Screen
from hermes_lab.runners.updates.sources import Wheel

_OF_PYTHON = {"pip", "setuptools", "wheel"}
"""What a virtual environment of one Python has from the beginning, and that of another has not."""


def build(folder: Path, wheel: Wheel, extras: Sequence[str], packages: Sequence[str], screen: Screen) -> None:
    """Makes a virtual environment with the wheel, the packages of its extras, and the packages of the person.

    It is at its final place from the beginning, since the programs in it name it. Raises `InfraError` if that fails.
    """
    screen.say(f"installing {wheel.version} in {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    base = getattr(sys, "_base_executable", sys.executable)
    run([base, "-P", "-m", "venv", folder], screen, "making the virtual environment")
    wanted = f"{wheel.path}[{','.join(extras)}]" if extras else str(wheel.path)
    limits: list[str | Path] = ["--constraint", wheel.constraints] if wheel.constraints else []
    pip = pip_of(folder / "bin" / "python", screen)
    run([*pip, "install", "--progress-bar", "off", *limits, wanted, *packages], screen, "pip install")


def check(folder: Path, version: str, before: Path | None, screen: Screen) -> None:
    """Checks a new version: it says its name, its packages fit each other, and its own `doctor` finds nothing amiss.

    What the version `before` lacks as well, such as a sandbox on this machine, is told and is no reason against it.
    Raises `InfraError` if the version must not be used.
    """
    screen.say("checking it")
    check_starts(folder, version, screen, f"the new {PROGRAM}")
    run([folder / "bin" / "python", "-P", "-m", "pip", "check"], screen, "pip check")
    code, output = attempt([folder / "bin" / PROGRAM, "doctor", "--json"], screen)
    if code == 0:
        return
    if not (lacks := _lacking(output)):
        raise InfraError(f"the new version's doctor failed (exit code {code}); see {screen.log}")
    had = _lacking(attempt([before / "bin" / PROGRAM, "doctor", "--json"], screen)[1]) if before else None
    if had is None:  # no version before, or none that works: whatever is lacking is no worse
        had = lacks
    if worse := [what for what in lacks if what not in had]:
        raise InfraError("; ".join(f"the new version's {what} does not work: {lacks[what]}" for what in worse))
    for what, detail in lacks.items():
        screen.say(f"warning: {what}: {detail}")


def check_starts(folder: Path, version: str, screen: Screen, what: str) -> None:
    """Raises `InfraError` if the program of a version does not start and say its number. `what` names it."""
    said = run([folder / "bin" / PROGRAM, "--version"], screen, f"{what} --version").strip()
    if said.split()[-1:] != [version]:
        raise InfraError(f"{what} says that it is {said!r}, not {version}")


def starts(folder: Path, version: str, screen: Screen) -> bool:
    """Whether the program of a version starts and says its number."""
    try:
        check_starts(folder, version, screen, PROGRAM)
    except InfraError:
        return False
    return True


def tell_missing_packages(before: Path, after: Path, screen: Screen) -> None:
    """Names the packages that a person added to the version before, and that the new one does not have."""
    old, new = (_packages(folder, screen) for folder in (before, after))
    if old is None or new is None:
        screen.say("warning: the packages of the version before cannot be listed; name those of your own with --with")
    elif lost := sorted(old - new - _OF_PYTHON):
        screen.say(f"warning: not in the new version: {', '.join(lost)}; keep them with --with, once for all updates")


def _packages(folder: Path, screen: Screen) -> set[str] | None:
    """The packages there that nothing else requires; None if its Python or pip does not run."""
    listed = ("list", "--not-required", "--format", "json")
    code, output = attempt(
        [folder / "bin" / "python", "-P", "-m", "pip", "--disable-pip-version-check", *listed], screen
    )
    try:
        return {str(each["name"]) for each in json.loads(output)} if code == 0 else None
    except ValueError:  # with a warning of pip before the list
        return None


def _lacking(output: str) -> dict[str, str] | None:
    """What is needed and does not work, by the lines of `doctor --json`; None if it printed none."""
    try:
        found = json.loads(output[output.index("[") :])
        return {str(each["what"]): str(each["detail"]) for each in found if each["needed"] and not each["works"]}
    except (ValueError, KeyError, TypeError):
        return None
