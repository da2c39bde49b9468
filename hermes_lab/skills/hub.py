"""Skills from elsewhere: a folder or a Git repository, fetched, checked, and made a library's own."""

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
from hermes_lab.skills.library import Library, load_skill
from hermes_lab.types import Skill

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/@]*@)?.+", re.IGNORECASE)
_SCP = re.compile(r"[\w.-]+@[\w.-]+:.+")
_USER = re.compile(r"(?<=://)[^/@]*@")
_SCHEMES = ("https", "ssh", "file")
_SECONDS = 300
_QUIET_GIT = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
)
"""A repository is data: nothing of it is run, and nothing is fetched but itself."""


class Fetched(Struct, frozen=True):
    """What a source holds. `source` is where it can be had again, without any password, at the branch or tag `ref`;
    `commit` is empty for a folder."""

    skills: tuple[Skill, ...]
    source: str
    ref: str = ""
    commit: str = ""


def is_url(source: str) -> bool:
    """Whether a source is a Git URL, and no folder."""
    return bool(_URL.fullmatch(source) or _SCP.fullmatch(source))


def fetch(source: str, *, say: Callable[[str], None], ref: str = "") -> Fetched:
    """Reads all skills of a folder, or of a Git repository at its default branch or at `ref`, a branch or tag.

    Nothing of it is run. Raises `ConfigError` for a source that is none or that Git cannot get, and for a skill in it
    that cannot be read.
    """
    if not is_url(source):
        if ref:
            raise ConfigError(f"--ref: {source} is a folder; a branch or tag is for a Git URL")
        folder = Path(source).expanduser().absolute()
        if not folder.is_dir():
            raise ConfigError(f"{source}: no such folder, and no Git URL ({', '.join(_SCHEMES)})")
        return Fetched(_skills(folder, source), str(folder))
    with _clone(source, ref, say) as (folder, commit):
        return Fetched(_skills(folder, shown_url(source)), shown_url(source), ref, commit)


def shown_url(source: str) -> str:
    """The URL without a user's name and password in it, which nobody else may read."""
    return _USER.sub("", source) if source.lower().startswith("http") else source


def choose(fetched: Fetched, names: Sequence[str] = ()) -> list[Skill]:
    """The skills of those names, or all, as they stand in a library: with where they are from and what they were, and
    without a life of their own from elsewhere. Raises `ConfigError` for a name that the source does not hold."""
    found = {skill.name: skill for skill in fetched.skills}
    if missing := [name for name in names if name not in found]:
        raise ConfigError(f"{fetched.source}: holds no {', '.join(missing)}; it holds: {', '.join(found)}")
    return [_installed(found[name], fetched) for name in names or found]


def source_of(skill: Skill) -> tuple[str, str] | None:
    """The source and ref that a skill was installed from."""
    source = skill_format.mark(skill, "source")
    return (source, skill_format.mark(skill, "ref")) if source else None


def sources(skills: Iterable[Skill]) -> dict[tuple[str, str], list[Skill]]:
    """Installed skills by source and ref; others are left out."""
    found: dict[tuple[str, str], list[Skill]] = {}
    for skill in skills:
        if (source := source_of(skill)) is not None:
            found.setdefault(source, []).append(skill)
    return found


def edited(skill: Skill) -> bool:
    """Whether an installed skill is no longer what was installed; state and pin are no part of it."""
    return _digest(skill) != skill_format.mark(skill, "installed")


def newer(fetched: Fetched, mine: Iterable[Skill]) -> dict[str, Skill]:
    """Of installed skills those that their source has in another form now. One that it no longer has stays."""
    held = {skill.name for skill in fetched.skills}
    again = choose(fetched, names) if (names := [skill.name for skill in mine if skill.name in held]) else []
    was = {skill.name: skill_format.mark(skill, "installed") for skill in mine}
    return {skill.name: skill for skill in again if _digest(skill) != was[skill.name]}


