"""What this machine has that a Dockerfile or a test script would install, since sandboxes have no network."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.sandbox import launch
from hermes_lab.tasks.adapters.harbor.shell import Part, parts

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM_PYTHON = "/usr/bin/python3"
_DESCRIBE = """
import importlib.metadata, json, sys, sysconfig
names = {each.name: each.version for each in importlib.metadata.distributions() if each.name}
paths = sysconfig.get_paths()
sites = sorted({paths["purelib"], paths["platlib"]})
print(json.dumps([sys.version_info[:2], sys.prefix, sys.base_prefix, sites, names]))
"""
_TOOLS_OF: Mapping[str, tuple[str, ...]] = {
    "build-essential": ("gcc", "g++", "make"),
    "bsdmainutils": ("column",),
    "dnsutils": ("dig",),
    "inetutils-ping": ("ping",),
    "iproute2": ("ip",),
    "iputils-ping": ("ping",),
    "net-tools": ("netstat",),
    "netcat": ("nc",),
    "netcat-openbsd": ("nc",),
    "netcat-traditional": ("nc",),
    "openssh-client": ("ssh",),
    "procps": ("ps",),
    "python-is-python3": (),
    "python3-minimal": (),
    "python3-pip": (),
    "python3-setuptools": (),
    "python3-venv": (),
    "python3-wheel": (),
    "ripgrep": ("rg",),
    "uuid-runtime": ("uuidgen",),
    **dict.fromkeys(("apt-transport-https", "apt-utils", "ca-certificates", "gnupg", "lsb-release", "locales"), ()),
    **dict.fromkeys(("software-properties-common", "tzdata", "tmux", "asciinema"), ()),
}
"""Debian packages whose presence shows in tools of another name, or that nothing depends on here."""
_GIVEN = frozenset({"pip", "setuptools", "wheel", "uv", "build", "virtualenv", "pytest-json-ctrf"})
"""Packages that nothing needs here, or that are stood in for."""
_PIP_VALUES = frozenset(
    [
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "-t",
        "--target",
        "-c",
        "--constraint",
        "--python",
        "--root",
        "--prefix",
        "--timeout",
        "--retries",
        "--trusted-host",
        "--python-version",
        "--platform",
    ]
)
_NETWORKED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        [
            "curl",
            "wget",
            "rustup",
            "conda",
            "mamba",
            "apk",
            "yum",
            "dnf",
            "microdnf",
            "zypper",
            "pacman",
            "snap",
            "pipx",
            "add-apt-repository",
        ],
        (),
    ),
    "npm": ("install", "i", "ci", "add"),
    "yarn": ("install", "add", "global"),
    "pnpm": ("install", "i", "add"),
    "gem": ("install",),
    "bundle": ("install",),
    "cargo": ("install", "fetch"),
    "go": ("install", "get", "mod"),
    "poetry": ("install", "add"),
    "docker": (),
}
"""Commands that need the network, all or with one of these as their first argument."""
_OTHER_USERS = frozenset(
    ["useradd", "adduser", "groupadd", "addgroup", "usermod", "su", "runuser", "gosu", "passwd", "chpasswd"]
)
_SERVICES = frozenset(["service", "systemctl", "dockerd", "supervisord"])


class Python(NamedTuple):
    """The Python of the sandboxes: its command, folders for PYTHONPATH, what is to be mounted, and its packages."""

    command: str
    path: tuple[str, ...]
    mounts: tuple[str, ...]
    version: tuple[int, int]
    packages: Mapping[str, str]
    brings_pytest: bool = False
    """Whether verifiers bring the lab's own pytest, as an image may have none."""

    def missing(self, requirements: list[str]) -> list[str]:
        """The requirements, such as `pandas==2.3.2`, whose package is not installed in any version."""
        names = {each: re.match(r"[A-Za-z0-9][\w.-]*", each) for each in requirements}
        known = self.packages.keys() | _GIVEN
        return [each for each, name in names.items() if not name or normal_name(name[0]) not in known]


IMAGE_PYTHON = Python("python3", (), (), (3, 0), {}, brings_pytest=True)
"""The Python of a container, whose image is not inspected."""


@cache
def python_of(path: str) -> Python:
    """The Python environment in the folder `path`, or that of the lab.

    Where the sandbox's user cannot reach its interpreter, this machine's own takes over its packages, if it has the
    same version. Raises `ConfigError` if there is no such environment.
    """
    executable = str(Path(path).expanduser().absolute() / "bin/python3") if path else sys.executable
    try:
        version, prefix, base, sites, names = _described(executable)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"suite.options: python: {path}: no Python environment ({error})") from None
    packages = {normal_name(name): number for name, number in names.items()}
    if prefix == "/usr":
        return Python(SYSTEM_PYTHON, (), (), version, packages)
    if _is_reachable(prefix) and _is_reachable(base):
        mounts = tuple(folder for folder in dict.fromkeys((base, prefix)) if not folder.startswith("/usr"))
        return Python(f"{prefix}/bin/python3", (), mounts, version, packages)
    try:
        own, *_, has = _described(SYSTEM_PYTHON)
    except (OSError, ValueError, subprocess.CalledProcessError):
        own, has = (0, 0), {}
    packages_of_system = {normal_name(name): number for name, number in has.items()}
    sites = [site for site in sites if _is_reachable(site)]
    if own != version or not sites:
        return Python(SYSTEM_PYTHON, (), (), own, packages_of_system)
    return Python(SYSTEM_PYTHON, tuple(sites), tuple(sites), own, packages_of_system | packages)


