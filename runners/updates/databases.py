"""Whether a version reads the databases of a home, which a newer one may have migrated."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from hermes_lab.runners.updates.layout import PROGRAM
from hermes_lab.runners.updates.processes import attempt
from hermes_lab.runners.updates.screen import Screen

READERS: Mapping[str, tuple[str, ...]] = {
    "sessions.db": (PROGRAM, "sessions", "list"),
    "cron.db": (PROGRAM, "cron", "list"),
    "gateway.db": (PROGRAM, "gateway", "pair"),
    "memories.db": ("python", "-I", str(Path(__file__).with_name("read_memories.py"))),
}
"""The databases of a home, and the program of a version that reads each."""
_CHANGED = "cron.db"
"""`cron list` also makes the jobs those of `config.yaml`, which the version may not read: it is given a copy alone."""


def unreadable(folder: Path, home: Path, screen: Screen) -> Iterator[str]:
    """The databases of the home that the version in `folder` does not open, each with its own reason."""
    for name, (program, *words) in READERS.items():
        if not (home / name).is_file():
            continue
        with _copied(home / name) if name == _CHANGED else nullcontext(home) as where:
            # What it prints are names of people and conversations.
            code, output = attempt([folder / "bin" / program, *words], screen, home=where, log_output=False)
        if code != 0:
            lines = [line.strip() for line in output.splitlines() if line.strip()]
            said = lines[-1].replace(str(where), str(home)) if lines else f"exit code {code}"
            yield f"{name}: {said}"


@contextmanager
def _copied(database: Path) -> Iterator[Path]:
    """A folder with a copy of the database alone."""
    with TemporaryDirectory() as folder:
        try:
            with (
                closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(Path(folder, database.name))) as target,
            ):
                source.backup(target)
        except sqlite3.DatabaseError:  # no database: the version says so of its bytes
            Path(folder, database.name).write_bytes(database.read_bytes())
        yield Path(folder)
