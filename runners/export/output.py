"""Where an export goes: a file or a folder that is there whole or not at all, or standard output."""

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
"""Lies in every folder that an export wrote, so that `--force` never removes anything else."""
_ROWS = ({"conversations", "prompt_index"}, {"messages", "metadata"}, {"chosen"}, {"token_ids", "advantages"})
"""Fields by which the rows of an export are known."""
_encoder = msgspec.json.Encoder()


def check_out(out: Path, run: Path, *, folder: bool, force: bool) -> None:
    """Raises `ConfigError` where the export may not go to `out`."""
    if out == STDOUT:
        if folder:
            raise ConfigError("-o -: this format is a folder; name one")
        return
    if out.resolve().is_relative_to((run / "episodes").resolve()):
        raise ConfigError(f"{out}: is in the run's own log; write the export elsewhere")
    if not os.path.lexists(out) or (folder and out.is_dir() and not any(out.iterdir())):
        return
    if folder != out.is_dir() or not (out.is_dir() or out.is_file()):
        wanted = "folder" if folder else "file"
        raise ConfigError(f"{out}: is there and is no {wanted}, which this format writes; name another")
    if not force:
        raise ConfigError(f"{out}: is there already; name another, or overwrite it with --force")
    if not ((out / _MARK).exists() if folder else _is_export(out)):
        raise ConfigError(f"{out}: holds something else than an export; name another {'folder' if folder else 'file'}")


def _is_export(path: Path) -> bool:
    """Whether a file is empty, or its first line a row of some export."""
    with path.open("rb") as file:
        line = file.readline(1 << 26)
    try:
        row = msgspec.json.decode(line) if line else {"chosen": None}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(row, dict) and any(keys <= row.keys() for keys in _ROWS)


def write_lines(rows: Iterable[Any], out: Path) -> int:
    """Writes JSON Lines; gives their number."""
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
    """An empty folder to fill, which takes the place of `out` at the end of the block."""
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
    """A free name beside `out`; what is there in the end is removed."""
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