def _described(executable: str) -> tuple[tuple[int, int], str, str, list[str], dict[str, str]]:
    done = subprocess.run([executable, "-I", "-c", _DESCRIBE], capture_output=True, text=True, check=True)
    version, prefix, base, sites, names = json.loads(done.stdout)
    return (version[0], version[1]), prefix, base, sites, names


def _is_reachable(path: str) -> bool:
    """Whether the sandbox's user can enter a folder."""
    folder = Path(path).resolve()
    return launch.owner() is None or all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def normal_name(name: str) -> str:
    """A Python package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def debian_packages() -> frozenset[str]:
    """The installed Debian packages; empty on another system."""
    try:
        listed = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\n"], capture_output=True, text=True, check=False)
    except OSError:
        return frozenset()
    return frozenset(listed.stdout.split())


@cache
def has_tool(name: str) -> bool:
    """Whether sandboxes find a command of that name."""
    return shutil.which(name, path=_PATH) is not None


def has_debian_package(name: str, python: Python) -> bool:
    """Whether this machine has what a Debian package brings."""
    name = re.split(r"[=:/]", name)[0]
    if name in debian_packages() or has_tool(name):
        return True
    if name in _TOOLS_OF:
        return all(map(has_tool, _TOOLS_OF[name]))
    if match := re.fullmatch(r"python3(?:\.\d+)?(?:-(.+))?", name):
        return match[1] is None or not python.missing([match[1]])
    return False


class Installs(NamedTuple):
    """What a part of a command installs with pip: requirements, and files of requirements."""

    requirements: list[str]
    files: list[str]


def without_installs(command: str, python: Python, requirements: Mapping[str, str]) -> tuple[str, list[str]]:
    """The command without installing what is here already, and why it cannot run.

    `requirements` has the texts of requirement files, by name.
    """
    problems: list[str] = []
    kept = command
    for part in reversed(parts(command)):  # from the end, so that places stay valid
        skip, found = _judged(part, python, requirements)
        problems = found + problems
        if skip:
            kept = f"{kept[: part.start]} true {kept[part.end :]}"
    return kept, problems


def _judged(part: Part, python: Python, requirements: Mapping[str, str]) -> tuple[bool, list[str]]:
    """Whether to leave a part out, and why it cannot run."""
    name, *rest = part.words
    name = name.rpartition("/")[2]
    arguments = [word for word in rest if not word.startswith("-")]
    if name in ("apt-get", "apt"):
        if "install" not in arguments[:1]:
            return True, []
        missing = [each for each in arguments[1:] if not has_debian_package(each, python)]
        return True, [f"apt-get install {each}: this machine has no {each}" for each in missing]
    if (installs := pip_installs(part.words)) is not None:
        return True, _missing_of_pip(installs, python, requirements)
    if name == "ln" and len(arguments) == 2 and re.fullmatch(r".*/python3?", arguments[1]):
        return True, []  # there is a python already
    if name in _NETWORKED and (not _NETWORKED[name] or (arguments and arguments[0] in _NETWORKED[name])):
        return False, [f"{name}: needs the network"]
    if name == "git" and {"clone", "fetch", "pull"} & set(arguments[:1]) and any("://" in word for word in arguments):
        return False, [f"git {arguments[0]}: needs the network"]
    if name in _OTHER_USERS:
        return False, [f"{name}: there is no user but root"]
    if name == "chown" and arguments and not re.fullmatch(r"(root|0)?(:(root|0))?", arguments[0]):
        return False, [f"chown {arguments[0]}: there is no user but root"]
    if name in _SERVICES:
        return False, [f"{name}: nothing is started before the agent"]
    return False, []


def pip_installs(words: tuple[str, ...]) -> Installs | None:
    """What a command installs with pip or uv; None if it is another command."""
    name = words[0].rpartition("/")[2]
    if re.fullmatch(r"python[\d.]*", name) and words[1:3] == ("-m", "pip"):
        words = words[2:]
    elif name == "uv" and words[1:2] == ("pip",):
        words = words[1:]
    elif not re.fullmatch(r"pip[\d.]*", name):
        return None
    if "install" not in words[1:3]:
        return Installs([], [])
    found = Installs([], [])
    rest = list(words[words.index("install") + 1 :])
    while rest:
        word = rest.pop(0)
        if word in ("-r", "--requirement") and rest:
            found.files.append(rest.pop(0))
        elif word in _PIP_VALUES and rest:
            rest.pop(0)
        elif not word.startswith("-") or word in ("-e", "--editable"):
            found.requirements.append(word)
    return found


def _missing_of_pip(installs: Installs, python: Python, texts: Mapping[str, str]) -> list[str]:
    wanted, problems = list(installs.requirements), []
    for file in installs.files:
        text = texts.get(file.rpartition("/")[2])
        if text is None:
            problems.append(f"pip install -r {file}: no such file in environment/")
        else:
            lines = (line.partition("#")[0].partition(";")[0].strip() for line in text.splitlines())
            wanted += [line for line in lines if line and not line.startswith("-")]
    missing = python.missing(wanted)
    return problems + [f"pip install {each}: the sandboxes' Python has no {each}" for each in missing]
