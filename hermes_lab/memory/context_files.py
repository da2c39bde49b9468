"""Context files: instructions for agents in a folder, such as AGENTS.md, scanned before they reach a prompt."""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from hermes_lab.memory.scan import refusal, scan

NAMES = ("SOUL.md", "HERMES.md", "AGENTS.md", ".cursorrules")
_NEAREST = (".hermes.md", "HERMES.md")
_OF_A_PROJECT = ("AGENTS.md", ".cursorrules")
MAX_CHARS = 20_000
_HEAD = 14_000
_TAIL = 5_000
_LARGEST = 4 << 20


def files_in(folder: Path) -> list[Path]:
    """The context files of a folder."""
    return [folder / name for name in NAMES if os.path.lexists(folder / name)]


def files_for(working: Path, person: Path) -> list[Path]:
    """The context files for work in a folder: the nearest `.hermes.md` or HERMES.md, and its own AGENTS.md and
    .cursorrules.

    The nearest one is looked for from the folder up to the root of its Git repository; outside of one, and in the
    `person`'s home folder, in the folder alone.
    """
    working = working.resolve()
    above = [working, *working.parents]
    roots = [number for number, folder in enumerate(above) if os.path.lexists(folder / ".git")]
    searched = above[: roots[0] + 1] if roots and above[roots[0]] != person.resolve() else above[:1]
    nearest = [folder / name for folder in searched for name in _NEAREST if os.path.lexists(folder / name)]
    return nearest[:1] + [working / name for name in _OF_A_PROJECT if os.path.lexists(working / name)]


def context_block(files: Iterable[Path]) -> str:
    """The prompt block with these context files, "" if there are none.

    A file that the scanner refuses, or that is not a regular file (links are not followed), is replaced by a notice; a
    long one is cut in the middle, with a notice. The bytes depend only on the files.
    """
    return _block(list(map(_of_path, files)))


def context_of(files: Mapping[str, str]) -> str:
    """As `context_block`, for the files, by path, of a task's initial workspace. Scanning may take tens of
    milliseconds."""
    return _block([_part(name, _cut(files[name].strip())) for name in NAMES if name in files])


def _block(parts: Sequence[str]) -> str:
    return "<context-files>\n" + "\n\n".join(parts) + "\n</context-files>" if parts else ""


def _of_path(path: Path) -> str:
    try:
        return _part(path.name, _cut(_read(path).strip()))
    except OSError as error:
        return f"[{path.name} was not read: {error.strerror}]"


@lru_cache(maxsize=64)  # tasks of a suite often share their files
def _part(name: str, text: str) -> str:
    if findings := scan(text):
        return f"[{name} was refused: {refusal(findings)}]"
    return f"# {name}\n{text}"


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    left_out = len(text) - _HEAD - _TAIL
    return f"{text[:_HEAD]}\n[{left_out:,} characters in the middle are left out]\n{text[-_TAIL:]}"


def _read(path: Path) -> str:
    """Reads a file. Raises `OSError` if it is not a regular file of a sensible size."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file")
        if status.st_size > _LARGEST:
            raise OSError(0, f"larger than {_LARGEST >> 20} MiB")
        return file.read(_LARGEST).decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
