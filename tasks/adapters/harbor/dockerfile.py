"""Reads a Dockerfile into the steps that lay out a task without an image."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

_HEREDOC = re.compile(r"<<-?(['\"]?)([A-Za-z_]\w*)\1")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})")
_LITERAL = "\0"  # stands for a dollar sign that begins no variable
_IGNORED = frozenset({"EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "CMD", "VOLUME"})
"""Instructions that change no file. Harbor replaces CMD; a volume is an ordinary folder."""
_ROOT = frozenset({"root", "0", "root:root", "0:0"})
_ROOTED_COPY = re.compile(r"--(chown=(root|0)(:(root|0))?|chmod=[0-7]{3,4}|link(=true)?)")


class Refused(Exception):
    """What cannot be interpreted, and the line."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


class Instruction(NamedTuple):
    """One instruction: the line of its keyword, its upper-case name, the rest, and the texts of its heredocs."""

    line: int
    name: str
    rest: str
    heredocs: tuple[str, ...] = ()


class Run(NamedTuple):
    """A command, as in RUN."""

    line: int
    command: str
    shell: str
    workdir: str
    environment: dict[str, str]


class Copy(NamedTuple):
    """Files to copy: paths in the build context (or `text`, the content of the only file), and the target.

    `into`: the target is a folder. `unpack`: archives are unpacked. `mode` is octal, or "".
    """

    line: int
    sources: tuple[str, ...]
    target: str
    into: bool
    unpack: bool = False
    mode: str = ""
    text: str | None = None


class MakeFolder(NamedTuple):
    """A working directory to create."""

    path: str


Step = Run | Copy | MakeFolder


class Image(NamedTuple):
    """A Dockerfile: its base image, the steps, and what holds at the end."""

    base: str
    base_line: int
    steps: tuple[Step, ...]
    workdir: str
    environment: dict[str, str]


def read_dockerfile(text: str) -> Image:
    """Interprets a Dockerfile. Raises `Refused` for what would need an image to be built."""
    return _Reader().read(text)


class _Reader:
    """The state while a Dockerfile is read."""

    def __init__(self) -> None:
        self.base, self.base_line = "", 0
        self.steps: list[Step] = []
        self.workdir = "/"
        self.environment: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.shell = "/bin/sh -c"

    def read(self, text: str) -> Image:
        for each in instructions(text):
            if not self.base and each.name not in ("FROM", "ARG"):
                raise Refused(each.line, f"{each.name} before FROM")
            if each.name in _IGNORED:
                continue
            handler = getattr(self, f"_{each.name.lower()}", None)
            if handler is None:
                raise Refused(each.line, f"{each.name} is not supported")
            handler(each)
        if not self.base:
            raise Refused(1, "no FROM")
        return Image(self.base, self.base_line, tuple(self.steps), self.workdir, self.environment)

    def _from(self, each: Instruction) -> None:
        if self.base:
            raise Refused(each.line, "a second FROM: builds of several stages need an image")
        words = [word for word in self._expanded(each.rest).split() if not word.startswith("--")]
        if not words:
            raise Refused(each.line, "FROM names no image")
        self.base, self.base_line = words[0], each.line

    def _arg(self, each: Instruction) -> None:
        for word in _split(each):
            name, mark, value = word.partition("=")
            if mark:
                self.arguments[name] = self._expanded(value)

    def _env(self, each: Instruction) -> None:
        words = _split(each)
        if words and "=" not in words[0]:  # the old form: ENV NAME all the rest
            name, _, value = each.rest.partition(" ")
            words = [f"{name}={value.strip()}"]
        known = dict(self.environment)  # variables of the same line hold from the next on
        for word in words:
            name, mark, value = word.partition("=")
            if not mark:
                raise Refused(each.line, f"ENV {word}: no value")
            known[name] = self._expanded(value)
        self.environment = known

    def _workdir(self, each: Instruction) -> None:
        words = _split(each)
        path = words[0] if len(words) == 1 else each.rest.strip()  # blanks belong to the path
        self.workdir = self._at(self._expanded(path))
        self.steps.append(MakeFolder(self.workdir))

    def _user(self, each: Instruction) -> None:
        if self._expanded(each.rest.strip()) not in _ROOT:
            raise Refused(each.line, f"USER {each.rest.strip()}: only root is supported")

    def _shell(self, each: Instruction) -> None:
        words = _json_words(each.rest)
        if words is None or PurePosixPath(words[0]).name not in ("bash", "sh") or words[-1] != "-c":
            raise Refused(each.line, f"SHELL {each.rest} is not supported")
        self.shell = shlex.join(words)

    def _entrypoint(self, each: Instruction) -> None:
        words = _json_words(each.rest) or each.rest.split()
        if words and PurePosixPath(words[0]).name not in ("bash", "sh"):
            raise Refused(each.line, f"ENTRYPOINT {each.rest}: nothing is started before the agent")

    def _healthcheck(self, each: Instruction) -> None:
        if each.rest.strip().upper() != "NONE":
            raise Refused(each.line, "HEALTHCHECK is not supported")

    def _run(self, each: Instruction) -> None:
        rest = each.rest
        while match := re.match(r"--(\w+)(?:=(\S+))?\s+", rest):
            if match[1] != "mount" or "type=cache" not in (match[2] or ""):
                raise Refused(each.line, f"RUN {match[0].strip()} is not supported")
            rest = rest[match.end() :]
        words = _json_words(rest)
        command = shlex.join(words) if words else rest
        if each.heredocs:
            ends = [match[2] for match in _HEREDOC.finditer(rest)]
            texts = "".join(f"{text}{end}\n" for text, end in zip(each.heredocs, ends, strict=False))
            command = each.heredocs[0] if _HEREDOC.fullmatch(rest.strip()) else f"{rest}\n{texts}"
        environment = {**self.arguments, **self.environment}
        self.steps.append(Run(each.line, command, self.shell, self.workdir, environment))

    def _copy(self, each: Instruction, *, unpack: bool = False) -> None:
        rest, mode = each.rest, ""
        while match := re.match(r"--\S+\s+", rest):
            option = match[0].strip()
            if not _ROOTED_COPY.fullmatch(option):
                raise Refused(each.line, f"{each.name} {option} is not supported")
            mode = option.partition("chmod=")[2] or mode
            rest = rest[match.end() :]
        words = _json_words(rest) or _split(each._replace(rest=rest))
        if len(words) < 2:
            raise Refused(each.line, f"{each.name} {each.rest}: needs a source and a target")
        *sources, target = [self._expanded(word) for word in words]
        if any("://" in source or source.startswith("git@") for source in sources):
            raise Refused(each.line, f"{each.name} {sources[0]}: needs the network")
        into = target.endswith("/") or target in (".", "..") or len(sources) > 1
        path = self._at(target)
        if each.heredocs:
            name = _HEREDOC.fullmatch(sources[0])
            if len(sources) > 1 or not name:
                raise Refused(each.line, f"{each.name} of several heredocs")
            path = f"{path}/{name[2]}" if into else path
            self.steps.append(Copy(each.line, (), path, False, mode=mode, text=each.heredocs[0]))
        else:
            self.steps.append(Copy(each.line, tuple(sources), path, into, unpack, mode))

    def _add(self, each: Instruction) -> None:
        self._copy(each, unpack=True)

    def _at(self, path: str) -> str:
        return normal(f"{self.workdir}/{path}" if not path.startswith("/") else path)

    def _expanded(self, text: str) -> str:
        known = {**self.arguments, **self.environment}

        def value(match: re.Match[str]) -> str:
            given = known.get(match[1] or match[2], _DEFAULTS.get(match[1] or match[2], ""))
            if match[3] == "+":
                return match[4] if given else ""
            return given or self._expanded(match[4] or "")

        return _VARIABLE.sub(value, text).replace(_LITERAL, "$")


