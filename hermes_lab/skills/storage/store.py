"""A library of skills on disk that many processes read and write, and people edit by hand.

`<root>/<name>/SKILL.md` is the library as it is. What is the store's own lies in the hidden `<root>/.hermes/`:

    lock            held from reading to writing
    history.jsonl   every change, with its provenance (`hermes_lab.skills.storage.history`)
    objects/        every version of every skill, by its digest
    uses.jsonl      every use of a skill
    cache           the library in one piece, with the times of its files; may be deleted
    scratch/        files that are about to take their place
    aside/          broken skills in whose place a person put an earlier version

A change is put on the disk whole, objects first and then its line of the history, before a file of the library is
touched. After a crash the next who comes finishes it. So a library is what it was or what it shall be, and each of its
states can be had again: the history tells which skills it held, and the objects what these were.

A SKILL.md that somebody broke is theirs to mend: its skill is left out meanwhile, and the file is not touched.
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
from hermes_lab.types import Skill, SkillEdit, SkillWrite
from hermes_lab.types.skill import Action, Origin

_WAIT = 60.0
_OURS = ".hermes"
_EMPTY = Library().snapshot


class SkillStore:
    """The library in a folder, which need not be there before the first write."""

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
        """The library as it is, once an interrupted change is finished and edits by hand are taken down; without the
        skills that are `broken`. Raises `InfraError` where the disk fails."""
        return self._look().library

    def broken(self) -> Mapping[str, str]:
        """By the name of its folder, of each skill that `load` leaves out what is wrong, and how to mend it."""
        found = self._look().broken
        known = {name for change in self._history.read() for name in change.changed} if found else ()
        return {name: f"{why}; {self._cure(name) if name in known else 'mend the file'}" for name, why in found.items()}

    def commit(
        self, edits: Sequence[SkillEdit], origin: Origin, *, episode: str, model: str
    ) -> tuple[Library, list[SkillWrite]]:
        """Does edits to one skill of the newest library, all or none of them, as one change.

        Raises `ToolError` as `manage.apply` does, and `InfraError` where the disk fails: then nothing was changed.
        """
        with self._locked():
            seen = self._settled()
            if theirs := next((edit.name for edit in edits if edit.name in seen.broken), ""):
                raise ToolError(f"name: the file of the skill {theirs!r} is broken, and a person's to mend; leave it")
            after, writes = apply_all(seen.library, edits, origin=origin, episode=episode, model=model)
            first, paths = writes[0], tuple(write.path for write in writes if write.path)
            self._make(
                seen, after, origin, action=first.action, name=first.name, paths=paths, episode=episode, model=model
            )
            return after, writes

    def change(
        self, make: Callable[[Library], Library], *, origin: Origin, reason: str, over_broken: bool = False
    ) -> Change:
        """Makes of the newest library another one, all at once. A change that changes nothing is not taken down.

        Raises `ConfigError` where it would put a skill in the place of a broken one. With `over_broken` it does so, and
        the folder that was there is kept in `aside`.
        """
        with self._locked():
            seen = self._settled()
            return self._make(seen, make(seen.library), origin, over_broken=over_broken, reason=reason)

    def history(self) -> Iterator[Change]:
        """Every change that was made, the oldest first."""
        return self._history.read()

    def snapshots(self) -> list[Change]:
        """Every state that the library was ever in, as the change that first made it, the oldest first."""
        first: dict[str, Change] = {}
        for change in self._history.read():
            first.setdefault(change.after, change)
        return list(first.values())

    def at(self, snapshot: str) -> Library:
        """A state that the library was in. Raises `ConfigError` where it never was, or its content is damaged."""
        digests = self._digests(snapshot)
        if digests is None:
            raise ConfigError(f"{self.root}: no snapshot {snapshot!r}; `hermes-lab skills history` names them")
        library = Library(self._object(digest) for digest in digests.values())
        if library.snapshot != snapshot:
            raise ConfigError(f"{self._objects}: what snapshot {snapshot!r} held is damaged")
        return library

    def note_use(self, use: Use) -> None:
        """Takes down that an episode loaded a skill."""
        with self._locked(), self._uses.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            torn = file.read() not in (b"", b"\n")
            file.write(b"\n" * torn + msgspec.json.encode(use) + b"\n")

    def uses(self) -> list[Use]:
        """Every use that was taken down, the oldest first; a line that a crash tore is none."""
        found = []
        lines = self._uses.read_bytes().splitlines() if self._uses.exists() else []
        for line in lines:
            with suppress(msgspec.DecodeError):
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
            seen = self._settled()
            keep(self._cache, seen)
            return seen

    def _make(self, seen: Seen, after: Library, origin: Origin, *, over_broken: bool = False, **what: Any) -> Change:
        """Takes the library, which is as it was `seen`, to `after`."""
        before = seen.library
        change = change_between(before.digests, after.digests, origin=origin, **what)
        changed = change.changed
        if not changed and change.action is None:
            return change
        in_the_way = sorted(changed.keys() & seen.broken)
        if in_the_way and not over_broken:
            raise ConfigError("; ".join(f"{seen.broken[name]}; {self._cure(name)}" for name in in_the_way))
        self._keep(after, changed)
        with self._put_aside(in_the_way):
            self._carry_out(before, after, change)
        return change

    @contextmanager
    def _put_aside(self, names: Sequence[str]) -> Iterator[None]:
        """Moves the folders of broken skills away, and back where what is done then fails."""
        moved: list[tuple[Path, Path]] = []
        try:
            for name in names:
                self.aside.mkdir(exist_ok=True)
                place = Path(tempfile.mkdtemp(dir=self.aside, prefix=f"{name}-"), name)
                (self.root / name).rename(place)
                moved.append((self.root / name, place))
            yield
        except OSError:
            for was, place in moved:
                place.rename(was)
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

    def _settled(self) -> Seen:
        """The library as it is, once what a crash left is finished, and what people did by hand is taken down."""
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
            self._take_down(seen, last)
        self._seen = seen._replace(size=self._history.size)
        return self._seen

    def _take_down(self, seen: Seen, last: Change | None) -> None:
        """Enters into the history what was done to the library by hand since its last change. Breaking a skill is no
        write to it."""
        library = seen.library
        held = self._digests(last.after) if last else None
        by_hand = change_between(held or {}, library.digests, origin="user", reason="was there already")
        self._keep(library, by_hand.changed)
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

    def _keep(self, library: Library, names: Iterable[str]) -> None:
        """Puts the content of skills among the objects, once for each content."""
        for name in names:
            if (skill := library.skills.get(name)) is None or (path := self._objects / library.digests[name]).exists():
                continue
            _check(skill)
            write_synced(self._scratch, msgspec.msgpack.encode(skill)).replace(path)
        sync_folder(self._objects)

    def _cure(self, name: str) -> str:
        where = shlex.quote(str(self.root))
        return f"mend the file, or `hermes-lab skills restore {shlex.quote(name)} --in {where}` for what it was"

    def _files(self, digest: str) -> Files:
        return files_of(self._object(digest) if digest else None)

    def _object(self, digest: str) -> Skill:
        try:
            return _skill((self._objects / digest).read_bytes())
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"{self._objects / digest}: cannot be read: {error}") from None

    def _digests(self, snapshot: str) -> dict[str, str] | None:
        """The skills that a past state held; None where there was no such state."""
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
            with FileLock(self._ours / "lock", timeout=_WAIT, poll_interval=0.005):
                yield
        except Timeout:
            raise ToolError("the skill library is busy; try again later") from None
        except OSError as error:
            raise InfraError(f"skills in {self.root}: {error.strerror or error}") from error


_use = msgspec.json.Decoder(Use).decode
_skill = msgspec.msgpack.Decoder(Skill).decode


def _check(skill: Skill) -> None:
    """Raises `ConfigError` for a skill that could not be read again."""
    try:
        if skill_format.parse(skill.text, skill.files).name != skill.name:
            raise ToolError("its frontmatter says another name")
        files_of(skill)
    except ToolError as error:
        raise ConfigError(f"{skill.name}: {error}") from None
