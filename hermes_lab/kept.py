"""Archives in a run folder, named by their sha256: the same content is kept once, and a change is noticed."""

import hashlib
import os
import secrets
from pathlib import Path

from hermes_lab.errors import StoreError


def keep(folder: Path, data: bytes, suffix: str) -> str:
    """Writes an archive unless it is there already; returns its file name. Several episodes may write the same one at
    the same time. Raises `StoreError`. Blocks."""
    path = folder / f"{hashlib.sha256(data).hexdigest()}{suffix}"
    if path.exists():
        return path.name
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from None
    return path.name


def read_kept(folder: Path, name: str) -> bytes:
    """An archive by its file name. Raises `StoreError` if it is missing or was changed. Blocks."""
    path = folder / name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != name.partition(".")[0]:
        raise StoreError(f"{path}: was changed since the run wrote it")
    return data