_DEFAULTS = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


def normal(path: str) -> str:
    """An absolute path without `.`, `..` and doubled slashes."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile, with continued lines joined. Raises `Refused`."""
    lines = text.removeprefix("\ufeff").splitlines()
    number = 0
    while number < len(lines):
        start, joined = number, ""
        while number < len(lines):
            line = lines[number]
            number += 1
            if line.lstrip().startswith("#") or (joined and not line.strip()):
                if not joined:
                    break
                continue
            stripped = line.rstrip()
            if stripped.endswith("\\"):
                joined += stripped[:-1] + " "
                continue
            joined += stripped
            break
        if not joined.strip():
            continue
        name, _, rest = joined.strip().partition(" ")
        heredocs: list[str] = []
        ends = [match[2] for match in _HEREDOC.finditer(rest)] if name.upper() in ("RUN", "COPY", "ADD") else []
        for end in ends:
            body: list[str] = []
            while number < len(lines) and lines[number].strip() != end:
                body.append(lines[number])
                number += 1
            if number == len(lines):
                break  # `<<EOF` inside a quoted command
            number += 1
            heredocs.append("".join(f"{line}\n" for line in body))
        if not re.fullmatch(r"[A-Za-z]+", name):
            raise Refused(start + 1, f"{name[:40]!r} is not an instruction")
        yield Instruction(start + 1, name.upper(), rest.strip(), tuple(heredocs))


def _json_words(text: str) -> list[str] | None:
    """The words of the JSON form of an instruction; None for the other form."""
    if not text.strip().startswith("["):
        return None
    try:
        words = json.loads(text)
    except ValueError:
        return None
    return words if words and all(isinstance(word, str) for word in words) else None


def _split(each: Instruction) -> list[str]:
    literal = re.sub(r"\\\$|'[^']*'", lambda match: match[0].replace("\\$", "$").replace("$", _LITERAL), each.rest)
    try:
        return shlex.split(literal)
    except ValueError as error:
        raise Refused(each.line, f"{each.name} {each.rest[:40]}: {error}") from None
