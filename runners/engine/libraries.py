"""What a person may call a library: a folder of skills, a past state of one, or what a lane of a run had."""

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from hermes_lab.analysis.skill_effects.funnel import read_seen
from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import ConfigError
from hermes_lab.sessions import hermes_home
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.stats import Use
from hermes_lab.skills.library import Library, load_snapshot, read_library
from hermes_lab.skills.storage.hub import skill_folders
from hermes_lab.skills.storage.index import Index
from hermes_lab.skills.storage.run_paths import is_run, run_of, store_in
from hermes_lab.skills.storage.store import SkillStore

_DIGITS = 4
_SNAPSHOT = re.compile(rf"[0-9a-f]{{{_DIGITS},16}}")
FORMS = "a folder of skills, RUN:LANE, RUN@SNAPSHOT, FOLDER@SNAPSHOT, or a snapshot of your own skills"


@dataclass(frozen=True)
class LibraryRef:
    """A library that was found. `store` is there where it may be changed; `run` where it is one of a run's, in which
    `lane` is empty for a snapshot that any lane may have had. `copy` is the command that makes its skills one's own.
    `broken` tells what is wrong with each skill that was left out, by the name of its folder."""

    name: str
    library: Library
    store: SkillStore | None = None
    run: Path | None = None
    lane: str = ""
    copy: str = ""
    broken: Mapping[str, str] = field(default_factory=dict)

    def index(self, config: SkillsConfig | None = None) -> Index:
        """Everything there is to know of it."""
        if self.store is not None:
            return Index.of(self.store, config)
        index = Index(config=config)
        index.refresh(self.library, uses=self.uses())
        return index

    def uses(self) -> list[Use]:
        """The uses of its skills; for a run's, those in the run."""
        if self.store is not None:
            return self.store.uses()
        return uses_in(self.run, self.library, self.lane) if self.run else []


def home_skills() -> Path:
    """The folder of a person's own skills; it need not be there yet."""
    return hermes_home() / "skills"


def find(text: str) -> LibraryRef:
    """The library that `text` means; empty means a person's own. Raises `ConfigError` where it means none."""
    if not text:
        return _of_folder("your skills", home_skills(), own=True)
    folder = Path(text).expanduser()
    if folder.is_dir():
        return _of_folder(text, folder)
    if _SNAPSHOT.fullmatch(text):
        return _past(text, home_skills(), text)
    for mark, open_ in (("@", _past), (":", _of_lane)):
        where, found, what = text.rpartition(mark)
        if found and (folder := Path(where).expanduser() if where else home_skills()).is_dir():
            return open_(text, folder, what)
    raise ConfigError(f"{text}: no library here; give {FORMS}")


def find_all(text: str) -> list[LibraryRef]:
    """The library that `text` means; for a run folder, that of each of its lanes."""
    run = Path(text).expanduser()
    if text and is_run(run) and (found := lanes(run)):
        return [_of_lane(f"{text}:{lane}", run, lane) for lane in found]
    return [find(text)]


def find_store(text: str) -> SkillStore:
    """The library that `text` means, to be changed. Raises `ConfigError` for a run's and for a past state."""
    folder = Path(text).expanduser() if text else home_skills()
    if text and (not folder.is_dir() or is_run(folder)):
        ref = find(text)
        what = "a run" if ref.run else "a past state"
        raise ConfigError(f"{text}: {what} is never changed; to have its skills as yours: {ref.copy}")
    return store_in(folder)


def load_initial_library(text: str) -> Library:
    """The library that a run begins with; empty means none. Raises `ConfigError` also where a skill of it is broken."""
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
    """The folders below the folder `text` that hold skills: for a person who named one too high."""
    folder = Path(text).expanduser()
    return sorted({found.parent for found in skill_folders(folder)} - {folder}) if text and folder.is_dir() else []


def check_skill_name(library: Library, name: str, broken: Mapping[str, str] = MappingProxyType({})) -> str:
    """The name, if there is a skill of it. Raises `ConfigError` with the nearest ones where there is none, or with what
    is wrong with it."""
    if name in library.skills:
        return name
    if name in broken:
        raise ConfigError(broken[name])
    near = [known for known in library.skills if name in known] or difflib.get_close_matches(name, library.skills)
    hint = f"did you mean {', '.join(near)}?" if near else "`hermes-lab skills list` names them"
    raise ConfigError(f"no skill {name!r}; {hint}")


