"""`skills`: commands that change a library: pin, unpin, archive, restore, curate."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated

import typer

from hermes_lab.analysis.libraries import (
    LibraryRef,
    find,
    find_store,
    full_snapshot,
    home_skills,
)
from hermes_lab.config.schema import SkillsConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.skills_look import In, Lib, left_out, names
from hermes_lab.runners.tables import table
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.curator import curate as curator
from hermes_lab.skills.curator import merged_skill, upkeep
from hermes_lab.skills.library import Library, check_skill_name
from hermes_lab.skills.storage.history import Change
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.text.counted import counted
from hermes_lab.types import Skill
from hermes_lab.types.skill import Origin

Names = Annotated[list[str], typer.Argument(help="Skills' names.", show_default=False, autocompletion=names)]
MaybeNames = Annotated[
    list[str] | None, typer.Argument(help="Skills' names.", show_default=False, autocompletion=names)
]


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
        change(store, lambda _: past, "user", f"restored {whole}", json, quiet, over_broken=True)
    else:
        wanted = skills or []
        reason = f"restored {', '.join(wanted)}"
        change(store, lambda now: _restored(store, now, wanted, broken), "user", reason, json, quiet, over_broken=True)
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
        output.print_json({"library": ref.name, "proposals": proposals, "broken": ref.broken})
        return
    if not json:
        rows = [(proposal.action, ", ".join(proposal.names), proposal.why) for proposal in proposals]
        for line in table(("DO", "SKILLS", "WHY"), rows) if rows else ():
            typer.echo(line)
    if not quiet and not json:
        left_out(ref)
    if store and proposals:
        reason = f"curated: {counted(len(proposals), 'proposal')}"
        change(store, make, "curator", reason, json, quiet)
    elif not quiet:
        apply_it = "; use --apply to carry this out" if ref.store else ""
        output.say(f"nothing was changed{apply_it}" if proposals else "nothing to do")


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
    change(store, make, "user", f"{done} {', '.join(skills)}", json, quiet)


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


def change(
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
    made = store.change(make, origin=origin, reason=reason, over_broken=over_broken)
    show_change(store, made, json=json, quiet=quiet)


def show_change(
    store: SkillStore, made: Change, *, json: bool, quiet: bool, more: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Prints what was changed, and how to undo it; `more` is added to the JSON."""
    if json:
        output.print_json(
            {"library": str(store.root), "before": made.before, "after": made.after, "reason": made.reason, **more}
        )
    elif not quiet and made.before == made.after:
        output.say("nothing changed: already in this state")
    elif not quiet:
        where = "" if store.root == home_skills() else f" --in {shlex.quote(str(store.root))}"
        output.say(f"{made.reason}; undo with: hermes-lab skills restore --snapshot {made.before}{where}")
