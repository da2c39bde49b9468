"""Fields that hold paths. A path in a file is relative to that file, one on the command line to the working
directory."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from hermes_lab.configs import find_config, output_base

RULE = "paths in a file are relative to that file"
_SNAPSHOT = re.compile(r"[0-9a-f]{12,16}")
_RESERVED = "packaged"


@dataclass(frozen=True)
class PathField:
    """Marks a path field.

    `input` must exist, `output` need not; `named` may also be a name; `model` depends on the provider, as for
    `model.name`; `library` is what `skills.library` accepts; `source` is a YAML file or an override.
    """

    kind: Literal["input", "output", "named", "model", "library", "source"]


InputPath = Annotated[str, PathField("input")]
"""A file or folder that must exist."""
OutputPath = Annotated[str, PathField("output")]
"""A file or folder that need not exist yet."""
NameOrPath = Annotated[str, PathField("named")]
"""A path if one exists, else a name."""
ModelName = Annotated[str, PathField("model")]
"""`model.name`."""
LIBRARY_NAMES = "+home", "+proposals"
"""The user's own skills, and these with what the agent proposes (`hermes_lab.analysis.libraries`)."""
LibraryPath = Annotated[str, PathField("library")]
"""A folder of skills, or a reference such as RUN:LANE."""
Source = Annotated[str, PathField("source")]
"""A YAML file, or a `key=value` override."""


class Origin(NamedTuple):
    """Where a field was set: the number of its source, the number of the source that gave its value, FILE:LINE or the
    override, and the file's folder (None on the command line)."""

    source: int
    changed: int
    where: str
    folder: str | None


class Problem(NamedTuple):
    """A mistake: where it was written (FILE:LINE or an override), the field, and the message, which repeats both."""

    where: str
    field: str
    message: str


class PathResolver:
    """Turns paths in files into paths relative to the working directory, or keeps them absolute.

    `problems` maps fields to missing files.
    """

    def __init__(self) -> None:
        self.problems: dict[str, Problem] = {}

    def resolve(self, text: str, kind: str, field: str, origin: Origin) -> str:
        """The path that `text` means at its origin."""
        given = str(Path(text).expanduser()) if text == "~" or text.startswith("~/") else text
        if not given:
            return given
        if origin.folder is None:
            return _of_package(given) if kind == "input" else given
        if kind == "output":
            return _joined(given, origin._replace(folder=output_base(origin.folder)))
        if kind == "named":
            return self._named(given, field, origin)
        if kind == "library":
            return self._library(given, field, origin)
        path = _joined(given, origin)
        self._check(path, given, field, origin)
        return path

    def _named(self, given: str, field: str, origin: Origin) -> str:
        if given == _RESERVED:
            return given
        path = _joined(given, origin)
        if re.match(r"/|\.\.?(/|\Z)", given) or _exists(path):
            return path
        if "/" in given and _exists(given):  # as in older files: relative to the working directory
            self._check(path, given, field, origin)
        return given

    def _library(self, given: str, field: str, origin: Origin) -> str:
        path = _joined(given, origin)
        if _exists(path):
            return path
        if given in LIBRARY_NAMES:
            return given
        parts = [given.rpartition(mark) for mark in "@:" if mark in given]
        there = [part for part in parts if part[0] and _exists(_joined(part[0], origin))]
        run, mark, what = (there or parts or [(given, "", "")])[0]
        if not run or (_SNAPSHOT.fullmatch(given) and not _exists(given)):  # a snapshot of the user's own skills
            return given
        path = _joined(run, origin)
        self._check(path, run, field, origin)
        return f"{path}{mark}{what}"

    def _check(self, path: str, given: str, field: str, origin: Origin) -> None:
        if _exists(path):
            return
        there = given[0] != "/" and _exists(given)
        mend = f"; write {os.path.relpath(given, origin.folder or '.')}" if there else ""
        message = f"{origin.where}: {field}: no such file or folder: {path} ({RULE}{mend})"
        self.problems.setdefault(field, Problem(origin.where, field, message))


def _of_package(given: str) -> str:
    """`given`, or the file of that name in the package, such as `configs/locks/sft-cpu.yaml`."""
    found = find_config(Path(given))
    return given if found == Path(given) else str(found)


def _joined(given: str, origin: Origin) -> str:
    folder = origin.folder
    return given if not folder or given[0] == "/" else os.path.normpath(Path(folder, given))


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # such as a name that is too long
        return False
