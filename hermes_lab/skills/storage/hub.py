"""Fetches skills from a folder or a Git repository, checks them, and installs them in a library."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.validate import check_skill
from hermes_lab.skills.library import Library, load_skill
from hermes_lab.skills.storage.folder import read_name
from hermes_lab.types import Skill

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:(?P<login>[^/?#]*)@)?(?P<rest>.+)", re.IGNORECASE)
_SCP = re.compile(r"[\w.-]+@[\w.-]+:.+")
_SCHEMES = ("https", "ssh", "file")
_SECONDS = 300
_QUIET_GIT = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
)
"""A repository is untrusted data: run none of its hooks, and fetch no submodules."""


class Fetched(Struct, frozen=True):
    """The skills of a source.

    `source` (the path, or the URL without a password) and `ref` (the branch or tag) are used for later updates;
    `commit` is empty for a folder. `broken` has an error message for each unreadable skill, by folder name.
    """

    skills: tuple[Skill, ...]
    source: str
    ref: str = ""
    commit: str = ""
    broken: dict[str, str] = {}


def is_url(source: str) -> bool:
    """Whether a source is a Git URL rather than a folder."""
    return bool(_URL.fullmatch(source) or _SCP.fullmatch(source))


def fetch(source: str, *, say: Callable[[str], None], ref: str = "") -> Fetched:
    """Reads all skills of a folder, or of a Git repository at its default branch or at the branch or tag `ref`.

    Runs no code of the source. Raises `ConfigError` if the source is invalid or Git cannot fetch it.
    """
    if not is_url(source):
        if ref:
            raise ConfigError(f"--ref: {source} is a folder; a branch or tag is for a Git URL")
        folder = Path(source).expanduser().absolute()
        if not folder.is_dir():
            raise ConfigError(f"{source}: no such folder, and no Git URL ({', '.join(_SCHEMES)})")
        skills, broken = _skills(folder, source)
        return Fetched(skills, str(folder), broken=broken)
    with _clone(source, ref, say) as (folder, commit):
        skills, broken = _skills(folder, shown_url(source))
        return Fetched(skills, shown_url(source), ref, commit, broken)


def shown_url(source: str) -> str:
    """Returns the URL without the password, and without the user name, which may be a token. The user name of an ssh
    URL is kept, since it is part of the address."""
    url = _URL.fullmatch(source)
    if url is None or url["login"] is None:
        return source
    user = f"{url['login'].partition(':')[0]}@" if "ssh" in url["scheme"].lower() else ""
    return f"{url['scheme']}://{user}{url['rest']}"


def _for_git(source: str) -> str:
    """Escapes `@` in the login of a URL; otherwise Git's messages would show part of a password as the host."""
    url = _URL.fullmatch(source)
    return f"{url['scheme']}://{url['login'].replace('@', '%40')}@{url['rest']}" if url and url["login"] else source


def choose(fetched: Fetched, names: Sequence[str] = (), *, say: Callable[[str], None]) -> list[Skill]:
    """Returns the named skills, or all, ready to be added to a library: with their source and original digest recorded,
    and without other state. Reports warnings of `check_skill` through `say`.

    Raises `ConfigError` for a name that the source does not have, and for skills with errors, naming the first of each.
    """
    found = {skill.name: skill for skill in fetched.skills}
    available = sorted([*found, *fetched.broken])
    if missing := [name for name in names if name not in available]:
        raise ConfigError(f"{fetched.source}: has no {', '.join(missing)}; it has: {', '.join(available)}")
    refused = []
    for name in names or available:
        problems = check_skill(found[name]) if name in found else ()
        for problem in problems:
            if problem.severity != "error":
                say(f"warning: {name}/{problem}")
        errors = [f"{name}/{problem}" for problem in problems if problem.severity == "error"]
        refused += errors[:1] if name in found else [fetched.broken[name]]
    if refused:
        raise ConfigError(f"nothing was installed: {'; '.join(refused)}")
    return [_installed(found[name], fetched) for name in names or available]


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
    return _digest(skill) != skill_format.mark(skill, "installed")


def newer(fetched: Fetched, mine: Iterable[Skill], *, edited: bool) -> list[str]:
    """Returns the names of installed skills whose source has a different or broken version now.

    With `edited`, this also includes skills that differ from the source because they were changed locally. Skills that
    the source no longer has are left out.
    """
    available = {skill.name: _digest(_installed(skill, fetched)) for skill in fetched.skills} | fetched.broken
    current = {skill.name: _digest(skill) if edited else skill_format.mark(skill, "installed") for skill in mine}
    return [name for name in current if name in available and available[name] != current[name]]


