"""What a person may call a library: a folder of skills, a past state of one, or what a lane of a run had."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.funnel import read_seen
from hermes_lab.errors import ConfigError
from hermes_lab.sessions import hermes_home
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.index import Index
from hermes_lab.skills.library import Library
from hermes_lab.skills.stats import Use
from hermes_lab.skills.store import SkillStore

_SNAPSHOT = re.compile(r"[0-9a-f]{4,16}")
_COPY = "hermes-lab skills install FOLDER, a folder of the run's skills/; or restore --snapshot, for a state of yours"
FORMS = "a folder of skills, RUN:LANE, RUN@SNAPSHOT, FOLDER@SNAPSHOT, or a snapshot of your own skills"


@dataclass(frozen=True)
class Place:
    """A library that was found. `store` is there where it may be changed; `run` where it is one of a run's, in which
    `lane` is empty for a snapshot that any lane may have had."""

    name: str
    library: Library
    store: SkillStore | None = None
    run: Path | None = None
    lane: str = ""

    def index(self) -> Index:
        """Everything there is to know of it. For a run's skills, their uses are those of the run."""
        if self.store is not None:
            return Index.of(self.store)
        index = Index()
        index.refresh(self.library, uses=uses_in(self.run, self.library, self.lane) if self.run else ())
        return index


def home_skills() -> Path:
    """The folder of a person's own skills; it need not be there yet."""
    return hermes_home() / "skills"


def find(text: str) -> Place:
    """The library that `text` means; empty means a person's own. Raises `ConfigError` where it means none."""
    if not text:
        return _of_folder("your skills", home_skills())
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


def find_all(text: str) -> list[Place]:
    """The library that `text` means; for a run folder, that of each of its lanes."""
    run = Path(text).expanduser()
    if text and is_run(run) and (found := lanes(run)):
        return [_of_lane(f"{text}:{lane}", run, lane) for lane in found]
    return [find(text)]


def find_store(text: str) -> SkillStore:
    """The library that `text` means, to be changed. Raises `ConfigError` for a run's and for a past state."""
    folder = Path(text).expanduser() if text else home_skills()
    if text and not folder.is_dir():
        place = find(text)
        what = "a run" if place.run else "a past state"
        raise ConfigError(f"{text}: {what} is never changed; to have its skills as yours: {_COPY}")
    if run := _run_of(folder):
        raise ConfigError(f"{folder}: a run ({run}) is never changed; to have its skills as yours: {_COPY}")
    return SkillStore(folder)


def existing(library: Library, name: str) -> str:
    """The name, if there is a skill of it. Raises `ConfigError` with the nearest ones where there is none."""
    if name in library.skills:
        return name
    near = [known for known in library.skills if name in known] or difflib.get_close_matches(name, library.skills)
    hint = f"did you mean {', '.join(near)}?" if near else "`hermes-lab skills list` names them"
    raise ConfigError(f"no skill {name!r}; {hint}")


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / "run.json").is_file()


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
            past = Library.load(run / "skills" / snapshot)
            same[snapshot] = frozenset(
                name for name in wanted.keys() & past.skills if _text(past, name) == wanted[name]
            )
        uses += [Use(n, episode.success, episode.started_at) for n in episode.skills.loaded if n in same[snapshot]]
    return uses


def _text(library: Library, name: str) -> tuple[str, object]:
    skill = library.skills[name]
    return skill_format.shown(skill), skill.files


def _of_folder(text: str, folder: Path) -> Place:
    if is_run(folder):
        return _of_lane(text, folder, _only(lanes(folder), f"{text}: holds several lanes", f"{text}:"))
    if run := _run_of(folder):
        return Place(text, Library.load(folder), run=run)
    if text == "your skills" or (folder / ".hermes").is_dir():
        store = SkillStore(folder)
        return Place(text, store.load(), store)
    return Place(text, Library.load(folder))


def _of_lane(text: str, run: Path, lane: str) -> Place:
    if not is_run(run):
        raise ConfigError(f"{text}: {run} is no run folder (no run.json), so it has no lanes")
    if lane not in lanes(run):
        raise ConfigError(f"{text}: the run has no lane {lane!r} with skills; it has: {_listed(lanes(run))}")
    return Place(text, Library.load(run / "lanes" / lane / "home" / "skills"), run=run, lane=lane)


def _past(text: str, folder: Path, snapshot: str) -> Place:
    if is_run(folder):
        known = sorted(path.name for path in (folder / "skills").glob("*") if path.is_dir())
        found = _only([name for name in known if name.startswith(snapshot)], f"{text}: not one snapshot", "")
        return Place(text, Library.load(folder / "skills" / found), run=folder)
    store = SkillStore(folder)
    return Place(text, store.at(full_snapshot(store, snapshot)))


def full_snapshot(store: SkillStore, beginning: str) -> str:
    """A snapshot's whole id from its beginning. Raises `ConfigError` where it is none's or several's."""
    known = {part for change in store.snapshots() for part in (change.before, change.after)}
    return _only(sorted(name for name in known if name.startswith(beginning)), f"no one snapshot {beginning!r}", "")


def _only(names: Sequence[str], problem: str, prefix: str) -> str:
    if len(names) != 1:
        raise ConfigError(f"{problem}; there are: {_listed(f'{prefix}{name}' for name in names)}")
    return names[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _run_of(folder: Path) -> Path | None:
    """The run that a folder is, or lies in."""
    return next((place for place in (folder.resolve(), *folder.resolve().parents) if is_run(place)), None)
