"""One update or rollback of an installation."""

import platform
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermes_lab.durable import hold
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.runners.updates.after import settle
from hermes_lab.runners.updates.build import build, check, check_starts, starts, tell_missing_packages
from hermes_lab.runners.updates.databases import unreadable
from hermes_lab.runners.updates.layout import TEMPORARY, Installation, Version
from hermes_lab.runners.updates.packages import parse_packages
from hermes_lab.runners.updates.screen import Screen, hangups_ignored
from hermes_lab.runners.updates.sources import Wheel, check_extras, fetch, parse_source

LOG = Path("logs", "update.log")


class Wanted(NamedTuple):
    """What a person asks for. None: as it is installed now."""

    source: str | None = None
    to: str = ""
    extras: tuple[str, ...] | None = None
    packages: tuple[str, ...] | None = None


class Updated(msgspec.Struct, frozen=True):
    """The result: the version that is current now, the one before, and whether that is another one."""

    version: Version
    before: Version | None
    changed: bool
    program: str
    log: str


def update(installation: Installation, wanted: Wanted, home: Path, *, quiet: bool = False) -> Updated:
    """Installs a version and switches to it. Whatever fails, and at whatever moment this process is killed, the
    installation has either the version before or the new one.

    Raises `ConfigError` if what is asked for makes no sense, `InfraError` if the version cannot be fetched, installed
    or used; nothing has changed then.
    """
    given = parse_source(wanted.source) if wanted.source else ""
    # Whoever names packages again wants them as they are now, although the record of them is the same.
    named = None if wanted.packages is None else parse_packages(wanted.packages)
    none = "" if given else "--from: {} has no version yet; say where to get it from"
    with _working(installation, home, quiet, none) as screen:
        before, now = _current(installation)
        source = given or (now.source if now else "")
        if not source:
            why = f"the record of {before} is damaged" if before else f"{installation.root} has no version yet"
            raise ConfigError(f"--from: {why}; say where to get it from")
        extras = _kept(wanted.extras, now.extras if now else ())
        packages = _kept(named, now.packages if now else ())
        has = now.shown if now else "damaged" if before else "empty"
        screen.say(f"updating {installation.root}, now {has}; log: {screen.log}")
        python = platform.python_version()
        sound = bool(before and now and starts(before, now.version, screen))
        if now and not sound:
            screen.say(f"{now.shown} does not start; it is replaced")
        same = now is not None and (extras, packages, python) == (now.extras, now.packages, now.python)
        with _temporary(installation, screen) as temporary:
            wheel = fetch(source, wanted.to, now, temporary, screen, again=bool(named) or not (sound and same))
            version = Version(
                version=wheel.version,
                commit=wheel.commit,
                source=source,
                ref=wheel.ref,
                wheel=wheel.digest,
                extras=extras,
                packages=packages,
                python=python,
                installed_at=datetime.now(UTC).isoformat(timespec="microseconds"),
            )
            there = None if named else _there(installation, version, sound, screen)
            folder = there or _new(installation, version, wheel, before, screen)
        changed = folder != before
        if changed:
            _switch(installation, folder, version.ref, before if now else None, screen)
        else:
            _record(installation, folder, ref=version.ref)
            installation.link_program()  # which a killed first update may not have made
            screen.say(f"already up to date: {version.shown}")
        settle(installation, home, screen)
        _prune(installation, screen)
        return _result(installation, now, changed, screen)


def roll_back(installation: Installation, home: Path, *, quiet: bool = False) -> Updated:
    """Switches to the version before the current one. Raises `ConfigError` if it is not there, `InfraError` if it does
    not start; nothing has changed then."""
    with _working(installation, home, quiet, "--rollback: {} has no version before that") as screen:
        before, now = _current(installation)
        if before and now is None:
            raise ConfigError(f"--rollback: the record of {before} is damaged; install again: --from SOURCE")
        if now is None or not now.replaced:
            raise ConfigError(f"--rollback: {installation.root} has no version before {now.shown if now else 'that'}")
        folder = installation.versions / now.replaced
        if (older := installation.read(folder)) is None:
            raise ConfigError(f"--rollback: {folder} was removed; install a version with --to")
        screen.say(f"rolling back {now.shown} to {older.shown}; log: {screen.log}")
        check_starts(folder, older.version, screen, older.shown)
        for reason in unreadable(folder, home, screen):
            screen.say(
                f"warning: {older.shown} does not open {reason}; return with `hermes-lab update`, or put back a copy "
                f"of {home} from before the update"
            )
        installation.switch(folder)
        screen.say(f"now {older.shown}")
        settle(installation, home, screen)
        return _result(installation, now, folder != before, screen)


