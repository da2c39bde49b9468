"""References to skill libraries on the command line: a folder, an earlier snapshot of one, or the library of a lane."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hermes_lab.analysis.skill_effects.funnel import read_seen
from hermes_lab.config.paths import LIBRARY_NAMES
from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import ConfigError
from hermes_lab.sessions import hermes_home
from hermes_lab.skills.learning.stats import Use
from hermes_lab.skills.library import Library, load_snapshot, read_library
from hermes_lab.skills.storage.hub import skill_folders
from hermes_lab.skills.storage.index import Index
from hermes_lab.skills.storage.proposals import Proposals, same_text
from hermes_lab.skills.storage.run_paths import is_run, run_of, store_in
from hermes_lab.skills.storage.store import SkillStore

_DIGITS = 4
_SNAPSHOT = re.compile(rf"[0-9a-f]{{{_DIGITS},16}}")
OWN, WITH_PROPOSALS = LIBRARY_NAMES
"""Refer to the user's own skills as they are, and as they would be with all proposals."""
FORMS = (
    "a folder of skills, RUN:LANE, RUN@SNAPSHOT, FOLDER@SNAPSHOT, a snapshot of your own skills, "
    f"{OWN} (your own skills), or {WITH_PROPOSALS} (with those that the agent proposes)"
)


@dataclass(frozen=True)
class LibraryRef:
    """A resolved library. `store` is set if it can be changed; `run` if it belongs to a run, with `lane` "" for a
    snapshot that is not tied to a lane. `copy` is the command that copies its skills to the user's own library.
    `broken` maps the folder of each unreadable skill to its problem."""

    name: str
    library: Library
    store: SkillStore | None = None
    run: Path | None = None
    lane: str = ""
    copy: str = ""
    broken: Mapping[str, str] = field(default_factory=dict)

    def index(self, config: SkillsConfig | None = None) -> Index:
        """An index of its skills with their metadata and uses."""
        if self.store is not None:
            return Index.of(self.store, config)
        index = Index(config=config)
        index.refresh(self.library, uses=self.uses())
        return index

    def uses(self) -> list[Use]:
        """The uses of its skills; for a run's library, the uses in that run."""
        if self.store is not None:
            return self.store.uses()
        return uses_in(self.run, self.library, self.lane) if self.run else []


def home_skills() -> Path:
    """The folder of the user's own skills, which may not exist yet."""
    return hermes_home() / "skills"


def home_proposals() -> Proposals:
    """The proposals for the user's own skills."""
    return Proposals(store_in(home_skills()))


def find(text: str) -> LibraryRef:
    """Resolves `text` to a library; "" is the user's own. Raises `ConfigError` if there is none."""
    if text in ("", OWN):
        return _of_folder("your skills", home_skills(), own=True)
    if text == WITH_PROPOSALS:
        return LibraryRef(text, home_proposals().library())
    folder = Path(text).expanduser()
    if folder.is_dir():
        return _of_folder(text, folder)
    if _SNAPSHOT.fullmatch(text):
        return _of_snapshot(text, home_skills(), text)
    for mark, open_ in (("@", _of_snapshot), (":", _of_lane)):
        where, found, what = text.rpartition(mark)
        if found and (folder := Path(where).expanduser() if where else home_skills()).is_dir():
            return open_(text, folder, what)
    raise ConfigError(f"{text}: not a library; give {FORMS}")


def find_all(text: str) -> list[LibraryRef]:
    """Like `find`; for a run folder, the libraries of all its lanes."""
    run = Path(text).expanduser()
    if text and is_run(run) and (found := lanes(run)):
        return [_of_lane(f"{text}:{lane}", run, lane) for lane in found]
    return [find(text)]


def find_store(text: str) -> SkillStore:
    """Resolves `text` to a library that can be changed. Raises `ConfigError` for a run's library and a snapshot."""
    folder = Path(text).expanduser() if text else home_skills()
    if text and (not folder.is_dir() or is_run(folder)):
        ref = find(text)
        what = "a run's library" if ref.run else "a snapshot"
        raise ConfigError(f"{text}: {what} cannot be changed; copy its skills to your own with: {ref.copy}")
    return store_in(folder)


def load_initial_library(text: str) -> Library:
    """The initial library of a run; empty for "". Raises `ConfigError` if there is none, or a skill is broken."""
    if not text:
        return Library()
    try:
        folder = Path(text).expanduser()
        if folder.is_dir() and not run_of(folder):
            return Library.load(folder)
        return find(text).library
    except ConfigError as error:
        raise ConfigError(f"skills.library: {error}") from None


