"""A library of skills on disk that several processes read and write, and users edit by hand.

`<root>/<name>/SKILL.md` is the current library. The hidden folder `<root>/.hermes/` has the files of the store:

    lock            held from reading to writing
    history.jsonl   every change, with its provenance (`hermes_lab.skills.storage.history`)
    objects/        every version of every skill, by digest
    uses.jsonl      every use of a skill
    cache           the serialized library with the ctimes of its files; may be deleted
    scratch/        new files before they are moved to their final path
    aside/          broken skills that the user replaced by an earlier version
    links           if it is there, the scripts of compiled skills are linked at the top (`storage/links.py`)

A change is atomic: its objects, and then its line of the history, are synced to disk before any file of the library
changes, and after a crash the next process finishes it. Every past state can be restored: the history says which skills
it had, and the objects have their content.

A SKILL.md that is not valid after an edit by hand is left for the user to fix; its skill is left out until then.
"""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from hermes_lab.durable import sync_folder
from hermes_lab.errors import ConfigError, InfraError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.stats import Use
from hermes_lab.skills.library import Library
from hermes_lab.skills.manage import apply_all
from hermes_lab.skills.storage.cache import Seen, changed, keep, kept, look
from hermes_lab.skills.storage.folder import Files, Transfer, files_of, write_synced
from hermes_lab.skills.storage.history import Change, History, change_between
from hermes_lab.skills.storage.links import LINKS, link_scripts
from hermes_lab.types import Skill, SkillEdit, SkillWrite
from hermes_lab.types.skill import Action, Origin

_LOCK_SECONDS = 60.0
_OURS = ".hermes"
_EMPTY = Library().snapshot