def lanes(run: Path) -> list[str]:
    """The lanes of a run that have a library."""
    return sorted(path.parent.parent.name for path in run.glob("lanes/*/home/skills"))


def uses_in(run: Path, library: Library, lane: str = "") -> list[Use]:
    """The uses, in a run or one of its lanes, of the very skills of `library`: those of an earlier text of a skill say
    nothing of it. Marks such as a pin are no part of the text."""
    wanted = {name: _text(library, name) for name in library.skills}
    same: dict[str, frozenset[str]] = {}
    uses = []
    for episode in read_seen(run):
        if episode.status != "ok" or not episode.skills.loaded or lane not in ("", episode.lane):
            continue
        snapshot = episode.skills.snapshot
        if snapshot not in same:
            past = load_snapshot(run / "skills" / snapshot)
            same[snapshot] = frozenset(
                name for name in wanted.keys() & past.skills if _text(past, name) == wanted[name]
            )
        uses += [Use(n, episode.success, episode.started_at) for n in episode.skills.loaded if n in same[snapshot]]
    return uses


def _text(library: Library, name: str) -> tuple[str, object]:
    skill = library.skills[name]
    return skill_format.shown(skill), skill.files


def _of_folder(text: str, folder: Path, *, own: bool = False) -> LibraryRef:
    """`own`: it is a library that is changed, whatever is in it."""
    if is_run(folder):
        return _of_lane(text, folder, _exactly_one(lanes(folder), f"{text}: holds several lanes", f"{text}:"))
    if run := run_of(folder):
        return _of_run(text, run, folder)
    if own or (folder / ".hermes").is_dir():
        store = SkillStore(folder)
        return LibraryRef(text, store.load(), store, broken=store.broken())
    library, broken = read_library(folder)
    return LibraryRef(text, library, broken=broken)


def _of_lane(text: str, run: Path, lane: str) -> LibraryRef:
    if not is_run(run):
        raise ConfigError(f"{text}: {run} is no run folder (no run.json), so it has no lanes")
    known = lanes(run)
    found = [lane] if lane in known else [name for name in known if name.startswith(lane)]
    lane = _exactly_one(found, f"{text}: {'no' if not found else 'not one'} lane", "", known)
    return _of_run(text, run, run / "lanes" / lane / "home" / "skills", lane)


def _of_run(text: str, run: Path, folder: Path, lane: str = "") -> LibraryRef:
    folder = folder.resolve()
    copy = f"hermes-lab skills install {shlex.quote(str(folder))}"
    return LibraryRef(text, load_snapshot(folder), run=run, lane=lane, copy=copy)


def _past(text: str, folder: Path, snapshot: str) -> LibraryRef:
    if is_run(folder):
        known = [path.name for path in (folder / "skills").glob("*") if path.is_dir()]
        found = _full_id(snapshot, known, f"the folders in {folder / 'skills'} are the ids")
        return _of_run(text, folder, folder / "skills" / found)
    store = SkillStore(folder)
    whole = full_snapshot(store, snapshot)
    where = "" if folder == home_skills() else f" --in {shlex.quote(str(folder))}"
    return LibraryRef(text, store.at(whole), copy=f"hermes-lab skills restore --snapshot {whole}{where}")


def full_snapshot(store: SkillStore, beginning: str) -> str:
    """A snapshot's whole id from its beginning. Raises `ConfigError` where it is none's or several's."""
    known = {part for change in store.snapshots() for part in (change.before, change.after)}
    return _full_id(beginning, known, "`hermes-lab skills history` has the ids")


def _full_id(beginning: str, known: Iterable[str], hint: str) -> str:
    found = sorted(name for name in known if name.startswith(beginning))
    if not found:
        raise ConfigError(f"no snapshot {beginning}; {hint}")
    if not _SNAPSHOT.fullmatch(beginning):
        raise ConfigError(f"snapshot {beginning!r}: give its first {_DIGITS} digits at least; {hint}")
    return _exactly_one(found, f"several snapshots begin with {beginning}", "")


def _exactly_one(names: Sequence[str], problem: str, prefix: str, known: Sequence[str] = ()) -> str:
    if len(names) != 1:
        there = ", ".join(f"{prefix}{name}" for name in names or known) or "none"
        raise ConfigError(f"{problem}; there are: {there}")
    return names[0]
