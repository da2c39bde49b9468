"""`skills`: commands that bring skills from elsewhere: inspect, install, update, sync."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.commands.skills_change import MaybeNames, change
from hermes_lab.runners.commands.skills_look import In, print_json
from hermes_lab.runners.engine import skill_tests
from hermes_lab.runners.engine.libraries import check_skill_name, find_store
from hermes_lab.runners.tables import counted, printable, table
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.validate import check_skill
from hermes_lab.skills.storage import bundled, hub
from hermes_lab.skills.storage.sources import FORMS
from hermes_lab.types import Skill

Source = Annotated[str, typer.Argument(help=f"{FORMS[0].upper()}{FORMS[1:]}.", show_default=False)]
Ref = Annotated[str, typer.Option(help="A branch, tag or commit of the repository.", show_default=False)]
NoTests = Annotated[bool, typer.Option("--no-tests", help="Skip the skills' own tests, e.g. if there is no sandbox.")]
Force = Annotated[
    bool, typer.Option("--force", help="Take skills in which the scan found something. The findings are shown.")
]


def inspect(
    source: Source,
    name: Annotated[str, typer.Argument(help="A skill of the source, to read it.", show_default=False)] = "",
    ref: Ref = "",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """`hermes-lab skills inspect`."""
    fetched = hub.fetch(source, say=output.say_nothing if quiet or json else output.say, ref=ref)
    if not name and len(fetched.skills) == 1 and not fetched.broken:
        name = fetched.skills[0].name
    rows = [_looked_at(skill) for skill in fetched.skills if name in ("", skill.name)]
    if name and not rows:
        known = ", ".join(skill.name for skill in fetched.skills)
        raise ConfigError(fetched.broken.get(name, f"{fetched.source}: has no {name}; it has: {known}"))
    if json:
        broken = {} if name else fetched.broken
        print_json({"source": fetched.source, "commit": fetched.commit, "skills": rows, "broken": broken})
        return
    if name:
        typer.echo(printable(rows[0]["text"], keep="\n\t").rstrip())
        for path in rows[0]["files"]:
            typer.echo(f"\n{printable(path)}")
    else:
        for line in table(("NAME", "FINDINGS", "DESCRIPTION"), [_row(row) for row in rows]):
            typer.echo(line)
    for row in rows:
        for finding in row["errors"] + (row["warnings"] if name else []):
            output.say(f"found: {printable(finding)}")
    for why in () if name else fetched.broken.values():
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
    """`hermes-lab skills install`. Exits 1 if a skill that was named is not installed."""
    store = find_store(library)
    say = output.say_nothing if quiet or json else output.say
    fetched = hub.fetch(source, say=say, ref=ref)
    chosen, findings = _choose(fetched, skills or (), force, say, quiet=quiet or json)
    refused = chosen.refused | hub.taken(store.load(), [skill.name for skill in chosen.ready], replace=replace)
    ready = [skill for skill in chosen.ready if skill.name not in refused]
    if not no_tests:
        ready, refused = _tested(ready, refused)
    if not ready:
        raise ConfigError(f"nothing was installed: {_reasons(refused)}")
    commit = f" at {fetched.commit[:12]}" if fetched.commit else ""
    reason = f"installed {', '.join(skill.name for skill in ready)} from {fetched.source}{commit}"
    more = {"installed": [skill.name for skill in ready], "refused": refused, "findings": findings}
    change(store, lambda now: hub.add(now, ready, replace=replace), "installed", reason, json, quiet, more=more)
    _tell(refused, "not installed", json)
    return 1 if refused and skills else 0


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
    store = find_store(library)
    say = output.say_nothing if quiet or json else output.say
    now = store.load()
    wanted = [now.skills[check_skill_name(now, name, store.broken())] for name in skills or now.skills]
    if skills and (others := [skill.name for skill in wanted if hub.source_of(skill) is None]):
        raise ConfigError(f"{', '.join(others)}: not installed from a folder or URL, so there is nothing to update")
    origins = hub.sources(wanted)
    if not origins and not json:
        if not quiet:
            output.say("no skill here was installed from a folder or URL, so there is nothing to update")
        return 0
    ready: list[Skill] = []
    refused: dict[str, str] = {}
    findings: list[str] = []
    for (source, ref), mine in origins.items():
        try:
            fetched = hub.fetch(source, say=say, ref=ref, prefer=hub.paths_of(mine))
        except ConfigError as error:
            refused |= {skill.name: f"{skill.name}: {error}" for skill in mine}
            continue
        again = hub.newer(fetched, mine, edited=replace)
        edited = [skill.name for skill in mine if not replace and skill.name in again and hub.edited(skill)]
        refused |= {name: f"{name}: has local changes; --replace discards them" for name in edited}
        if fresh := [name for name in again if name not in edited]:
            chosen, found = _choose(fetched, fresh, force, say, quiet=quiet or json)
            findings += found
            refused |= chosen.refused
            ready += chosen.ready
    refused |= hub.taken(now, [skill.name for skill in ready], replace=True)
    ready = [skill for skill in ready if skill.name not in refused]
    if not no_tests:
        ready, refused = _tested(ready, refused)
    if refused and not ready:
        raise ConfigError(f"nothing was updated: {_reasons(refused)}")
    reason = f"updated {', '.join(skill.name for skill in ready) or 'nothing'}"
    more = {"updated": [skill.name for skill in ready], "refused": refused, "findings": findings}
    change(store, lambda now: hub.add(now, ready, replace=True), "installed", reason, json, quiet, more=more)
    _tell(refused, "not updated", json)
    return 1 if refused else 0


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
        print_json({"library": library, **msgspec.structs.asdict(done)})
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


def _choose(
    fetched: hub.Fetched, names: Sequence[str], force: bool, say: Callable[[str], None], *, quiet: bool
) -> tuple[hub.Chosen, list[str]]:
    """Chooses, and returns the findings that --force overruled; these are shown whatever the options."""
    findings: list[str] = []

    def tell(line: str) -> None:
        if line.startswith("flagged: "):
            findings.append(line.removeprefix("flagged: "))
            if quiet:
                output.say(printable(line))
        say(printable(line))

    return hub.choose(fetched, names, say=tell, force=force), findings


def _tested(ready: Sequence[Skill], refused: Mapping[str, str]) -> tuple[list[Skill], dict[str, str]]:
    """Runs the skills' own tests; those that fail are refused."""
    found = skill_tests.failures(ready, instead="--no-tests installs the skills untested")
    why = {name: f"{name}/{problem}; --no-tests installs it anyway" for name, problem in found.items()}
    return [skill for skill in ready if skill.name not in why], {**refused, **why}


def _reasons(refused: Mapping[str, str]) -> str:
    return printable("; ".join(refused.values()))


def _tell(refused: Mapping[str, str], what: str, json: bool) -> None:
    if refused and not json:
        for why in refused.values():
            output.say(f"{what}: {printable(why)}")
        output.say(f"{counted(len(refused), 'skill')} {what}; `hermes-lab skills inspect` shows what a source has")


def _looked_at(skill: Skill) -> dict[str, Any]:
    problems = check_skill(skill)
    return {
        "name": skill.name,
        "description": skill.description,
        "text": skill_format.shown(skill),
        "files": {path: len(data) for path, data in skill.files.items()},
        "errors": [hub.described(skill, each) for each in problems if each.severity == "error"],
        "warnings": [hub.described(skill, each) for each in problems if each.severity != "error"],
    }


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    counts = (("errors", "flagged"), ("warnings", "warnings"))
    found = ", ".join(f"{len(row[key])} {what}" for key, what in counts if row[key])
    return row["name"], found or "-", row["description"]
