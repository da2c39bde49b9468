"""`/skills`."""

import shlex
from collections.abc import Callable, Sequence
from textwrap import shorten
from typing import NamedTuple, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.sessions import hermes_home
from hermes_lab.skills import format as skill_format
from hermes_lab.skills import install as skill_install
from hermes_lab.skills.compiled.validate import check_skill
from hermes_lab.skills.install import Installed
from hermes_lab.skills.storage import catalog, hub
from hermes_lab.skills.waiting import check_cancelled
from hermes_lab.types import Skill

Say = Callable[[str], None]
T = TypeVar("T")
_HITS = 5
_CHARS = 80
_FLAGS = {
    "list": (),
    "search": ("--refresh",),
    "inspect": (),
    "install": ("--force", "--replace", "--no-tests"),
    "update": ("--force", "--replace", "--no-tests"),
}
"""The actions, and the options of each."""


class _Asked(NamedTuple):
    action: str
    words: tuple[str, ...]
    flags: frozenset[str]


async def _run(context: CommandContext, arguments: str) -> Reply:
    asked = _parsed(arguments)
    try:
        if asked.action == "search":
            return await _search(context, asked)
        if asked.action == "inspect":
            return await _inspect(context, asked)
        if asked.action in ("install", "update"):
            return await _change(context, asked)
    except InfraError as error:  # a sandbox for tests, or the disk; the chat goes on
        raise ConfigError(" ".join(str(error).split())) from None
    listed = context.chat.library.listed
    width = max(map(len, listed), default=0)
    lines = [f"/{name:<{width}}  {shorten(skill.description, _CHARS)}" for name, skill in listed.items()]
    return Reply("\n".join(lines) or "no skills yet")


async def _search(context: CommandContext, asked: _Asked) -> Reply:
    query, refresh = " ".join(asked.words), "--refresh" in asked.flags
    if not query:
        raise ConfigError("/skills search: say what the skill should be about")
    sources, library = context.chat.config.skills.sources, context.chat.library.listed
    found, failed = await _in_thread(
        context, lambda say: catalog.catalogs(sources, hermes_home(), refresh=refresh, say=say)
    )
    mine = catalog.Catalog("", "", "", tuple(catalog.Offer(s.name, s.description, "") for s in library.values()))
    lines = [f"/{hit.offer.name}: {hit.offer.description}" for hit in catalog.search(query, [mine], _HITS)]
    offers = [hit.offer for hit in catalog.search(query, found, _HITS) if hit.offer.name not in library]
    lines = lines or ["no skill found" if not offers else "none of yours"]
    if offers:
        lines += ["", "to install:", *(f"/skills install {offer.install}: {offer.description}" for offer in offers)]
    lines += [f"not searched: {why}" for why in failed]
    known = {each.source for each in found} if refresh else set()
    if unknown := [s for s in sources if not refresh and catalog.cached(s, hermes_home()) is None and s not in known]:
        lines += [f"not fetched yet: {', '.join(unknown)}; /skills search {query} --refresh searches there, too"]
    return Reply("\n".join(lines).strip())


async def _inspect(context: CommandContext, asked: _Asked) -> Reply:
    if not asked.words:
        raise ConfigError("/skills inspect: give a skill, or a source of skills")
    wanted, *names = asked.words
    if skill := context.chat.library.skills.get(wanted.removeprefix("/")):
        return Reply(skill_format.shown(skill))
    if not any(mark in wanted for mark in "/:."):
        raise ConfigError(f"no skill {wanted!r}; /skills lists them")
    fetched = await _in_thread(context, lambda say: hub.fetch(wanted, say=say))
    chosen = [skill for skill in fetched.skills if skill.name in names or not names]
    if missing := set(names) - {skill.name for skill in chosen}:
        raise ConfigError(f"{fetched.source}: has no {', '.join(sorted(missing))}")
    if len(chosen) == 1:
        return Reply("\n".join([skill_format.shown(chosen[0]), *_findings(chosen[0])]))
    lines = [f"{skill.name}: {skill.description}" for skill in chosen]
    lines += [line for skill in chosen for line in _findings(skill)]
    return Reply("\n".join([*lines, *(f"cannot be read: {why}" for why in fetched.broken.values())]))


def _findings(skill: Skill) -> list[str]:
    return [f"found: {hub.described(skill, each)}" for each in check_skill(skill) if each.severity == "error"]


async def _change(context: CommandContext, asked: _Asked) -> Reply:
    if asked.action == "install" and not asked.words:
        raise ConfigError("/skills install: give a source: a folder, USER/REPO/SKILL or a Git URL")
    store, flags = context.chat.skill_store, asked.flags
    replace, force, tests = "--replace" in flags, "--force" in flags, "--no-tests" not in flags

    def work(say: Say) -> Installed | None:
        if asked.action == "update":
            return skill_install.update(store, asked.words, replace=replace, force=force, tests=tests, say=say)
        source, *names = asked.words
        return skill_install.install(store, source, names, replace=replace, force=force, tests=tests, say=say)

    done = await _in_thread(context, work)
    if done is None:
        return Reply("no skill here was installed from a folder or URL, so there is nothing to update")
    with anyio.CancelScope(shield=True):  # the skills are on the disk, so they are used and told, even after Ctrl-C
        await context.chat.reload_skills()
    lines = [f"not {asked.action}{'d' if asked.action == 'update' else 'ed'}: {why}" for why in done.refused.values()]
    if not done.names:
        return Reply("\n".join([*lines, "nothing changed: already up to date" if not lines else ""]).strip())
    named = ", ".join(f"/{name}" for name in done.names)
    return Reply("\n".join([*lines, f"usable now as {named}; prompts list them from the next session on"]))


async def _in_thread(context: CommandContext, work: Callable[[Say], T]) -> T:
    """Does blocking work in a thread. It ends soon after it is cancelled; a change that has begun is finished."""

    def say(line: str) -> None:
        check_cancelled()
        anyio.from_thread.run_sync(context.chat.surface.note, line)

    return await anyio.to_thread.run_sync(work, say)


def _parsed(arguments: str) -> _Asked:
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise ConfigError(f"/skills: {error}") from None
    action, *rest = words or ["list"]
    if action not in _FLAGS:
        raise ConfigError(f"no action {action!r}; use {', '.join(_FLAGS)}, or `hermes-lab skills` in a shell")
    flags = frozenset(word for word in rest if word.startswith("--"))
    if unknown := flags.difference(_FLAGS[action]):
        allowed = ", ".join(_FLAGS[action]) or "none"
        raise ConfigError(f"/skills {action}: no option {min(unknown)}; there are: {allowed}")
    return _Asked(action, tuple(word for word in rest if word not in flags), flags)


def _arguments(context: CommandContext) -> Sequence[str]:
    names = context.chat.library.listed
    return [*_FLAGS, *(f"{action} {name}" for action in ("inspect", "update") for name in names)]


COMMAND = Command(
    "skills",
    "List, search, show, install or update skills",
    "Tools and skills",
    _run,
    hint="[search|inspect|install|update ...]",
    arguments=_arguments,
    details="""\
/skills                           the skills that prompts list
/skills search WORDS [--refresh]  among yours and in skills.sources; --refresh fetches those first
/skills inspect NAME OR SOURCE    reads a skill, or lists what a source has and what the scan finds
/skills install SOURCE [NAME...]  a folder, USER/REPO/SKILL or a Git URL; --force, --replace, --no-tests
/skills update [NAME...]          from where they were installed; --force, --replace, --no-tests""",
)
