"""Runs inside the sandbox: lists `argv[1]/first` and `argv[1]/backup` as JSON, then removes `argv[1]`."""

import hashlib
import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

MOST = 200
"""Entries of a listing; a few more where a folder has them."""
LARGEST, LONGEST = 1 << 23, 9000
"""Bytes of a file that is hashed, and of one whose text is listed."""


def _row(top: str, entry: os.DirEntry[str], info: os.stat_result) -> dict[str, Any]:
    row: dict[str, Any] = {
        "path": os.path.relpath(entry.path, top),
        "mode": format(stat.S_IMODE(info.st_mode), "o"),
        "inode": info.st_ino,
        "links": info.st_nlink,
        "time": int(info.st_mtime),
        "kind": "?",
        "full": info.st_blocks * 512 >= info.st_size,
    }
    if entry.is_symlink():
        row.update(kind="l", content=os.readlink(entry.path))  # noqa: PTH115 -- Path would normalize it.
    elif entry.is_file() and info.st_size < LARGEST:
        data = Path(entry.path).read_bytes()
        row.update(kind="f", content=hashlib.sha256(data).hexdigest(), size=len(data))
        if "/" not in row["path"] and len(data) < LONGEST:
            row.update(text=data.decode(errors="replace"))
    return row


def _listing(top: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    left = [top] if stat.S_ISDIR(os.lstat(top).st_mode) else []
    while left and len(rows) < MOST:
        for entry in os.scandir(left.pop()):
            if entry.is_dir() and not entry.is_symlink():
                left.append(entry.path)
            else:
                rows.append(_row(top, entry, entry.stat(follow_symlinks=False)))
    return rows


def main() -> None:
    """Writes null for a folder that cannot be listed."""
    place = sys.argv[1]
    listings: list[list[dict[str, Any]] | None] = []
    for name in ("first", "backup"):
        try:
            listings.append(_listing(f"{place}/{name}"))
        except OSError:
            listings.append(None)
    shutil.rmtree(place, ignore_errors=True)
    sys.stdout.write(json.dumps(listings) + "\n")


if __name__ == "__main__":
    main()