@contextmanager
def _working(installation: Installation, home: Path, quiet: bool, none: str) -> Iterator[Screen]:
    """Holds the lock, and has the log tell how the update ended. `none`: what is wrong if the installation is yet to be
    made, if that is wrong; its folder is not created then."""
    installation.check()
    if none and not installation.lock.exists():
        raise ConfigError(none.format(installation.root))
    screen = Screen(home / LOG, secrets.token_hex(4), quiet=quiet)
    try:
        with hangups_ignored(), _locked(installation):
            screen.note(f"begins: {installation.root}")
            if left := installation.leftovers():
                screen.say("removing what an interrupted update left")
            for folder in left:
                installation.remove(folder)
            yield screen
            screen.note("ended")
    except HermesLabError as error:
        screen.note(f"ended: failed: {error}")
        raise
    except BaseException as error:
        screen.note(f"ended: {type(error).__name__}: {error}")
        raise
    finally:
        screen.close()


@contextmanager
def _temporary(installation: Installation, screen: Screen) -> Iterator[Path]:
    """A folder for what is fetched and built, and for the temporary files of pip; a killed update's is removed by the
    next one."""
    installation.versions.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=installation.versions) as folder:
        screen.temporary = folder
        yield Path(folder)
        screen.temporary = ""


def _locked(installation: Installation) -> AbstractContextManager[None]:
    """One update at a time."""
    root = installation.root
    return hold(
        installation.lock,
        held=f"{root}: another update is under way; wait for it",
        unwritable=f"{root}: cannot be written; choose another folder with --at",
    )


def _current(installation: Installation) -> tuple[Path | None, Version | None]:
    folder = installation.current
    return folder, installation.read(folder) if folder else None


def _kept(asked: tuple[str, ...] | None, before: tuple[str, ...]) -> tuple[str, ...]:
    return before if asked is None else tuple(dict.fromkeys(asked))


def _there(installation: Installation, version: Version, sound: bool, screen: Screen) -> Path | None:
    """A complete folder with that version that starts, the current one first, which does if it is `sound`. A killed
    update may have left it."""
    current = installation.current
    same = [folder for folder, known in installation.complete() if _identity(known) == _identity(version)]
    if sound and current in same:
        return current
    return next((each for each in same if each != current and starts(each, version.version, screen)), None)


def _identity(version: Version) -> tuple[str | tuple[str, ...], ...]:
    content = version.commit or version.wheel
    return version.version, content, version.source, version.extras, version.packages, version.python


def _new(installation: Installation, version: Version, wheel: Wheel, before: Path | None, screen: Screen) -> Path:
    check_extras(wheel, version.extras)
    folder = installation.new_folder(version.version)
    try:
        build(folder, wheel, version.extras, version.packages, screen)
        check(folder, version.version, before, screen)
        if before:
            tell_missing_packages(before, folder, screen)
        installation.record(folder, version)
    except BaseException:
        if folder.exists():
            installation.remove(folder)
        raise
    return folder


def _switch(installation: Installation, folder: Path, ref: str, before: Path | None, screen: Screen) -> None:
    version = _record(installation, folder, ref=ref, replaced=before.name if before else "")
    installation.switch(folder)
    screen.say(f"now {version.shown}" + ("; undo with: hermes-lab update --rollback" if before else ""))
    if before is None:
        screen.say(f"add {installation.program.parent} to your PATH")


def _record(installation: Installation, folder: Path, **changes: str) -> Version:
    """Changes the record of a complete version."""
    known = installation.read(folder)
    assert known is not None
    version = msgspec.structs.replace(known, **changes)
    if version != known:
        installation.record(folder, version)
    return version


def _prune(installation: Installation, screen: Screen) -> None:
    """Removes versions that are neither current, nor the one to roll back to, nor in use."""
    folder, now = _current(installation)
    kept: Sequence[str] = (folder.name, now.replaced) if folder and now else ()
    for older, version in installation.complete():
        if older.name in kept:
            continue
        if installation.is_used(older):
            screen.say(f"{version.shown} stays until the processes that run from it have ended")
        else:
            screen.say(f"removing {version.shown}")
            try:
                installation.remove(older)
            except OSError as error:  # the update itself is done
                screen.say(f"warning: {older}: cannot be removed: {error.strerror}")


def _result(installation: Installation, before: Version | None, changed: bool, screen: Screen) -> Updated:
    _, now = _current(installation)
    assert now is not None
    return Updated(now, before, changed, str(installation.program), str(screen.log))