def nested_libraries(text: str) -> list[Path]:
    """Subfolders of `text` that contain skills, to suggest if the user gave their parent."""
    folder = Path(text).expanduser()
    return sorted({found.parent for found in skill_folders(folder)} - {folder}) if text and folder.is_dir() else []


def lanes(run: Path) -> list[str]:
    """The lanes of a run that have a library."""
    return sorted(path.parent.parent.name for path in run.glob("lanes/*/home/skills"))


def uses_in(run: Path, library: Library, lane: str = "") -> list[Use]:
    """The uses of the skills of `library` in a run or one of its lanes. Only uses of the same text of a skill count;
    marks such as a pin are not part of the text."""
    same: dict[str, frozenset[str]] = {}
    uses = []
    for episode in read_seen(run):
        if episode.status != "ok" or not episode.skills.loaded or lane not in ("", episode.lane):
            continue
        snapshot = episode.skills.snapshot
        if snapshot not in same:
            past = load_snapshot(run / "skills" / snapshot)
            same[snapshot] = frozenset(
                name
                for name in library.skills.keys() & past.skills
                if same_text(past.skills[name], library.skills[name])
            )
        uses += [Use(n, episode.success, episode.started_at) for n in episode.skills.loaded if n in same[snapshot]]
    return uses


def _of_folder(text: str, folder: Path, *, own: bool = False) -> LibraryRef:
    """The library in `folder`. `own`: treat the folder as a store even without a history."""
    if is_run(folder):
        return _of_lane(text, folder, _exactly_one(lanes(folder), f"{text}: contains several lanes", f"{text}:"))
    if run := run_of(folder):
        return _of_run(text, run, folder)
    if own or (folder / ".hermes").is_dir():
        store = SkillStore(folder)
        return LibraryRef(text, store.load(), store, broken=store.broken())
    library, broken = read_library(folder)
    return LibraryRef(text, library, broken=broken)


def _of_lane(text: str, run: Path, lane: str) -> LibraryRef:
    if not is_run(run):
        raise ConfigError(f"{text}: {run} is not a run folder (no run.json)")
    known = lanes(run)
    found = [lane] if lane in known else [name for name in known if name.startswith(lane)]
    lane = _exactly_one(found, f"{text}: {'no' if not found else 'not one'} lane", "", known)
    return _of_run(text, run, run / "lanes" / lane / "home" / "skills", lane)


def _of_run(text: str, run: Path, folder: Path, lane: str = "") -> LibraryRef:
    folder = folder.resolve()
    copy = f"hermes-lab skills install {shlex.quote(str(folder))}"
    return LibraryRef(text, load_snapshot(folder), run=run, lane=lane, copy=copy)


def _of_snapshot(text: str, folder: Path, snapshot: str) -> LibraryRef:
    if is_run(folder):
        known = [path.name for path in (folder / "skills").glob("*") if path.is_dir()]
        found = _full_id(snapshot, known, f"the folders in {folder / 'skills'} are the ids")
        return _of_run(text, folder, folder / "skills" / found)
    store = SkillStore(folder)
    whole = full_snapshot(store, snapshot)
    where = "" if folder == home_skills() else f" --in {shlex.quote(str(folder))}"
    return LibraryRef(text, store.at(whole), copy=f"hermes-lab skills restore --snapshot {whole}{where}")


def full_snapshot(store: SkillStore, beginning: str) -> str:
    """A snapshot's full id from its prefix. Raises `ConfigError` if the prefix is unknown or ambiguous."""
    known = {part for change in store.snapshots() for part in (change.before, change.after)}
    return _full_id(beginning, known, "`hermes-lab skills history` lists the ids")


def _full_id(beginning: str, known: Iterable[str], hint: str) -> str:
    found = sorted(name for name in known if name.startswith(beginning))
    if not found:
        raise ConfigError(f"no snapshot {beginning}; {hint}")
    if not _SNAPSHOT.fullmatch(beginning):
        raise ConfigError(f"snapshot {beginning!r}: give at least its first {_DIGITS} digits; {hint}")
    return _exactly_one(found, f"several snapshots start with {beginning}", "")


def _exactly_one(names: Sequence[str], problem: str, prefix: str, known: Sequence[str] = ()) -> str:
    if len(names) != 1:
        choices = ", ".join(f"{prefix}{name}" for name in names or known) or "none"
        raise ConfigError(f"{problem}; choose from: {choices}")
    return names[0]