class SkillStore:
    """The library in a folder, which is created by the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ours = root / _OURS
        self._objects = self._ours / "objects"
        self._scratch = self._ours / "scratch"
        self.aside = self._ours / "aside"
        self._history = History(self._ours / "history.jsonl")
        self._uses = self._ours / "uses.jsonl"
        self._cache = self._ours / "cache"
        self._seen: Seen | None = None

    def load(self) -> Library:
        """Returns the current library without `broken` skills.

        Finishes an interrupted change and records edits by hand first. Raises `InfraError` if the disk fails.
        """
        return self._look().library

    def broken(self) -> Mapping[str, str]:
        """Returns an error message with a fix for each skill that `load` leaves out, by folder name."""
        found = self._look().broken
        known = {name for change in self._history.read() for name in change.changed} if found else ()
        return {name: f"{why}; {self._fix(name) if name in known else 'fix the file'}" for name, why in found.items()}

    def commit(
        self, edits: Sequence[SkillEdit], origin: Origin, *, episode: str, model: str
    ) -> tuple[Library, list[SkillWrite]]:
        """Applies edits to one skill of the current library, atomically and as one change.

        Raises `ToolError` as `manage.apply` does, and `InfraError` if the disk fails; in both cases nothing changes.
        """
        with self._locked():
            seen = self._recovered()
            if broken := next((edit.name for edit in edits if edit.name in seen.broken), ""):
                raise ToolError(f"name: the file of the skill {broken!r} is broken, and a person's to mend; leave it")
            after, writes = apply_all(seen.library, edits, origin=origin, episode=episode, model=model)
            first, paths = writes[0], tuple(write.path for write in writes if write.path)
            self._make(
                seen, after, origin, action=first.action, name=first.name, paths=paths, episode=episode, model=model
            )
            return after, writes

    def change(
        self, make: Callable[[Library], Library], *, origin: Origin, reason: str, over_broken: bool = False
    ) -> Change:
        """Atomically replaces the current library by `make(library)`. A change without effect is not recorded.

        Raises `ConfigError` if this would overwrite a broken skill, unless `over_broken` is set; then the broken folder
        is moved to `aside`.
        """
        with self._locked():
            seen = self._recovered()
            return self._make(seen, make(seen.library), origin, over_broken=over_broken, reason=reason)

    def link(self) -> None:
        """From now on, the scripts of compiled skills are linked at the top of the library."""
        with self._locked():
            (self._ours / LINKS).touch()
            link_scripts(self.root, self._recovered().library)

    def history(self) -> Iterator[Change]:
        """Yields all changes, oldest first."""
        return self._history.read()

    def snapshots(self) -> list[Change]:
        """Returns the first change to each state that the library ever had, oldest first."""
        first: dict[str, Change] = {}
        for change in self._history.read():
            first.setdefault(change.after, change)
        return list(first.values())

    def at(self, snapshot: str) -> Library:
        """Returns a past state of the library. Raises `ConfigError` if it does not exist or is damaged."""
        digests = self._digests(snapshot)
        if digests is None:
            raise ConfigError(f"{self.root}: no snapshot {snapshot!r}; `hermes-lab skills history` names them")
        library = Library(self._object(digest) for digest in digests.values())
        if library.snapshot != snapshot:
            raise ConfigError(f"{self._objects}: snapshot {snapshot!r} is damaged")
        return library

    def note_use(self, use: Use) -> None:
        """Records that an episode loaded a skill."""
        with self._locked(), self._uses.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            torn = file.read() not in (b"", b"\n")
            file.write(b"\n" * torn + msgspec.json.encode(use) + b"\n")

    def uses(self) -> list[Use]:
        """Returns all recorded uses, oldest first; a line truncated by a crash is skipped."""
        found = []
        lines = self._uses.read_bytes().splitlines() if self._uses.exists() else []
        for line in lines:
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                found.append(_use(line))
        return found

    def _look(self) -> Seen:
        if not self.root.exists():
            return Seen(Library(), {})
        seen = self._seen or kept(self._cache)
        if seen and seen.size == self._history.size and not changed(self.root, seen.stamps):
            self._seen = seen
            return seen
        with self._locked():
            seen = self._recovered()
            keep(self._cache, seen)
            return seen

    def _make(self, seen: Seen, after: Library, origin: Origin, *, over_broken: bool = False, **what: Any) -> Change:
        """Changes the library from its state in `seen` to `after`."""
        before = seen.library
        change = change_between(before.digests, after.digests, origin=origin, **what)
        changed = change.changed
        if not changed and change.action is None:
            return change
        in_the_way = sorted(changed.keys() & seen.broken)
        if in_the_way and not over_broken:
            raise ConfigError("; ".join(f"{seen.broken[name]}; {self._fix(name)}" for name in in_the_way))
        self._store_objects(after, changed)
        with self._moved_aside(in_the_way):
            self._carry_out(before, after, change)
        if (self._ours / LINKS).exists():
            link_scripts(self.root, after)
        return change

    @contextmanager
    def _moved_aside(self, names: Sequence[str]) -> Iterator[None]:
        """Moves the folders of broken skills to `aside`, and back if the body of the `with` statement fails."""
        moved: list[tuple[Path, Path]] = []
        try:
            for name in names:
                self.aside.mkdir(exist_ok=True)
                target = Path(tempfile.mkdtemp(dir=self.aside, prefix=f"{name}-"), name)
                (self.root / name).rename(target)
                moved.append((self.root / name, target))
            yield
        except OSError:
            for source, target in moved:
                target.rename(source)
            raise

    def _carry_out(self, before: Library, after: Library, change: Change) -> None:
        changed = change.changed
        moves = {name: (files_of(before.skills.get(name)), files_of(after.skills.get(name))) for name in changed}
        transfer = Transfer(self.root, self._scratch, moves)
        size = self._history.size
        self._history.begin(change)
        try:
            transfer.carry_out()
        except OSError:
            back = {name: (new, old) for name, (old, new) in moves.items()}
            Transfer(self.root, self._scratch, back).carry_out()
            self._history.cut(size)
            raise
        self._history.finish()

    def _recovered(self) -> Seen:
        """Returns the current library after finishing an interrupted change and recording edits by hand."""
        for left in self._scratch.iterdir():
            left.unlink()
        if (begun := self._history.pending()) is not None:
            held = self._digests(begun.before) or {}
            moves = {
                name: (self._files(held.get(name, "")), self._files(digest)) for name, digest in begun.changed.items()
            }
            Transfer(self.root, self._scratch, moves).carry_out()
            self._history.finish()
        seen = look(self.root, self._seen or kept(self._cache))
        last = self._history.last()
        if seen.library.snapshot != (last.after if last else _EMPTY):
            self._record_edits_by_hand(seen, last)
        self._seen = seen._replace(size=self._history.size)
        return self._seen

    def _record_edits_by_hand(self, seen: Seen, last: Change | None) -> None:
        """Adds edits by hand since the last change to the history. An edit that breaks a skill is not a write."""
        library = seen.library
        held = self._digests(last.after) if last else None
        by_hand = change_between(held or {}, library.digests, origin="user", reason="was there already")
        self._store_objects(library, by_hand.changed)
        if held is None:
            self._history.add([by_hand])
            return
        changes = []
        for name, digest in by_hand.changed.items():
            now = {other: held[other] for other in held if other != name} | ({name: digest} if digest else {})
            if name in seen.broken:
                what: dict[str, Any] = {"reason": f"left out {name}, whose SKILL.md was broken by hand"}
            else:
                action: Action = "delete" if not digest else "edit" if name in held else "create"
                what = {"reason": "by hand", "action": action, "name": name}
            changes.append(change_between(held, now, origin="user", **what))
            held = now
        self._history.add(changes)

    def _store_objects(self, library: Library, names: Iterable[str]) -> None:
        """Stores the content of skills as objects, unless they exist."""
        for name in names:
            if (skill := library.skills.get(name)) is None or (path := self._objects / library.digests[name]).exists():
                continue
            _check(skill)
            write_synced(self._scratch, msgspec.msgpack.encode(skill)).replace(path)
        sync_folder(self._objects)

    def _fix(self, name: str) -> str:
        where = shlex.quote(str(self.root))
        return f"fix the file, or use its last version: `hermes-lab skills restore {shlex.quote(name)} --in {where}`"

    def _files(self, digest: str) -> Files:
        return files_of(self._object(digest) if digest else None)

    def _object(self, digest: str) -> Skill:
        try:
            return _skill((self._objects / digest).read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{self._objects / digest}: cannot be read: {error}") from None

    def _digests(self, snapshot: str) -> dict[str, str] | None:
        """Returns the digests of the skills in a past state; None if there is no such state."""
        held: dict[str, str] = {}
        if snapshot == _EMPTY:
            return held
        for change in self._history.read():
            held |= change.changed
            if change.after == snapshot:
                return {name: digest for name, digest in held.items() if digest}
        return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            for folder in (self._objects, self._scratch):
                folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self._ours / "lock", timeout=_LOCK_SECONDS, poll_interval=0.005):
                yield
        except Timeout:
            raise ToolError("the skill library is busy; try again later") from None
        except OSError as error:
            raise InfraError(f"skills in {self.root}: {error.strerror or error}") from error


_use = msgspec.json.Decoder(Use).decode
_skill = msgspec.msgpack.Decoder(Skill).decode


def _check(skill: Skill) -> None:
    """Raises `ConfigError` for a skill that could not be read back."""
    try:
        skill_format.read(skill.text, skill.files, name=skill.name)
        files_of(skill)
    except ToolError as error:
        raise ConfigError(f"{skill.name}: {error}") from None
