"""`skills`: commands that change a library: pin, unpin, archive, restore, curate, install, update."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

import typer

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.skills_look import In, Lib, left_out, names, print_json
from hermes_lab.runners.engine import skill_tests
from hermes_lab.runners.engine.libraries import (
    LibraryRef,
    check_skill_name,
    find,
    find_store,
    full_snapshot,
    home_skills,
)
from hermes_lab.runners.tables import counted, printable, table
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.curator import curate as curator
from hermes_lab.skills.curator import merged_skill, upkeep
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage import hub
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill
from hermes_lab.types.skill import Origin

Names = Annotated[list[str], typer.Argument(help="Skills' names.", show_default=False, autocompletion=names)]
MaybeNames = Annotated[
    list[str] | None, typer.Argument(help="Skills' names.", show_default=False, autocompletion=names)
]
NoTests = Annotated[bool, typer.Option("--no-tests", help="Skip the skills' own tests, e.g. if there is no sandbox.")]
Source = Annotated[str, typer.Argument(help="A folder of skills, or a Git URL.", show_default=False)]


def pin(skills: Names, library: In = "", json: options.Json = False, quiet: options.Quiet = False) -> None:
    """`hermes-lab skills pin`."""
    _mark(library, skills, "pinned", {"pinned": "true"}, json, quiet)


def unpin(skills: Names, library: In = "", json: options.Json = False, quiet: options.Quiet = False) -> None:
    """`hermes-lab skills unpin`."""
    _mark(library, skills, "unpinned", {"pinned": ""}, json, quiet)


def archive(skills: Names, library: In = "", json: options.Json = False, quiet: options.Quiet = False) -> None:
    """`hermes-lab skills archive`."""
    _mark(library, skills, "archived", {"state": "archived"}, json, quiet)


def restore(
    skills: MaybeNames = None,
    library: In = "",
    snapshot: Annotated[str, typer.Option(help="Restore the whole library to this snapshot.", show_default=False)] = "",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills restore`."""
    if bool(skills) == bool(snapshot):
        raise ConfigError("restore: give skill names or --snapshot ID; `hermes-lab skills history` lists the ids")
    store = find_store(library)
    broken = store.broken()
    if snapshot:
        whole = full_snapshot(store, snapshot)
        past = store.at(whole)
        _change(store, lambda _: past, "user", f"restored {whole}", json, quiet, over_broken=True)
    else:
        wanted = skills or []
        reason = f"restored {', '.join(wanted)}"
        _change(store, lambda now: _restored(store, now, wanted, broken), "user", reason, json, quiet, over_broken=True)
    if (replaced := sorted(broken.keys() & store.load().skills)) and not quiet and not json:
        output.say(f"{', '.join(replaced)}: the broken files are kept in {store.aside}")


