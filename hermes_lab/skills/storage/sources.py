"""Where skills come from: a folder or a Git repository, as people write it, and how a repository is fetched."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.processes import NotStarted, started
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.waiting import check_cancelled

FORMS = "a folder, USER/REPO, USER/REPO/SKILL, a github.com address, or a Git URL"

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:(?P<login>[^/?#]*)@)?(?P<rest>.+)", re.IGNORECASE)
_SCP = re.compile(r"[\w.-]+@[\w.-]+:.+")
_SHORT = re.compile(r"(?P<repo>[A-Za-z0-9][A-Za-z0-9-]*/[\w.-]*\w[\w.-]*)(?:/(?P<path>[^@]+))?")
_PAGE = re.compile(
    r"(?P<repo>https://[^/?#]+/[^?#]+?)(?:\.git)?/(?:-/)?(?:tree|blob)/(?P<rest>[^?#]+)(?:[?#].*)?", re.IGNORECASE
)
_GITHUB = "https://github.com/"
_SCHEMES = ("https", "ssh", "file")
_SECONDS = 300
_CHARS = 200
_LOOK_SECONDS = 0.1
_QUIET_GIT = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
)
"""A repository is untrusted data: run none of its hooks, and fetch no submodules."""


class Source(NamedTuple):
    """A place with skills. `where` is a folder, or the URL of a Git repository with `ref`, its branch, tag or commit.

    `path` is the part of it that is meant: a folder of skills, the folder of a skill, or a skill's name.
    """

    where: str
    ref: str = ""
    path: str = ""
    git: bool = False


def parse_source(text: str, ref: str = "") -> Source:
    """Returns what a person means by `text`; a folder that exists comes first. Uses no network.

    The address of a page, `https://github.com/USER/REPO/tree/REF/PATH`, keeps REF/PATH in one piece, since a branch may
    have slashes; `checkout` tells them apart. Raises `ConfigError` for an invalid source.
    """
    if not text.strip():
        raise ConfigError(f"the source is empty; give {FORMS}")
    if folder := _folder(text):
        if ref:
            raise ConfigError(f"--ref: {text} is a folder; a branch or tag is for a Git repository")
        return Source(str(folder.absolute()))
    if ref.startswith("-"):
        raise ConfigError(f"--ref: {ref!r} is not a branch, tag or commit")
    if page := _PAGE.fullmatch(text):
        if ref:
            raise ConfigError(f"--ref: {text} names its branch already")
        return Source(f"{page['repo']}.git", page["rest"].rstrip("/"), "?", git=True)
    if is_url(text):
        return Source(text, ref, git=True)
    if short := _SHORT.fullmatch(text.rstrip("/")):
        return Source(f"{_GITHUB}{short['repo'].removesuffix('.git')}.git", ref, short["path"] or "", git=True)
    shown = text if len(text) <= _CHARS else f"{text[:_CHARS]}..."
    raise ConfigError(f"{shown}: no such folder, and no other source; give {FORMS}")


def _folder(text: str) -> Path | None:
    """The folder of that path, if there is one."""
    try:
        folder = Path(text).expanduser()
        return folder if folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # a name that is too long, or of a person who is not there
        return None


def is_url(source: str) -> bool:
    """Whether a source is a Git URL rather than a folder."""
    return bool(_URL.fullmatch(source) or _SCP.fullmatch(source))


def shown_url(source: str) -> str:
    """Returns the URL without the password, and without the user name, which may be a token. The user name of an ssh
    URL is kept, since it is part of the address."""
    url = _URL.fullmatch(source)
    if url is None or url["login"] is None:
        return source
    user = f"{url['login'].partition(':')[0]}@" if "ssh" in url["scheme"].lower() else ""
    return f"{url['scheme']}://{user}{url['rest']}"


@contextmanager
def checkout(source: Source, say: Callable[[str], None]) -> Iterator[tuple[Path, Source, str]]:
    """Fetches one commit of a repository; yields its folder, the source with `ref` and `path` apart, and the commit.

    Raises `ConfigError` if Git cannot fetch it.
    """
    url = _for_git(source.where)
    scheme = _URL.fullmatch(url)
    if scheme and scheme["scheme"].lower() not in _SCHEMES:
        raise ConfigError(f"{shown_url(url)}: {scheme['scheme']} URLs are not supported; use {', '.join(_SCHEMES)}")
    if source.path == "?":
        source = _apart(source, url)
    with tempfile.TemporaryDirectory(prefix="hermes-hub-") as temporary:
        name = skill_format.slug(source.where.rstrip("/").removesuffix(".git").rpartition("/")[2]) or "repository"
        folder = Path(temporary, name)  # the name of a skill that is the repository itself, unless it has one
        say(f"fetching {shown_url(url)}{f' at {source.ref}' if source.ref else ''} (git, the last commit only)")
        _git("init", "--quiet", "--template=", str(folder), url=url)
        inside = ("-C", str(folder))
        how = ("--depth=1", "--no-tags", "--no-recurse-submodules", "--quiet")
        _git(*inside, "fetch", *how, "--", url, source.ref or "HEAD", url=url)
        _git(*inside, "checkout", "--quiet", "--detach", "FETCH_HEAD", url=url)
        yield folder, source, _git(*inside, "rev-parse", "HEAD", url=url).strip()


def _apart(source: Source, url: str) -> Source:
    """Splits REF/PATH of a page's address at the longest branch or tag that the repository has."""
    refs = [line.partition("\t")[2] for line in _git("ls-remote", "--", url, url=url).splitlines()]
    known = {ref.partition("/")[2].partition("/")[2].removesuffix("^{}") for ref in refs}
    parts = source.ref.split("/")
    heads = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    ref = next((head for head in heads if head in known), parts[0])
    path = source.ref.removeprefix(ref).strip("/")
    return source._replace(ref=ref, path=path.removesuffix("SKILL.md").rstrip("/"))


def _for_git(source: str) -> str:
    """Escapes `@` in the login of a URL; otherwise Git's messages would show part of a password as the host."""
    url = _URL.fullmatch(source)
    return f"{url['scheme']}://{url['login'].replace('@', '%40')}@{url['rest']}" if url and url["login"] else source


def _git(*args: str, url: str) -> str:
    settings = [part for setting in _QUIET_GIT for part in ("-c", setting)]
    # Never prompt: nobody may be there to answer, and a repository could fake the prompt.
    silent = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES)}
    environment = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **os.environ, **silent, "LC_ALL": "C"}
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # set if this runs in a hook of another repository
        environment.pop(variable, None)
    command = ["git", *settings, *args]
    try:
        with started(command, environment=environment) as process:  # with its helpers, which fetch
            output, complaint = _finished(process, shown_url(url))
    except NotStarted as error:
        why = "not installed" if isinstance(error.__cause__, FileNotFoundError) else f"cannot be started: {error}"
        raise ConfigError(f"git: {why}; give a folder instead of a URL") from None
    if process.returncode != 0:
        lines = [line for line in complaint.strip().splitlines() if line.strip()]
        why = next((line for line in lines if line.startswith(("fatal:", "ERROR:"))), lines[-1] if lines else "failed")
        raise ConfigError(f"{shown_url(url)}: git: {why.replace(url, shown_url(url))}")
    return output


def _finished(process: subprocess.Popen[str], url: str) -> tuple[str, str]:
    """Waits for what a process writes to stdout and stderr, until the task that waits for this thread is cancelled."""
    limit = time.monotonic() + _SECONDS
    while True:
        try:
            return process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            check_cancelled()
            if time.monotonic() > limit:
                raise ConfigError(f"{url}: git timed out after {_SECONDS} s") from None
