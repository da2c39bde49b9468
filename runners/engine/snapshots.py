"""Content-addressed snapshots of the lanes' knowledge, so that any episode can be rerun from the same state."""

import shutil
import tempfile
from pathlib import Path

from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import FILES, Notes, parse_file, render_file
from hermes_lab.skills.library import load_snapshot
from hermes_lab.types import Episode


def save_knowledge(out: Path, knowledge: Knowledge) -> None:
    """Writes `skills/<snapshot>/`, and `memory/<snapshot>/` if there are notes."""
    knowledge.library.save(out / "skills" / knowledge.library.snapshot)
    if knowledge.notes_snapshot:
        _save_notes(knowledge.notes, out / "memory" / knowledge.notes_snapshot)


def keep_knowledge(out: Path, lane: str, knowledge: Knowledge) -> None:
    """Saves the knowledge and links it as `lanes/<lane>/home/skills` and `.../memory`, the lane's current knowledge."""
    home = out / "lanes" / lane / "home"
    home.mkdir(parents=True, exist_ok=True)
    save_knowledge(out, knowledge)
    _link(home / "skills", knowledge.library.snapshot)
    if knowledge.notes_snapshot:
        _link(home / "memory", knowledge.notes_snapshot)
    else:
        (home / "memory").unlink(missing_ok=True)


def remove_partial_snapshots(out: Path) -> None:
    """Removes partially written snapshots of a killed process. The caller must hold the run's lock."""
    for kind in ("skills", "memory"):
        for left in (out / kind).glob(".saving-*"):
            shutil.rmtree(left)


def _link(link: Path, snapshot: str) -> None:
    temporary = link.with_name(f".{link.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(Path("../../..") / link.name / snapshot)
    temporary.replace(link)


def knowledge_of(out: Path, episode: Episode) -> Knowledge:
    """The knowledge that an episode started with. Raises `ConfigError` if its snapshot is missing or broken."""
    library = load_snapshot(out / "skills" / episode.skills.snapshot)
    snapshot = episode.memory.snapshot
    notes = load_notes(out / "memory" / snapshot) if snapshot else Notes()
    return Knowledge(library, notes, state=episode.program.state_before if episode.program else "")


def load_notes(folder: Path) -> Notes:
    """The notes of a snapshot. Raises `ConfigError` if they cannot be read or do not match the snapshot's digest."""
    try:
        notes = Notes(*(parse_file((folder / name).read_text()) for name in FILES.values()))
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{folder}: not UTF-8 text; it was changed since the run wrote it") from None
    if notes.snapshot != folder.name:
        raise ConfigError(f"{folder}: was changed since the run wrote it")
    return notes


def _save_notes(notes: Notes, folder: Path) -> None:
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".saving-") as name:
            made = Path(name) / folder.name
            made.mkdir()
            for target, file in FILES.items():
                (made / file).write_text(render_file(notes.of(target)))
            try:
                made.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise another lane wrote the same snapshot first
                    raise
