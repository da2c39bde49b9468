"""The skills that come with this package, and how a library is kept up to date with them.

`.hermes/bundled.json` in the library has the digest of each skill as it was copied. A skill that a person changed,
pinned or deleted since is left alone; so is one of the same name that was there before.
"""

import hashlib
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.records import write_atomic
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library, load_skill
from hermes_lab.skills.storage.folder import skill_folders
from hermes_lab.skills.storage.history import Change
from hermes_lab.skills.storage.hub import digest
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill

_FOLDER = Path(__file__).parents[1] / "bundled"


class Manifest(Struct, frozen=True):
    """What was copied: the digest of all bundled skills together, and of each by name."""

    package: str = ""
    skills: dict[str, str] = {}


class Synced(Struct, frozen=True):
    """The result of `sync`: the names of skills added and updated, and why others were `kept` as they are."""

    change: Change
    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    kept: dict[str, str] = {}


@cache
def bundled() -> tuple[Skill, ...]:
    """The skills of the package."""
    return tuple(load_skill(folder) for folder in skill_folders(_FOLDER))


def is_synced(store: SkillStore) -> bool:
    """Whether the library was synced with the skills of this version of the package."""
    return _manifest(store).package == _package()


def sync(store: SkillStore, names: Collection[str] = (), *, replace: bool = False) -> Synced:
    """Copies new bundled skills to the library, and updates those that nobody changed, as one change.

    The named ones return if they were deleted; with `replace`, a changed one is replaced, too. Raises `ConfigError` for
    a name that is not bundled.
    """
    known = {skill.name: skill for skill in bundled()}
    if missing := [name for name in names if name not in known]:
        raise ConfigError(f"{', '.join(missing)}: not bundled; there are: {', '.join(known)}")
    copied = dict(_manifest(store).skills)
    added: list[str] = []
    updated: list[str] = []
    kept: dict[str, str] = {}

    def make(library: Library) -> Library:
        for name, skill in known.items():
            there, asked = library.skills.get(name), name in names
            if why := _why_kept(there, skill, copied.get(name), asked=asked, replace=replace and (asked or not names)):
                kept[name] = why
            elif there is None:
                library = library.with_skill(skill_format.remarked(skill, {"origin": "bundled"}))
                added.append(name)
            elif digest(there) != digest(skill):
                library = library.with_skill(
                    skill_format.remarked(skill, skill_format.marks(there) | {"origin": "bundled"})
                )
                updated.append(name)
            if name not in kept:
                copied[name] = digest(skill)
        return library

    change = store.change(make, origin="bundled", reason="synced the bundled skills")
    if store.root.exists():
        _write(store, Manifest(_package(), copied))
    return Synced(change, tuple(added), tuple(updated), kept)


def _why_kept(there: Skill | None, ours: Skill, copied: str | None, *, asked: bool, replace: bool) -> str:
    if there is None:
        return "was deleted here; name it to bring it back" if copied and not asked else ""
    if digest(there) in (digest(ours), copied):
        return "is pinned" if skill_format.pinned(there) and digest(there) != digest(ours) else ""
    if skill_format.pinned(there):
        return "is pinned"
    if replace:
        return ""
    return "was changed here; --replace discards that" if copied else "is a skill of your own; --replace replaces it"


def _package() -> str:
    return hashlib.sha256("".join(map(digest, bundled())).encode()).hexdigest()[:16]


def _path(store: SkillStore) -> Path:
    return store.root / ".hermes" / "bundled.json"


def _manifest(store: SkillStore) -> Manifest:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_path(store).read_bytes(), type=Manifest)
    return Manifest()


def _write(store: SkillStore, manifest: Manifest) -> None:
    path = _path(store)
    try:
        write_atomic(path, msgspec.json.format(msgspec.json.encode(manifest)))
    except OSError as error:
        raise InfraError(f"{path}: {error.strerror}") from error
