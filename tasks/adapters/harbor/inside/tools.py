"""Stands in for what test scripts install their tools with: succeeds for what is here, and notes what is not.

python3 tools.py NAME ARGUMENTS, where NAME is apt-get, pip, uv or uvx.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import sys

_FOLDER = os.environ["HERMES_LAB_VERIFIER"]
_ALWAYS = {
    "pip",
    "setuptools",
    "wheel",
    "uv",
    "virtualenv",
    "build",
    "curl",
    "wget",
    "ca-certificates",
    "pytest-json-ctrf",
}
_VALUES = {"-p", "--python", "-w", "--with", "--from", "--index-url", "-i", "--extra-index-url", "--directory", "-c"}
_VALUES |= {"--project", "--index", "--constraint", "--prerelease", "--env-file", "-t", "--target", "--resolution"}


def main(name: str, arguments: list[str]) -> int:
    """The exit code; does not return from what is run in place of `uv run`."""
    if name == "apt-get":
        return _apt(arguments)
    if name == "pip":
        return _pip(arguments)
    if name == "uvx" or arguments[:2] in (["tool", "run"], ["tool", "install"]):
        return _run(arguments[2:] if name == "uv" else arguments, needs="--from", install=arguments[1:2] == ["install"])
    if arguments[:1] == ["run"]:
        return _run(arguments[1:])
    if arguments[:1] == ["venv"]:
        return _venv([each for each in arguments[1:] if not each.startswith("-")] or [".venv"])
    if arguments[:1] == ["pip"]:
        return _pip(arguments[1:])
    if arguments[:1] == ["add"]:
        return _have(_positional(arguments[1:]))
    return 0  # init, sync, python install, self update, --version


def _apt(arguments: list[str]) -> int:
    words = [each for each in arguments if not each.startswith("-")]
    if words[:1] != ["install"]:
        return 0
    with open(os.path.join(_FOLDER, "debian")) as file:
        installed = set(file.read().split())
    names = [re.split("[=:/]", each)[0] for each in words[1:]]
    return _told([each for each in names if each not in installed | _ALWAYS and not shutil.which(each)])


def _pip(arguments: list[str]) -> int:
    if arguments[:1] != ["install"]:
        return 0
    wanted: list[str] = []
    rest = arguments[1:]
    for at, word in enumerate(rest):
        if word in ("-r", "--requirement"):
            with open(rest[at + 1]) as file:
                wanted += [line.split("#")[0].split(";")[0].strip() for line in file if line[:1] not in "-#\n"]
    return _have(wanted + [each for each in _positional(rest) if not each.endswith(".txt")])


def _positional(arguments: list[str]) -> list[str]:
    found: list[str] = []
    skip = False
    for word in arguments:
        if not skip and not word.startswith("-"):
            found.append(word)
        skip = not skip and word in _VALUES
    return found


def _have(requirements: list[str]) -> int:
    missing: list[str] = []
    for each in filter(None, requirements):
        name = re.split(r"[^\w.-]", each)[0]
        try:
            importlib.metadata.version(name)
        except (importlib.metadata.PackageNotFoundError, ValueError):
            if name not in _ALWAYS and not os.path.isdir(os.path.join(_FOLDER, "site", name)):
                missing.append(each)
    return _told(missing)


def _told(missing: list[str]) -> int:
    for each in missing:
        print(f"{each}: is not here, and there is no network", file=sys.stderr)
        with open(os.path.join(_FOLDER, "record"), "a") as file:
            file.write(json.dumps({"not_installed": each}) + "\n")
    return 100 if missing else 0


def _venv(folders: list[str]) -> int:
    os.makedirs(os.path.join(folders[0], "bin"), exist_ok=True)
    with open(os.path.join(folders[0], "bin/activate"), "w") as file:
        file.write("deactivate() { :; }\n")
    return 0


def _run(arguments: list[str], *, needs: str = "", install: bool = False) -> int:
    wanted: list[str] = []
    command = list(arguments)
    while command and command[0].startswith("-"):
        option, mark, value = command.pop(0).partition("=")
        if option in _VALUES:
            value = value if mark else command.pop(0)
            if option in ("-w", "--with", "--from"):
                wanted += [each for each in re.split(r",(?![^\[]*\])", value) if each]
    if needs and "--from" not in arguments and command:
        wanted.append(command[0].split("@")[0])
        command[0] = re.split(r"[^\w.-]", command[0])[0]
    if (code := _have(wanted)) or install or not command:
        return code
    if command[0].endswith(".py"):
        command.insert(0, "python3")
    try:
        os.execvp(command[0], command)
    except OSError:
        return _told([command[0]]) or 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