def add(library: Library, skills: Sequence[Skill], *, replace: bool) -> Library:
    """The library with `skills` in it. Raises `ConfigError` for a name that is taken, unless it may be replaced; a
    pinned skill never is."""
    for skill in skills:
        before = library.skills.get(skill.name)
        if before is not None and skill_format.pinned(before):
            raise ConfigError(f"{skill.name}: is pinned; `hermes-lab skills unpin {skill.name}` first")
        if before is not None and not replace:
            raise ConfigError(f"{skill.name}: a skill of that name is there already; --replace takes its place")
        library = library.with_skill(skill)
    return library


def _installed(skill: Skill, fetched: Fetched) -> Skill:
    """The skill without the marks of a former life, save that it is compiled, and with where it is from and a digest
    of what came."""
    here = {"origin": "installed", "source": fetched.source, "ref": fetched.ref, "commit": fetched.commit}
    skill = skill_format.remarked(skill, {**here, "compiled": skill_format.compiled(skill)})
    return skill_format.marked(skill, installed=_digest(skill))


def _digest(skill: Skill) -> str:
    return Library([msgspec.structs.replace(skill, text=skill_format.shown(skill))]).snapshot


def _skills(root: Path, source: str) -> tuple[Skill, ...]:
    """Every folder with a SKILL.md that is not inside another one; hidden folders and links are not looked into."""
    found: dict[str, Skill] = {}
    for folder in _skill_folders(root):
        skill = load_skill(folder)
        if skill.name in found:
            raise ConfigError(f"{source}: holds two skills {skill.name!r}; give the folder of one of them")
        found[skill.name] = skill
    if not found:
        raise ConfigError(f"{source}: holds no skill (no SKILL.md in it or below it)")
    return tuple(found[name] for name in sorted(found))


def _skill_folders(root: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(root):
        if "SKILL.md" in names:
            folders.clear()
            yield Path(at)
        folders[:] = sorted(name for name in folders if not name.startswith("."))


@contextmanager
def _clone(url: str, ref: str, say: Callable[[str], None]) -> Iterator[tuple[Path, str]]:
    scheme = _URL.fullmatch(url)
    if scheme and scheme["scheme"].lower() not in _SCHEMES:
        raise ConfigError(f"{shown_url(url)}: {scheme['scheme']} is not fetched from; use {', '.join(_SCHEMES)}")
    if ref.startswith("-"):
        raise ConfigError(f"--ref: {ref!r} is no branch or tag")
    with tempfile.TemporaryDirectory(prefix="hermes-hub-") as temporary:
        folder = Path(temporary, "clone")
        say(f"fetching {shown_url(url)}{f' at {ref}' if ref else ''} (git, the last commit only)")
        at = [f"--branch={ref}"] if ref else []
        how = ["--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules", "--template=", "--quiet"]
        _git("clone", *how, *at, "--", url, str(folder), url=url)
        commit = _git("-C", str(folder), "rev-parse", "HEAD", url=url).strip()
        yield _named(folder), commit


def _named(clone: Path) -> Path:
    """A repository that is itself a skill, under the skill's name, which its folder has to have."""
    try:
        name = skill_format.parse((clone / "SKILL.md").read_text()).name
    except (OSError, UnicodeDecodeError, ToolError):
        return clone  # no skill, or a broken one, which loading it tells
    return clone.rename(clone.with_name(name))


def _git(*args: str, url: str) -> str:
    settings = [part for setting in _QUIET_GIT for part in ("-c", setting)]
    # It never asks: there may be nobody, and a prompt of a clone could be the repository's.
    silent = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES)}
    environment = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **os.environ, **silent, "LC_ALL": "C"}
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # as within a hook of another repository
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
        raise ConfigError(f"{shown_url(url)}: git got nothing in {_SECONDS} s") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        why = next((line for line in lines if line.startswith(("fatal:", "ERROR:"))), lines[-1] if lines else "failed")
        raise ConfigError(f"{shown_url(url)}: git: {why.replace(url, shown_url(url))}")
    return done.stdout
