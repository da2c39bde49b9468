"""Finds the runs below a folder."""

import os
import threading
import time
from pathlib import Path
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.runners.view.run_reader import SLICE, RunReader

_DEPTH = 4
"""Folders below the given one in which runs are looked for; a study has its runs two below."""
_LOOK_EVERY = 2.0
"""Seconds after which new runs are looked for."""


class Runs:
    """The runs in a folder, or the one that it is, by their paths below it."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise ConfigError(f"{root}: {'not a folder' if root.exists() else 'no such folder'}")
        self.root = root
        self._readers: dict[str, RunReader] = {}
        self._looked = float("-inf")
        self._lock = threading.Lock()

    def readers(self) -> dict[str, RunReader]:
        """All runs, the newest first."""
        with self._lock:
            if time.monotonic() - self._looked > _LOOK_EVERY:
                self._look()
            return dict(self._readers)

    def get(self, name: str) -> RunReader | None:
        """The run of that name."""
        return self.readers().get(name)

    def table(self, first: str = "") -> list[dict[str, Any]]:
        """What the list of runs shows. Reads what is new for a moment, of the run `first` at first."""
        rows = []
        readers = self.readers()
        until = time.monotonic() + SLICE
        if chosen := readers.get(first):
            chosen.refresh(until)
        for name, reader in readers.items():
            if not reader.complete or time.monotonic() < until:
                reader.refresh(until)
            manifest = reader.manifest()
            running, state = reader.running()
            counts = reader.counts()
            finished = sum(number for outcome, number in counts.items() if outcome != "errored")
            wanted = (manifest.wanted or finished + counts.get("errored", 0)) if manifest else 0
            done = reader.complete and finished >= wanted
            model = (manifest.config.get("model") or {}).get("name", "") if manifest else ""
            rows.append(
                {
                    "name": name,
                    "command": manifest.command if manifest else "",
                    "model": str(model),
                    "created": manifest.created_at if manifest else "",
                    "wanted": wanted,
                    "finished": finished,
                    "errored": counts.get("errored", 0),
                    "solved": counts.get("solved", 0),
                    "judged": finished - counts.get("not judged", 0),
                    "damaged": reader.damaged,
                    "running": len(running) if state == "running" else 0,
                    "state": state or _state(reader, done=done),
                }
            )
        return rows

    def _look(self) -> None:
        found = sorted(_run_folders(self.root), key=_written, reverse=True)
        names = {_name(self.root, folder): folder for folder in found}
        self._readers = {name: self._readers.get(name) or RunReader(folder) for name, folder in names.items()}
        self._looked = time.monotonic()


def _state(reader: RunReader, *, done: bool) -> str:
    """The state of a run that no process writes to."""
    if not reader.complete:
        return "reading"
    if done:
        return "finished"
    return "ended early" if reader.stopped() else "incomplete"


def _name(root: Path, folder: Path) -> str:
    return str(folder.relative_to(root)) if folder != root else folder.resolve().name


def _written(run: Path) -> float:
    try:
        return (run / "run.json").stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0


def _run_folders(root: Path) -> list[Path]:
    found = []
    for at, folders, files in os.walk(root):
        folder = Path(at)
        if "run.json" in files:
            found.append(folder)
        if "run.json" in files or len(folder.relative_to(root).parts) >= _DEPTH:
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]
    return found