def curate(
    library: Lib = "",
    apply: Annotated[bool, typer.Option("--apply", help="Carry out the proposals.")] = False,
    config: options.Config = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills curate`."""
    store = find_store(library) if apply else None
    ref = find(library)
    proposals = _proposals(ref, load_config(config or []).skills)

    def make(now: Library) -> Library:
        if now.snapshot != ref.library.snapshot:
            raise ConfigError(f"{ref.name}: changed in the meantime, so nothing was done; run the command again")
        return curator.carry_out(now, proposals)

    if json and not apply:
        print_json({"library": ref.name, "proposals": proposals, "broken": ref.broken})
        return
    if not json:
        rows = [(proposal.action, ", ".join(proposal.names), proposal.why) for proposal in proposals]
        for line in table(("DO", "SKILLS", "WHY"), rows) if rows else ():
            typer.echo(line)
    if not quiet and not json:
        left_out(ref)
    if store and proposals:
        reason = f"curated: {counted(len(proposals), 'proposal')}"
        _change(store, make, "curator", reason, json, quiet)
    elif not quiet:
        apply_it = "; use --apply to carry this out" if ref.store else ""
        output.say(f"nothing was changed{apply_it}" if proposals else "nothing to do")


def install(
    source: Source,
    skills: MaybeNames = None,
    library: In = "",
    ref: Annotated[str, typer.Option(help="A branch or tag of the Git URL.", show_default=False)] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace existing skills of the same name.")] = False,
    no_tests: NoTests = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills install`."""
    store = find_store(library)
    say = output.say_nothing if quiet or json else output.say
    fetched = hub.fetch(source, say=say, ref=ref)
    ready = hub.choose(fetched, skills or (), say=lambda line: say(printable(line)))
    if not no_tests:
        _must_pass(ready)
    commit = f" at {fetched.commit[:12]}" if fetched.commit else ""
    reason = f"installed {', '.join(skill.name for skill in ready)} from {fetched.source}{commit}"
    _change(store, lambda now: hub.add(now, ready, replace=replace), "installed", reason, json, quiet)


def update(
    skills: MaybeNames = None,
    library: In = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Also update skills with local changes, which are lost.")
    ] = False,
    no_tests: NoTests = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills update`."""
    store = find_store(library)
    say = output.say_nothing if quiet or json else output.say
    now = store.load()
    wanted = [now.skills[check_skill_name(now, name, store.broken())] for name in skills or now.skills]
    origins = hub.sources(wanted)
    if skills and (others := [skill.name for skill in wanted if hub.source_of(skill) is None]):
        raise ConfigError(f"{', '.join(others)}: not installed from a folder or URL, so there is nothing to update")
    if not origins and not json:
        if not quiet:
            output.say("no skill here was installed from a folder or URL, so there is nothing to update")
        return
    ready: list[Skill] = []
    for (source, ref), mine in origins.items():
        fetched = hub.fetch(source, say=say, ref=ref)
        again = hub.newer(fetched, mine, edited=replace)
        if not replace and (edited := [skill.name for skill in mine if skill.name in again and hub.edited(skill)]):
            raise ConfigError(f"{', '.join(edited)}: has local changes; --replace discards them")
        if again:
            ready += hub.choose(fetched, again, say=lambda line: say(printable(line)))
    if not no_tests:
        _must_pass(ready)
    reason = f"updated {', '.join(skill.name for skill in ready) or 'nothing'}"
    _change(store, lambda now: hub.add(now, ready, replace=True), "installed", reason, json, quiet)


def _must_pass(skills: Iterable[Skill]) -> None:
    """Raises `ConfigError` naming every skill whose own tests fail."""
    found = skill_tests.failures(skills, instead="--no-tests installs the skills untested")
    if found:
        refused = "; ".join(f"{name}/{problem}" for name, problem in found.items())
        raise ConfigError(f"nothing was installed: {printable(refused)}; --no-tests installs them anyway")


def _proposals(ref: LibraryRef, config: SkillsConfig) -> list[curator.Proposal]:
    with ref.index(config) as index:
        problems = {entry.name: entry.problems for entry in index.entries()}
    changes = list(ref.store.history()) if ref.store else []
    return upkeep.proposals(ref.library, ref.uses(), changes, problems, config)


def _mark(library: str, skills: list[str], done: str, marks: dict[str, str], json: bool, quiet: bool) -> None:
    def make(now: Library) -> Library:
        for name in skills:
            now = now.with_skill(skill_format.marked(now.skills[check_skill_name(now, name, broken)], **marks))
        return now

    store = find_store(library)
    broken = store.broken()
    _change(store, make, "user", f"{done} {', '.join(skills)}", json, quiet)


def _restored(store: SkillStore, now: Library, names: Iterable[str], broken: Mapping[str, str]) -> Library:
    """The library with the named skills active again; deleted ones are restored in their last version."""
    for name in names:
        if name not in now.skills and (skill := _last(store, name)):
            now = now.with_skill(skill)
        now = merged_skill.restore(now, check_skill_name(now, name, broken))
    return now


def _last(store: SkillStore, name: str) -> Skill | None:
    """The last version of a deleted skill."""
    for change in reversed(list(store.history())):
        if change.changed.get(name) == "":
            return store.at(change.before).skills[name]
    return None


def _change(
    store: SkillStore,
    make: Callable[[Library], Library],
    origin: Origin,
    reason: str,
    json: bool,
    quiet: bool,
    *,
    over_broken: bool = False,
) -> None:
    """Makes a change under the store's lock and prints how to undo it."""
    change = store.change(make, origin=origin, reason=reason, over_broken=over_broken)
    if json:
        print_json({"library": str(store.root), "before": change.before, "after": change.after, "reason": reason})
    elif not quiet and change.before == change.after:
        output.say("nothing changed: already in this state")
    elif not quiet:
        where = "" if store.root == home_skills() else f" --in {shlex.quote(str(store.root))}"
        output.say(f"{reason}; undo with: hermes-lab skills restore --snapshot {change.before}{where}")
