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
from hermes_lab.models.weights import Say
from hermes_lab.sessions import hermes_home
from hermes_lab.skills import format as skill_format
from hermes_lab.skills import install as skill_install
from hermes_lab.skills.install import Installed
from hermes_lab.skills.look import look
from hermes_lab.skills.storage import catalog, hub
from hermes_lab.skills.storage.catalog import Offer
from hermes_lab.skills.storage.index import Entry, Index
from hermes_lab.skills.waiting import check_cancelled

T = TypeVar("T")
_HITS = 5
_CHARS = 80
_LISTED = "prompts list them from the next session on"
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
    if asked.words:
        raise ConfigError(
            "/skills list takes no arguments; /skills search WORDS searches, /skills inspect NAME reads one"
        )
    listed = context.chat.library.listed
    width = max(map(len, listed), default=0)
    lines = [f"/{name:<{width}}  {shorten(skill.description, _CHARS)}" for name, skill in listed.items()]
    return Reply("\n".join(lines) or "no skills yet")


async def _search(context: CommandContext, asked: _Asked) -> Reply:
    query, refresh = " ".join(asked.words), "--refresh" in asked.flags
    if not query:
        raise ConfigError("/skills search: say what the skill should be about")
    sources, library = context.chat.config.skills.sources, context.chat.library.skills

    def work(say: Say) -> tuple[list[Entry], list[Offer], list[str], list[str]]:
        found, failed = catalog.catalogs(sources, hermes_home(), refresh=refresh, say=say)
        offers = [hit.offer for hit in catalog.search(query, found, _HITS) if hit.offer.name not in library]
        with Index.of(context.chat.skill_store) as index:
            hits = [hit.entry for hit in index.search(query, _HITS) if hit.score >= catalog.FLOOR]
        unknown = [] if refresh else [each for each in sources if catalog.cached(each, hermes_home()) is None]
        return [entry for entry in hits if entry.name in library], offers, failed, unknown

    mine, offers, failed, unknown = await _in_thread(context, work)
    lines = [f"/{entry.name}: {entry.description}" for entry in mine]
    lines = lines or ["no skill found" if not offers else "none of yours"]
    if offers:
        lines += ["", "to install:", *(f"/skills install {offer.install}: {offer.description}" for offer in offers)]
    lines += [f"not searched: {why}" for why in failed]
    if unknown:
        lines += [f"not fetched yet: {', '.join(unknown)}; /skills search {query} --refresh searches there, too"]
    return Reply("\n".join(lines).strip())


async def _inspect(context: CommandContext, asked: _Asked) -> Reply:
    if not 1 <= len(asked.words) <= 2:
        raise ConfigError("/skills inspect: give a skill, or a source of skills and perhaps the name of one")
    wanted, name = (*asked.words, "")[:2]
    if not name and (skill := context.chat.library.skills.get(wanted.removeprefix("/"))):
        return Reply(skill_format.shown(skill))
    if not any(mark in wanted for mark in "/:."):
        offers = await anyio.to_thread.run_sync(_offers, context)
        known = "".join(
            f"; one to install: /skills inspect {offer.install}" for offer in offers if offer.name == wanted
        )
        raise ConfigError(f"no skill {wanted!r}{known or '; /skills lists them'}")
    looked = await _in_thread(context, lambda say: look(wanted, name, say=say))
    if looked.whole:
        (read,) = looked.skills
        files = [f"{path}  {size:,} bytes" for path, size in read.files.items()]
        return Reply("\n".join([read.text.rstrip(), "", *files, *_found([*read.errors, *read.warnings])]).rstrip())
    lines = [f"{each.name}: {each.description}{f' ({each.found})' if each.found else ''}" for each in looked.skills]
    lines += [line for each in looked.skills for line in _found(each.errors)]
    return Reply("\n".join([*lines, *(f"cannot be read: {why}" for why in looked.broken.values())]))


def _found(problems: Sequence[str]) -> list[str]:
    return [f"found: {problem}" for problem in problems]


def _offers(context: CommandContext) -> list[Offer]:
    """What the sources had when they were last fetched."""
    kept = [catalog.cached(source, hermes_home()) for source in context.chat.config.skills.sources]
    return [offer for each in kept if each is not None for offer in each.offers]


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
    what = "updated" if asked.action == "update" else "installed"
    lines = [f"{what}: {', '.join(done.names)}"] if done.names else []
    lines += [f"not {what}: {name} ({why})" for name, why in done.refused.items()]
    if not done.names:
        return Reply("\n".join(lines) or "nothing changed: already up to date")
    taken = [name for name in done.names if context.registry.find(name)]
    lines += [f"/{name} is a command of the chat, so only the agent can load the skill {name}" for name in taken]
    named = ", ".join(f"/{name}" for name in done.names if name not in taken)
    lines.append("; ".join(filter(None, [named and f"usable now as {named}", _LISTED])))
    return Reply("\n".join(lines))


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
    skills = context.chat.library.skills
    return [
        *_FLAGS,
        *(f"inspect {name}" for name in skills),
        *(f"install {offer.install}" for offer in _offers(context) if offer.name not in skills),
        *(f"update {name}" for name, skill in skills.items() if hub.source_of(skill)),
    ]


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
/skills inspect NAME              reads a skill
/skills inspect SOURCE [NAME]     lists what a source has, or reads a skill of it, with what the scan finds
/skills install SOURCE [NAME...]  a folder, USER/REPO/SKILL or a Git URL; --force, --replace, --no-tests
/skills update [NAME...]          from where they were installed; --force, --replace, --no-tests""",
)
