"""Where a version comes from: a Git repository, a wheel, or the package index that pip is configured for."""

import hashlib
import re
import shlex
import sys
import zipfile
import zlib
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path
from typing import NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.layout import Version
from hermes_lab.runners.updates.packages import ARCHIVES
from hermes_lab.runners.updates.pip import pip_of
from hermes_lab.runners.updates.processes import attempt, run
from hermes_lab.runners.updates.screen import Screen
from hermes_lab.runners.updates.urls import absolute, bare_url, refuse_secrets
from hermes_lab.skills.storage.sources import is_url
from hermes_lab.text.suggest import did_you_mean

INDEX = "index"
_PACKAGE = "hermes-lab"
_CONSTRAINTS = "constraints.txt"


class Wheel(NamedTuple):
    """A wheel to install. `known_extras` are those that it has; `constraints` has the versions that its repository is
    tested with, if it says so."""

    path: Path
    version: str
    digest: str
    commit: str = ""
    ref: str = ""
    known_extras: tuple[str, ...] = ()
    constraints: Path | None = None


def parse_source(text: str) -> str:
    """The source as it is recorded: `index`, a URL, or an absolute path. Raises `ConfigError` if it is no source."""
    if text == INDEX:
        return text
    if is_url(text):
        shown = bare_url(text)
        if shown.startswith("git+"):
            raise ConfigError(f"--from: {shown}: that is how pip writes it; give {shown.removeprefix('git+')}")
        if shown.endswith(".whl"):
            raise ConfigError(f"--from: {shown}: download the wheel, and give the file")
        if shown.endswith(ARCHIVES):
            raise ConfigError(f"--from: {shown}: is an archive; give a Git repository, or the file of a wheel")
        refuse_secrets("--from", text)
        return text
    path = absolute("--from", text)
    if path.suffix == ".whl" and path.is_file():
        return str(path)
    if (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir()):
        return str(path)
    raise ConfigError(f"--from: {text}: no Git repository and no wheel; give one, a Git URL, or `{INDEX}`")


def fetch(source: str, to: str, now: Version | None, folder: Path, screen: Screen, *, again: bool) -> Wheel:
    """Gets the wheel of a version, into a temporary folder. `to` is a version, or a branch, tag or commit.

    The commit that is installed `now` is not built, unless `again` is set: its path is that of nothing.

    Raises `ConfigError` if a repository's branch is not ahead of the commit that is installed `now`, `InfraError` if it
    cannot be fetched or built.
    """
    if source == INDEX:
        return _built(f"{_PACKAGE}=={to}" if to else _PACKAGE, folder, screen)
    if source.endswith(".whl"):
        if to:
            raise ConfigError(f"--to: {source} is one version; leave --to out")
        if not Path(source).is_file():
            raise ConfigError(f"--from: {source}: no such file; give the new version's")
        return _wheel(Path(source))
    return _from_repository(source, to, now, folder, screen, again=again)


def check_extras(wheel: Wheel, extras: Sequence[str]) -> None:
    """Raises `ConfigError` for an extra that the wheel does not have; pip would only warn."""
    known = {_plain(extra): extra for extra in wheel.known_extras}
    for extra in extras:
        if _plain(extra) not in known:
            meant = did_you_mean(_plain(extra), wheel.known_extras)
            raise ConfigError(
                f"--extras: {wheel.version} has no extra {extra!r}{meant} (it has: {', '.join(wheel.known_extras)})"
            )


def _plain(extra: str) -> str:
    """An extra's name as names are compared (PEP 685)."""
    return re.sub(r"[-_.]+", "-", extra).lower()


def _from_repository(source: str, to: str, now: Version | None, folder: Path, screen: Screen, *, again: bool) -> Wheel:
    clone = folder / "source"
    screen.say(f"fetching {source}{f' at {to}' if to else ''}")
    git = ("git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")
    few = ["--filter=blob:none"] if is_url(source) else []
    run([*git, "clone", "--quiet", "--no-checkout", *few, "--", source, clone], screen, f"git clone {source}")
    inside = (*git, "-C", clone)
    same = now is not None and now.source == source
    ref = to or (now.ref if now and same else "")
    # Only a branch's own name is followed: `main~3` is one commit now and another one later.
    named: list[str | Path] = [*inside, "show-ref", "--verify", "--quiet", f"refs/remotes/origin/{ref}"]
    branch = bool(ref) and attempt(named, screen)[0] == 0
    # `main~3` is `origin/main~3`: a clone has only the default branch as one of its own.
    for at in (f"origin/{ref}", ref) if ref else ("HEAD",):
        code, said = attempt([*inside, "rev-parse", "-q", "--verify", f"{at}^{{commit}}"], screen)
        if code == 0:
            break
    else:
        if ref and not to:
            raise ConfigError(f"{source} no longer has the branch {ref}, which is followed; name another with --to")
        raise ConfigError(f"--to: {source} has no branch, tag or commit {ref or 'HEAD'}")
    commit = said.strip()
    if now and same and now.commit and not to:
        ahead = attempt([*inside, "merge-base", "--is-ancestor", now.commit, commit], screen)[0] == 0
        shallow: list[str | Path] = [*inside, "rev-parse", "--is-shallow-repository"]
        if not ahead and attempt(shallow, screen)[1].strip() == "true":
            raise ConfigError(
                f"{source}: {commit[:12]} cannot be seen to follow the installed commit {now.commit[:12]}: the "
                f"repository is a shallow clone; run `git -C {shlex.quote(source)} fetch --unshallow`, or install it "
                f"all the same: --to {ref or commit[:12]}"
            )
        if not ahead:
            raise ConfigError(
                f"{source}: {commit[:12]} does not follow the installed commit {now.commit[:12]}: its history was "
                f"rewritten, or it is older; to install it all the same: --to {ref or commit[:12]}"
            )
    if Path(source).is_dir() and attempt(["git", "-C", source, "status", "--porcelain", "-uno"], screen)[1].strip():
        screen.say(f"{source}: has changes that are not committed; they are not installed")
    followed = ref if branch else ""
    if now and same and now.commit == commit and not again:
        return Wheel(Path(), now.version, now.wheel, commit, followed)
    run([*inside, "checkout", "--quiet", "--detach", commit], screen, "git checkout")
    constraints = clone / _CONSTRAINTS
    found = _built(str(clone), folder, screen)
    return found._replace(commit=commit, ref=followed, constraints=constraints if constraints.is_file() else None)


def _built(what: str, folder: Path, screen: Screen) -> Wheel:
    """The wheel that pip makes of a requirement or a folder, without what it requires."""
    pip = pip_of(sys.executable, screen)
    screen.say("building the wheel")
    out = folder / "wheel"
    run([*pip, "wheel", "--no-deps", "--progress-bar", "off", "--wheel-dir", out, what], screen, "pip wheel")
    return _wheel(next(out.glob("*.whl")))


def _wheel(path: Path) -> Wheel:
    parts = path.name.split("-")
    if parts[0].replace("_", "-").lower() != _PACKAGE or len(parts) < 5:
        raise ConfigError(f"{path}: not a wheel of {_PACKAGE}")
    try:
        with zipfile.ZipFile(path) as file:
            about = message_from_bytes(file.read(f"{parts[0]}-{parts[1]}.dist-info/METADATA"))
    except (OSError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(f"{path}: not a wheel: {error}") from None
    extras = tuple(map(str, about.get_all("Provides-Extra", ())))
    return Wheel(path, parts[1], hashlib.sha256(path.read_bytes()).hexdigest(), known_extras=extras)
