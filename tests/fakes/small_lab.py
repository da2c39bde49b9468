"""A stand-in for this project's repository and package: `hermes-lab`, with a command of the same name, in 2 kB.

Its command `update` is that of this repository. It is built by a backend of its own, so that neither the wheel nor its
one requirement needs a network.
"""

import atexit
import base64
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from fakes.quick_update import READY

_BACKEND = """
import pathlib, zipfile, tomllib, base64, hashlib

def build_wheel(folder, config_settings=None, metadata_directory=None):
    version = pathlib.Path("VERSION").read_text().strip()
    name = f"hermes_lab-{version}-py3-none-any.whl"
    info = f"hermes_lab-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\\nName: hermes-lab\\nVersion: {version}\\nProvides-Extra: more\\n"
    metadata += "Requires-Dist: small-need\\nRequires-Dist: small-more; extra == 'more'\\n"
    files = {
        "small_lab.py": pathlib.Path("small_lab.py").read_text(),
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/entry_points.txt": "[console_scripts]\\nhermes-lab = small_lab:main\\n",
    }
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(zipfile.ZipInfo(path), text)
        wheel.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join(f"{path},,\\n" for path in files))
    return name
"""
_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "hermes-lab"
dynamic = ["version"]
"""
_PROGRAM = """
import json, os, sys
from importlib.metadata import version

import small_need

DOCTOR = {doctor!r}

def main():
    match sys.argv[1:]:
        case ["--version"]:
            print("hermes-lab", version("hermes-lab"))
        case ["doctor", "--json"]:
            print(json.dumps(DOCTOR))
            sys.exit(1 if any(not each["works"] for each in DOCTOR) else 0)
        case ["update", *_]:
            from fakes.quick_update import start

            start()
        case words:
            with open(os.environ["HERMES_HOME"] + "/asked", "a") as file:
                file.write(version("hermes-lab") + " " + " ".join(words) + "\\n")
"""
_WELL = [{"what": "python", "works": True, "detail": "fine", "needed": True}]


class SmallLab:
    """A Git repository with the package, and a folder of wheels with what it requires."""

    updater = "fakes.quick_update"
    """The module of the command `hermes-lab update`."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repository"
        self.wheels = folder / "wheels"
        self.wheels.mkdir(parents=True)
        for name in ("small_need", "small_more", "small_own"):
            _wheel(self.wheels, name)
        self.repository.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.release("0.1.0")

    def release(self, version: str, doctor: list[dict[str, object]] | None = None, program: str = _PROGRAM) -> str:
        """Commits a version; returns the commit. `doctor`: what its doctor finds."""
        files = {
            "backend.py": _BACKEND,
            "pyproject.toml": _PROJECT,
            "VERSION": version,
            "small_lab.py": program.replace("{doctor!r}", repr(doctor or _WELL)),
        }
        for name, text in files.items():
            (self.repository / name).write_text(text)
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "-m", version)
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *args: str) -> str:
        who = {f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = ["git", "-C", str(self.repository), *args]
        done = subprocess.run(command, env={**os.environ, **who}, capture_output=True, text=True, check=True)
        return done.stdout

    @property
    def installed_environment(self) -> dict[str, str]:
        """What the installed program needs for `update`, besides `environment`: the updater of this repository."""
        return {"PYTHONPATH": os.pathsep.join([self.environment["PYTHONPATH"], sysconfig.get_path("purelib")])}

    @property
    def environment(self) -> dict[str, str]:
        """What makes pip use the folder of wheels and no network, and `updater` work."""
        return {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
            "PYTHONPATH": os.pathsep.join([*map(str, Path(__file__).parents[1:3]), os.environ.get("PYTHONPATH", "")]),
            READY: str(_ready_environment()),
        }


@functools.cache
def _ready_environment() -> Path:
    """A folder like that of a virtual environment, with this environment's pip."""
    folder = Path(tempfile.mkdtemp(prefix="ready-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pip = distribution("pip")
    packages = Path(str(pip.locate_file("")))
    inside = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in ("pip", f"pip-{pip.version}.dist-info"):
        shutil.copytree(packages / name, inside / name)
    return folder


def _wheel(folder: Path, name: str) -> None:
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for path, text in files.items()
    }
    record = "".join(f"{path},sha256={digest},{len(files[path])}\n" for path, digest in digests.items())
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            wheel.writestr(zipfile.ZipInfo(path), text)
