"""Installs and updates skills: fetched, checked, tested, and added to a library as one change. Blocks meanwhile."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import Say
from hermes_lab.skills import own_tests
from hermes_lab.skills.library import check_skill_name
from hermes_lab.skills.storage import hub
from hermes_lab.skills.storage.history import Change
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.text.printable import printable
from hermes_lab.types import Skill


class Installed(Struct, frozen=True):
    """What became of the skills that were asked for.

    `names` were installed, in the `change`; `refused` has the reason against each other one, with file and line.
    `findings` are the errors that `force` overruled.
    """

    change: Change
    names: tuple[str, ...]
    refused: Mapping[str, str]
    findings: tuple[str, ...] = ()


def install(
    store: SkillStore,
    source: str,
    names: Sequence[str] = (),
    *,
    ref: str = "",
    replace: bool = False,
    force: bool = False,
    tests: bool = True,
    say: Say,
) -> Installed:
    """Installs the named skills of a source, or all. `say` gets the progress, the warnings and what `force` overruled.

    Raises `ConfigError` with all reasons if none can be installed.
    """
    fetched = hub.fetch(source, say=say, ref=ref)
    findings: list[str] = []
    try:
        chosen = hub.choose(fetched, names, say=_telling(say, findings), force=force)
    except ConfigError as error:
        raise ConfigError(f"nothing was installed: {error}") from None
    refused = chosen.refused | hub.taken(store.load(), [skill.name for skill in chosen.ready], replace=replace)
    ready = [skill for skill in chosen.ready if skill.name not in refused]
    if tests:
        ready, refused = _tested(ready, refused, say)
    if not ready:
        raise ConfigError(f"nothing was installed: {_reasons(refused)}")
    commit = f" at {fetched.commit[:12]}" if fetched.commit else ""
    installed = tuple(skill.name for skill in ready)
    say(f"installing {', '.join(installed)}")
    reason = f"installed {', '.join(installed)} from {fetched.source}{commit}"
    change = store.change(lambda now: hub.add(now, ready, replace=replace), origin="installed", reason=reason)
    return Installed(change, installed, refused, tuple(findings))


def update(
    store: SkillStore,
    names: Sequence[str] = (),
    *,
    replace: bool = False,
    force: bool = False,
    tests: bool = True,
    say: Say,
) -> Installed | None:
    """Updates the named skills, or all that were installed, from their sources; None if no skill was installed.

    Raises `ConfigError` for a skill that is not there or was not installed, and with all reasons if there are newer
    versions and none can be installed.
    """
    now = store.load()
    wanted = [now.skills[check_skill_name(now, name, store.broken())] for name in names or now.skills]
    if names and (others := [skill.name for skill in wanted if hub.source_of(skill) is None]):
        raise ConfigError(f"{', '.join(others)}: not installed from a folder or URL, so there is nothing to update")
    if not (origins := hub.sources(wanted)):
        return None
    ready: list[Skill] = []
    refused: dict[str, str] = {}
    findings: list[str] = []
    for (source, ref), mine in origins.items():
        try:
            fetched = hub.fetch(source, say=say, ref=ref, prefer=hub.paths_of(mine))
        except ConfigError as error:  # other sources may be there
            refused |= {skill.name: f"{skill.name}: {error}" for skill in mine}
            continue
        again = hub.newer(fetched, mine, edited=replace)
        edited = [skill.name for skill in mine if not replace and skill.name in again and hub.edited(skill)]
        refused |= {name: f"{name}: has local changes; --replace discards them" for name in edited}
        if fresh := [name for name in again if name not in edited]:
            chosen = hub.choose(fetched, fresh, say=_telling(say, findings), force=force)
            refused |= chosen.refused
            ready += chosen.ready
    refused |= hub.taken(now, [skill.name for skill in ready], replace=True)
    ready = [skill for skill in ready if skill.name not in refused]
    if tests:
        ready, refused = _tested(ready, refused, say)
    if refused and not ready:
        raise ConfigError(f"nothing was updated: {_reasons(refused)}")
    updated = tuple(skill.name for skill in ready)
    if updated:
        say(f"updating {', '.join(updated)}")
    reason = f"updated {', '.join(updated) or 'nothing'}"
    change = store.change(lambda now: hub.add(now, ready, replace=True), origin="installed", reason=reason)
    return Installed(change, updated, refused, tuple(findings))


def _telling(say: Say, findings: list[str]) -> Say:
    """A `say` that also collects the findings that were overruled."""

    def tell(line: str) -> None:
        if line.startswith("flagged: "):
            findings.append(line.removeprefix("flagged: "))
        say(printable(line))

    return tell


def _tested(ready: Sequence[Skill], refused: Mapping[str, str], say: Say) -> tuple[list[Skill], dict[str, str]]:
    """Runs the skills' own tests; those that fail are refused."""
    if names := [skill.name for skill in ready if own_tests.has_tests(skill)]:
        say(f"running the tests of {', '.join(names)}")
    found = own_tests.failures(ready, instead="--no-tests installs the skills untested")
    why = {name: f"{name}/{problem}; --no-tests installs it anyway" for name, problem in found.items()}
    return [skill for skill in ready if skill.name not in why], {**refused, **why}


def _reasons(refused: Mapping[str, str]) -> str:
    return printable("; ".join(refused.values()))
