"""Installs skills of a source in a library, checked, with where they came from; and updates them from there."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from hermes_lab.errors import ConfigError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.problems import Problem
from hermes_lab.skills.compiled.validate import check_skill
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.folder import read_skill
from hermes_lab.skills.storage.sources import checkout, parse_source, shown_url
from hermes_lab.types import Skill

_SKIPPED = (".git", "node_modules", "__pycache__")
_EXCERPT = 100
_NONE: Mapping[str, str] = MappingProxyType({})


class Fetched(Struct, frozen=True):
    """The skills of a source.

    `source` (the path, or the URL without a password) and `ref` (the branch, tag or commit) are used for later updates;
    `commit` is empty for a folder. `paths` has the folder of each skill within the source, by name. `broken` has an
    error message for each unreadable skill, by the name of its folder.
    """

    skills: tuple[Skill, ...]
    source: str
    ref: str = ""
    commit: str = ""
    broken: dict[str, str] = {}
    paths: dict[str, str] = {}


class Chosen(Struct, frozen=True):
    """What `choose` makes of a source: the skills `ready` to be added, and the reasons against each of the others."""

    ready: tuple[Skill, ...]
    refused: dict[str, str]


def fetch(source: str, *, say: Callable[[str], None], ref: str = "", prefer: Mapping[str, str] = _NONE) -> Fetched:
    """Reads the skills of a source (`parse_source`), for a Git repository at its default branch or at `ref`.

    `prefer` says which folder to take for a name that several skills have. Runs no code of the source. Raises
    `ConfigError` if the source is invalid or Git cannot fetch it.
    """
    wanted = parse_source(source, ref)
    if not wanted.git:
        return _read(Path(wanted.where), Fetched((), wanted.where), source, "", prefer)
    with checkout(wanted, say) as (folder, found, commit):
        origin = Fetched((), shown_url(found.where), found.ref, commit)
        return _read(folder, origin, shown_url(source), found.path, prefer)


def choose(fetched: Fetched, names: Sequence[str] = (), *, say: Callable[[str], None], force: bool = False) -> Chosen:
    """Takes the named skills of a source, or all: with their source and original digest recorded, and without other
    state. With `force`, also those with errors; `say` gets every warning, and every error that was overruled.

    Raises `ConfigError` for a name that the source does not have.
    """
    found = {skill.name: skill for skill in fetched.skills}
    folders = {path.rpartition("/")[2]: name for name, path in fetched.paths.items()}
    wanted = [name if name in found or name in fetched.broken else folders.get(name, name) for name in names]
    available = sorted([*found, *fetched.broken])
    if missing := [name for name in wanted if name not in available]:
        raise ConfigError(f"{fetched.source}: has no {', '.join(missing)}; it has: {', '.join(available)}")
    ready: list[Skill] = []
    refused: dict[str, str] = {}
    for name in dict.fromkeys(wanted or available):
        if name not in found:
            refused[name] = fetched.broken[name]
            continue
        problems = check_skill(found[name])
        errors = [problem for problem in problems if problem.severity == "error"]
        for problem in problems:
            if problem.severity != "error":
                say(f"warning: {name}/{problem}")
            elif force:
                say(f"flagged: {described(found[name], problem)}")
        if errors and not force:
            findings = "; ".join(described(found[name], problem) for problem in errors)
            refused[name] = f"{findings}; --force installs it all the same"
        else:
            ready.append(_installed(found[name], fetched))
    return Chosen(tuple(ready), refused)


def described(skill: Skill, problem: Problem) -> str:
    """Returns a problem with its file and line, and with the text of the line, for a person to judge."""
    data = skill.text.encode() if problem.path == "SKILL.md" else skill.files.get(problem.path, b"")
    lines = data.decode(errors="replace").split("\n")
    line = " ".join(lines[problem.line - 1].split()) if 0 < problem.line <= len(lines) else ""
    shown = line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}..."
    return f"{skill.name}/{problem}{f' ({shown})' if shown else ''}"


def source_of(skill: Skill) -> tuple[str, str] | None:
    """Returns the source and ref from which a skill was installed; None if it was not."""
    source = skill_format.mark(skill, "source")
    return (source, skill_format.mark(skill, "ref")) if source else None


def sources(skills: Iterable[Skill]) -> dict[tuple[str, str], list[Skill]]:
    """Groups installed skills by source and ref; other skills are left out."""
    found: dict[tuple[str, str], list[Skill]] = {}
    for skill in skills:
        if (source := source_of(skill)) is not None:
            found.setdefault(source, []).append(skill)
    return found


def edited(skill: Skill) -> bool:
    """Whether an installed skill was changed since it was installed; its state and pin do not count."""
    return digest(skill) != skill_format.mark(skill, "installed")


def newer(fetched: Fetched, mine: Iterable[Skill], *, edited: bool) -> list[str]:
    """Returns the names of installed skills whose source has a different or broken version now.

    With `edited`, this also includes skills that differ from the source because they were changed locally. Skills that
    the source no longer has are left out.
    """
    available = {skill.name: digest(_installed(skill, fetched)) for skill in fetched.skills} | fetched.broken
    current = {skill.name: digest(skill) if edited else skill_format.mark(skill, "installed") for skill in mine}
    return [name for name in current if name in available and available[name] != current[name]]


def paths_of(skills: Iterable[Skill]) -> dict[str, str]:
    """Returns the folder in its source of each installed skill, by name."""
    return {skill.name: skill_format.mark(skill, "path") for skill in skills if skill_format.mark(skill, "path")}


def taken(library: Library, names: Collection[str], *, replace: bool) -> dict[str, str]:
    """Returns why skills of these names cannot be added: one that exists, unless `replace` is set, or a pinned one."""
    refused = {}
    for name in names:
        before = library.skills.get(name)
        if before is not None and skill_format.pinned(before):
            refused[name] = f"{name}: is pinned; `hermes-lab skills unpin {name}` first"
        elif before is not None and not replace:
            refused[name] = f"{name}: a skill of this name exists already; use --replace to replace it"
    return refused


def add(library: Library, skills: Sequence[Skill], *, replace: bool) -> Library:
    """Adds `skills` to a library. Raises `ConfigError` for the names that are `taken`."""
    if refused := taken(library, [skill.name for skill in skills], replace=replace):
        raise ConfigError("; ".join(refused.values()))
    return library.with_changes({skill.name: skill for skill in skills})


def _installed(skill: Skill, fetched: Fetched) -> Skill:
    """Removes the marks of another library, except that a skill is compiled, and records the source and the digest."""
    here = {"origin": "installed", "source": fetched.source, "ref": fetched.ref, "commit": fetched.commit}
    here["path"] = fetched.paths.get(skill.name, "")
    plain = skill_format.canonical(skill) if list(skill_format.warnings(skill)) else skill
    skill = skill_format.remarked(plain, {**here, "compiled": skill_format.compiled(skill)})
    return skill_format.marked(skill, installed=digest(skill))


def digest(skill: Skill) -> str:
    """Returns the digest of a skill and its files, without what the lab records about it."""
    return Library([msgspec.structs.replace(skill, text=skill_format.shown(skill))]).snapshot


def _read(root: Path, origin: Fetched, source: str, path: str, prefer: Mapping[str, str]) -> Fetched:
    """Reads the skills below `root` that `path` means: a folder, or the name of a skill or of its folder."""
    found: dict[str, list[tuple[str, Skill]]] = {}
    broken: dict[str, str] = {}
    lost: set[str] = set()  # skills whose preferred folder is broken; another of that name is another skill
    inside = _folder_in(root, path) if path else None
    for folder in skill_folders(inside or root):
        at = folder.relative_to(root).as_posix()
        try:
            skill = read_skill(folder, own_name=True).skill
        except ConfigError as error:
            short = str(error).replace(f"{root}/", "") if origin.commit else str(error)
            known = next((name for name, path in prefer.items() if path == at), "")
            lost.add(known)
            broken[known or skill_format.slug(folder.name) or folder.name] = short
            continue
        found.setdefault(skill.name, []).append(("" if at == "." else at, skill))
    skills = {}
    for name, places in found.items():
        if name in lost:
            continue
        place = next((place for place in places if place[0] == prefer.get(name)), places[0])
        if len({digest(skill) for _, skill in places}) > 1 and place[0] != prefer.get(name):
            paths = ", ".join(path for path, _ in places)
            broken[name] = (
                f"{source}: has {len(places)} skills named {name!r} ({paths}); give the folder of one of them"
            )
        else:
            skills[name] = place
    if path and not inside:
        skills = {name: place for name, place in skills.items() if path in (name, place[0].rpartition("/")[2])}
        broken = {name: why for name, why in broken.items() if name == path}
    if not skills and not broken:
        near = f"; it has: {', '.join(sorted(found))}" if found else ""
        what = f"has no skill or folder {path!r}" if path else "has no skills (no SKILL.md in it or below it)"
        raise ConfigError(f"{source}: {what}{near}")
    return msgspec.structs.replace(
        origin,
        skills=tuple(skills[name][1] for name in sorted(skills)),
        broken={name: why for name, why in broken.items() if name not in skills},
        paths={name: place for name, (place, _) in skills.items()},
    )


def _folder_in(root: Path, path: str) -> Path | None:
    """The folder with that path below `root`, if there is one."""
    where = root / path
    try:
        return where if where.resolve().is_relative_to(root.resolve()) and where.is_dir() else None
    except OSError:  # a name that is too long
        return None


def skill_folders(root: Path) -> Iterator[Path]:
    """Yields `root` and the folders below it with a SKILL.md, except links, and folders inside a skill."""
    for at, folders, names in os.walk(root):
        if "SKILL.md" in names or "SKILL.md" in folders:
            folders.clear()
            yield Path(at)
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