def add(library: Library, skills: Sequence[Skill], *, replace: bool) -> Library:
    """Adds `skills` to a library. Raises `ConfigError` for an existing name unless `replace` is set, and always if the
    existing skill is pinned."""
    for skill in skills:
        before = library.skills.get(skill.name)
        if before is not None and skill_format.pinned(before):
            raise ConfigError(f"{skill.name}: is pinned; `hermes-lab skills unpin {skill.name}` first")
        if before is not None and not replace:
            raise ConfigError(f"{skill.name}: a skill of this name exists already; use --replace to replace it")
        library = library.with_skill(skill)
    return library


def _installed(skill: Skill, fetched: Fetched) -> Skill:
    """Removes the marks of another library, except that a skill is compiled, and records the source and the digest."""
    here = {"origin": "installed", "source": fetched.source, "ref": fetched.ref, "commit": fetched.commit}
    skill = skill_format.remarked(skill, {**here, "compiled": skill_format.compiled(skill)})
    return skill_format.marked(skill, installed=_digest(skill))


def _digest(skill: Skill) -> str:
    return Library([msgspec.structs.replace(skill, text=skill_format.shown(skill))]).snapshot


def _skills(root: Path, source: str) -> tuple[tuple[Skill, ...], dict[str, str]]:
    """Reads all skills below `root`; returns the valid ones, and an error message by folder name for the others."""
    found: dict[str, Skill] = {}
    broken: dict[str, str] = {}
    for folder in skill_folders(root):
        name = folder.name
        if name in found or name in broken:
            broken[name] = f"{source}: has two skills named {name!r}; give the folder of one of them"
            continue
        try:
            found[name] = load_skill(folder)
        except ConfigError as error:
            broken[name] = str(error)
    if not found and not broken:
        raise ConfigError(f"{source}: has no skills (no SKILL.md in it or below it)")
    return tuple(found[name] for name in sorted(found.keys() - broken)), broken


def skill_folders(root: Path) -> Iterator[Path]:
    """Yields `root` and the folders below it with a SKILL.md, except hidden ones, links, and folders inside a skill."""
    for at, folders, names in os.walk(root):
        if "SKILL.md" in names:
            folders.clear()
            yield Path(at)
        folders[:] = sorted(name for name in folders if not name.startswith("."))


@contextmanager
def _clone(url: str, ref: str, say: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    url = _for_git(url)
    scheme = _URL.fullmatch(url)
    if scheme and scheme["scheme"].lower() not in _SCHEMES:
        raise ConfigError(f"{shown_url(url)}: {scheme['scheme']} URLs are not supported; use {', '.join(_SCHEMES)}")
    if ref.startswith("-"):
        raise ConfigError(f"--ref: {ref!r} is not a branch or tag")
    with tempfile.TemporaryDirectory(prefix="hermes-hub-") as temporary:
        folder = Path(temporary, "clone")
        say(f"fetching {shown_url(url)}{f' at {ref}' if ref else ''} (git, the last commit only)")
        at = [f"--branch={ref}"] if ref else []
        how = ["--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules", "--template=", "--quiet"]
        _git("clone", *how, *at, "--", url, str(folder), url=url)
        commit = _git("-C", str(folder), "rev-parse", "HEAD", url=url).strip()
        yield _named(folder), commit


def _named(clone: Path) -> Path:
    """If the repository itself is a skill, renames its folder to the name of the skill, as the standard requires."""
    try:
        name = read_name(clone)
    except (OSError, ConfigError, ToolError):
        return clone  # not a skill, or a broken one, which loading will report
    return clone.rename(clone.with_name(name))


def _git(*args: str, url: str) -> str:
    settings = [part for setting in _QUIET_GIT for part in ("-c", setting)]
    # Never prompt: nobody may be there to answer, and a repository could fake the prompt.
    silent = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES)}
    environment = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **os.environ, **silent, "LC_ALL": "C"}
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set if this runs in a hook of another repository
        environment.pop(variable, None)
    try:
        done = subprocess.run(
            ["git", *settings, *args],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError("git: not installed; give a folder instead of a URL") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{shown_url(url)}: git timed out after {_SECONDS} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        why = next((line for line in lines if line.startswith(("fatal:", "ERROR:"))), lines[-1] if lines else "failed")
        raise ConfigError(f"{shown_url(url)}: git: {why.replace(url, shown_url(url))}")
    return done.stdout
