"""`skills`: commands that bring skills from elsewhere: inspect, install, update, sync."""

from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from hermes_lab.analysis.libraries import find_store
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.skills_change import MaybeNames, show_change
from hermes_lab.runners.commands.skills_look import In
from hermes_lab.runners.tables import table
from hermes_lab.skills import install as skill_install
from hermes_lab.skills.install import Installed
from hermes_lab.skills.look import look
from hermes_lab.skills.storage import bundled
from hermes_lab.skills.storage.sources import FORMS
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.text.counted import counted
from hermes_lab.text.printable import printable

Source = Annotated[str, typer.Argument(help=f"{FORMS[0].upper()}{FORMS[1:]}.", show_default=False)]
Ref = Annotated[str, typer.Option(help="A branch, tag or commit of the repository.", show_default=False)]
NoTests = Annotated[bool, typer.Option("--no-tests", help="Skip the skills' own tests, e.g. if there is no sandbox.")]
Force = Annotated[bool, typer.Option("--force", help="Install skills despite findings of the scan, which are shown.")]


def inspect(
    source: Source,
    name: Annotated[str, typer.Argument(help="A skill of the source, to read it.", show_default=False)] = "",
    ref: Ref = "",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills inspect`."""
    looked = look(source, name, ref=ref, say=output.say_nothing if quiet or json else output.say)
    if json:
        fields = msgspec.structs.asdict(looked)
        del fields["whole"]
        output.print_json(fields)
        return
    if looked.whole:
        (skill,) = looked.skills
        typer.echo(printable(skill.text, keep="\n\t").rstrip())
        for path in skill.files:
            typer.echo(f"\n{printable(path)}")
    else:
        rows = [(each.name, each.found or "-", each.description) for each in looked.skills]
        for line in table(("NAME", "FINDINGS", "DESCRIPTION"), rows):
            typer.echo(line)
    for each in looked.skills:
        for finding in each.errors + (each.warnings if looked.whole else []):
            output.say(f"found: {printable(finding)}")
    for why in looked.broken.values():
        output.say(f"cannot be read: {printable(why)}")


def install(
    source: Source,
    skills: MaybeNames = None,
    library: In = "",
    ref: Ref = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace existing skills of the same name.")] = False,
    force: Force = False,
    no_tests: NoTests = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """`hermes-lab skills install`. Exits 1 if one of the skills is not installed."""
    store, say = find_store(library), _say(json, quiet)
    done = skill_install.install(
        store, source, skills or (), ref=ref, replace=replace, force=force, tests=not no_tests, say=say
    )
    _report(store, done, "installed", json, quiet)
    return 1 if done.refused else 0


def update(
    skills: MaybeNames = None,
    library: In = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Also update skills with local changes, which are lost.")
    ] = False,
    force: Force = False,
    no_tests: NoTests = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """`hermes-lab skills update`. Exits 1 if a newer version is not installed."""
    store, say = find_store(library), _say(json, quiet)
    done = skill_install.update(store, skills or (), replace=replace, force=force, tests=not no_tests, say=say)
    if done is None:
        state = store.load().snapshot
        if json:
            output.print_json(
                {"library": str(store.root), "before": state, "after": state, "reason": "updated nothing"}
            )
        elif not quiet:
            output.say("no skill here was installed from a folder or URL, so there is nothing to update")
        return 0
    _report(store, done, "updated", json, quiet)
    return 1 if done.refused else 0


def sync(
    skills: MaybeNames = None,
    library: In = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Also replace skills with local changes, which are lost.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills sync`."""
    done = bundled.sync(find_store(library), skills or (), replace=replace)
    if json:
        output.print_json({"library": library, **msgspec.structs.asdict(done)})
        return
    if quiet:
        return
    for what, names in (("added", done.added), ("updated", done.updated)):
        if names:
            output.say(f"{what}: {', '.join(names)}")
    for name, why in done.kept.items():
        output.say(f"kept: {name} {why}")
    if done.change.before != done.change.after:
        output.say(f"undo with: hermes-lab skills restore --snapshot {done.change.before}")
    else:
        output.say("nothing changed: already up to date")


def _say(json: bool, quiet: bool) -> Callable[[str], None]:
    """Prints progress; what --force overrules is shown even if --quiet asks for silence."""

    def say(line: str) -> None:
        if not json and (not quiet or line.startswith("flagged: ")):
            output.say(line)

    return say


def _report(store: SkillStore, done: Installed, what: str, json: bool, quiet: bool) -> None:
    more = {what: done.names, "refused": done.refused, "findings": done.findings}
    show_change(store, done.change, json=json, quiet=quiet, more=more)
    if done.refused and not json:
        for why in done.refused.values():
            output.say(f"not {what}: {printable(why)}")
        output.say(f"{counted(len(done.refused), 'skill')} not {what}; `hermes-lab skills inspect` shows a source")
