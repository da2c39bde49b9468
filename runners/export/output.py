"""The target of an export: a file or folder, written atomically, or standard output."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from hermes_lab.errors import ConfigError

STDOUT = Path("-")
_MARK = ".hermes-lab-export"
"""A marker in every exported folder, so that `--force` never removes anything else."""
_encoder = msgspec.json.Encoder()


def check_out(out: Path, run: Path, *, folder: bool, force: bool) -> None:
    """Raises `ConfigError` if the export cannot be written to `out`."""
    if out == STDOUT:
        if folder:
            raise ConfigError("-o -: this format writes a folder; give one")
        return
    if out.resolve().is_relative_to((run / "episodes").resolve()):
        raise ConfigError(f"{out}: is inside the run's own log; write the export elsewhere")
    if not os.path.lexists(out) or (folder and out.is_dir() and not any(out.iterdir())):
        return
    if folder != out.is_dir() or not (out.is_dir() or out.is_file()):
        wanted = "folder" if folder else "file"
        raise ConfigError(f"{out}: exists and is not a {wanted}, which this format writes; choose another --out")
    if not force:
        raise ConfigError(f"{out}: already exists; choose another --out, or overwrite it with --force")
    if not ((out / _MARK).exists() if folder else _is_export(out)):
        raise ConfigError(f"{out}: is not an export, so it is not overwritten; choose another --out")


def _is_export(path: Path) -> bool:
    """Whether a file is empty, or its first line is a row of an export."""
    with path.open("rb") as file:
        line = file.readline(1 << 26)
    if not line:
        return True
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(row, dict) and _is_row(row)


def _is_row(row: dict[str, Any]) -> bool:
    """Whether only an export of this lab has such a row: public data sets have the same fields, but not its marks."""
    if {"v", "token_ids", "config_digest"} <= row.keys():  # groups
        return True
    metadata = row.get("metadata")
    if not isinstance(metadata, dict):
        return False
    chosen = metadata.get("chosen")
    return (
        "episode" in metadata  # openai, hermes, sft
        or (isinstance(chosen, dict) and "episode" in chosen)  # preference
        or ("judge" in row and "session" in metadata)  # tasks
    )


def write_lines(rows: Iterable[Any], out: Path) -> int:
    """Writes JSON Lines; returns the number of lines."""
    if out == STDOUT:
        return _write(rows, sys.stdout.buffer)
    out = out.resolve()
    with _temporary(out) as path:
        with path.open("wb") as file:
            count = _write(rows, file)
            file.flush()
            os.fsync(file.fileno())
        path.replace(out)
    return count


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yields an empty folder to fill, which replaces `out` at the end of the block."""
    out = out.resolve()
    with _temporary(out) as path:
        path.mkdir()
        yield path
        (path / _MARK).touch()
        if out.exists():
            with _temporary(out, "old") as old:
                out.rename(old)
                path.rename(out)
        else:
            path.rename(out)


@contextmanager
def _temporary(out: Path, kind: str = "tmp") -> Iterator[Path]:
    """A temporary path next to `out`, removed at the end."""
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.with_name(f".{out.name}.{os.getpid()}.{kind}")
    try:
        yield path
    finally:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _write(rows: Iterable[Any], file: BinaryIO) -> int:
    count = 0
    for row in rows:
        file.write(_encoder.encode(row) + b"\n")
        count += 1
    return count
