"""Reads the files of configurations."""

import os
import stat
from pathlib import Path
from typing import Any

from hermes_lab.config.yaml_files import Document, NotYaml, Plain, read_yaml
from hermes_lab.errors import ConfigError

_At = tuple[str, ...]
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")


def read_file(path: Path) -> Document:
    """The mapping of sections in a YAML file. Raises `ConfigError` if it cannot be read or is something else."""
    try:
        content, lines = read_yaml(_text(path))
    except NotYaml as error:
        raise ConfigError(": ".join(filter(None, (f"{path}:{error.line}", error.field, error.problem)))) from None
    if content is None:
        return Document({}, {})
    if not isinstance(content, dict):
        kind = type(content.value if isinstance(content, Plain) else content).__name__
        raise ConfigError(f"{path}:1: expected a mapping of sections, found a {kind}")
    if (found := not_text(content)) is not None:
        at, why = found
        line = next((f":{lines[at[:n]]}" for n in range(len(at), 0, -1) if at[:n] in lines), "")
        raise ConfigError(f"{path}{line}: {'.'.join(at) or 'a key'}: contains {why}; use plain UTF-8 text")
    return Document(content, lines)


def is_text(value: str) -> bool:
    """Whether a string can be written in UTF-8, and in the name of a file."""
    return not _why_not_text(value)


def _text(path: Path) -> str:
    try:
        if str(path.parent) in _DESCRIPTORS:  # `<(...)` of a shell, whose other end is being written
            return _decoded(path, path.read_bytes())
        # Without O_NONBLOCK, a pipe that nobody writes to would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "something else")
            raise ConfigError(f"{path}: is {kind}, not a file; give a YAML file")
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return _decoded(path, data)


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text; save the file in UTF-8") from None


def not_text(content: Any, at: _At = ()) -> tuple[_At, str] | None:
    """The path and the fault of the first string that is not text, keys included; None if there is none."""
    if isinstance(content, str):
        return (at, why) if (why := _why_not_text(content)) else None
    if isinstance(content, dict):
        if why := next(filter(None, map(_why_not_text, map(str, content))), ""):
            return at, why
        inner = [(str(key), value) for key, value in content.items()]
    else:
        inner = [(str(number), value) for number, value in enumerate(content if isinstance(content, list) else ())]
    return next((found for name, value in inner if (found := not_text(value, (*at, name))) is not None), None)


def _why_not_text(value: str) -> str:
    """The first character of a string that makes it invalid, or "". YAML's escapes can write both."""
    if "\0" in value:
        return "a NUL character"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "a lone surrogate"
    return ""
