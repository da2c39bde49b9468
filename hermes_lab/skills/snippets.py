"""Finds the commands in a skill that are run when a person loads it, and the places for that person's arguments.

The syntax is that of Claude Code: ``!`command` `` at the start of a line or after a blank, a fenced block that opens
with ```` ```! ````, `$ARGUMENTS`, `$ARGUMENTS[0]` and `$1`.
"""

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from hermes_lab.errors import SandboxError
from hermes_lab.protocols import Sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.frontmatter import split
from hermes_lab.types import Skill

_SECONDS = 30.0
_CHARS = 4000

_INLINE = re.compile(r"(?<![^\s(>|])!`(?P<command>[^`\n]+)`")
_PLACES = (
    r"\$ARGUMENTS\[(?P<index>\d+)\]|(?P<all>\$ARGUMENTS\b)|\$(?P<number>\d{{1,2}})(?!\w|[.,]\d)"
    r"|\$(?P<name>{names})(?![\w-])|(?P<folder>\$\{{(?:CLAUDE|HERMES)_SKILL_DIR\}})"
)
FOLDER_PLACE = re.compile(r"\$\{(?:CLAUDE|HERMES)_SKILL_DIR\}")
"""The place for the folder with the skill's files."""
_FROM_ZERO = re.compile(r"\$0(?![\w.,]*\d|\w)")
_POSITION = re.compile(r"\$\d")
_FENCE = re.compile(r"^[ \t]*(?P<mark>```+|~~~+)(?P<info>[^\n`]*)$", re.MULTILINE)


class Snippet(NamedTuple):
    """A command, the part of the text that its output replaces, and the line of the text, from 1."""

    command: str
    start: int
    end: int
    line: int


def snippets(text: str) -> list[Snippet]:
    """Returns the commands of a SKILL.md in order. Other code blocks are not commands."""
    found = []
    at = 0
    for start, end, info in [*code_blocks(text), (len(text), len(text), "")]:
        for match in _INLINE.finditer(text, at, start):
            found.append(_snippet(text, match["command"], match.start(), match.end()))
        if info == "!":
            inside = text[start:end].split("\n")[1:-1]
            found.append(_snippet(text, "\n".join(inside), start, end))
        at = end
    return found


def code_blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields where fenced code blocks start and end, with what stands behind their opening mark."""
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match["mark"].startswith(opened["mark"]) and not match["info"].strip():
            yield opened.start(), match.end(), opened["info"].strip()
            opened = None
    if opened is not None:
        yield opened.start(), len(text), ""


def _snippet(text: str, command: str, start: int, end: int) -> Snippet:
    return Snippet(command.strip(), start, end, text.count("\n", 0, start) + 1)


class Arguments(NamedTuple):
    """What a person typed behind a skill's name: the whole `text`, its `words` (quotes keep blanks), and by `names`, as
    the frontmatter's `arguments` has them. The first word is number `first`: `$1`, or `$0` in skills that use that."""

    text: str
    words: tuple[str, ...]
    names: dict[str, str]
    first: int


class Filled(NamedTuple):
    """A SKILL.md with its places filled and its commands replaced by their output.

    `filled`: whether it has a place for arguments. `note` tells the person of the commands.
    """

    text: str
    filled: bool
    note: str = ""


def arguments_of(skill: Skill, text: str) -> Arguments:
    """Splits a person's arguments for a skill. An unmatched quote is a character like any other."""
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        words = tuple(text.split())
    named = skill_format.fields(skill).get("arguments")
    names = named if isinstance(named, list) else str(named or "").split()
    body = skill_format.body(skill)
    return Arguments(text, words, dict(zip(map(str, names), words, strict=False)), 0 if _FROM_ZERO.search(body) else 1)


async def expanded(skill: Skill, arguments: Arguments, folder: str, sandbox: Sandbox | None) -> Filled:
    """Fills in the arguments and runs the commands of a skill, whose files are in `folder`; None runs no command.

    Arguments reach commands as variables of the shell, and neither they nor an output are expanded again.
    """
    shown = skill_format.shown(skill).replace("\r\n", "\n")  # as `split` reads it
    start = len(shown) - len(split(shown).body)
    found = [snippet for snippet in snippets(shown) if snippet.start >= start]
    code = [(begin, end) for begin, end, _ in code_blocks(shown)]
    parts, at, failed, used = [shown[:start]], start, 0, False
    for snippet in found:
        text, filled = _filled(shown, at, snippet.start, code, arguments, folder)
        output, ok = await _output(snippet.command, arguments, folder, sandbox)
        parts += [text, output]
        used = used or filled or "ARGUMENTS" in snippet.command or bool(_POSITION.search(snippet.command))
        failed += not ok
        at = snippet.end
    text, filled = _filled(shown, at, len(shown), code, arguments, folder)
    count = f"{len(found)} command{'s' * (len(found) != 1)}"
    if sandbox is None and found:
        note = f"{count} of the skill did not run (skills.inline_shell)"
    else:
        note = f"{count} of the skill ran{f', {failed} failed' if failed else ''}" if found else ""
    return Filled("".join([*parts, text]), used or filled, note)


def _filled(
    text: str, start: int, end: int, code: list[tuple[int, int]], arguments: Arguments, folder: str
) -> tuple[str, bool]:
    """Fills the places between two positions of a text. In code blocks, `$1` belongs to the code."""
    used = False

    def value(match: re.Match[str]) -> str:
        nonlocal used
        if match["folder"]:
            return folder
        if match["name"]:
            found = arguments.names.get(match["name"])
        elif match["all"]:
            found = arguments.text
        elif match["number"] and any(begin <= start + match.start() < stop for begin, stop in code):
            return match[0]
        else:
            at = int(match["index"] or match["number"]) - (0 if match["index"] else arguments.first)
            found = arguments.words[at] if 0 <= at < len(arguments.words) else None
        used = used or found is not None
        return match[0] if found is None else found

    names = "|".join(sorted(map(re.escape, arguments.names), key=len, reverse=True)) or r"(?!)"
    places = re.compile(_PLACES.format(names=names))
    return places.sub(value, text[start:end]), used


async def _output(command: str, arguments: Arguments, folder: str, sandbox: Sandbox | None) -> tuple[str, bool]:
    """The output of a command, or what became of it; and whether it succeeded."""
    if sandbox is None:
        return f"[not run: {command}]", False
    variables = {"ARGUMENTS": arguments.text, "CLAUDE_SKILL_DIR": folder, "HERMES_SKILL_DIR": folder}
    variables |= {f"ARGUMENTS_{number}": word for number, word in enumerate(arguments.words)}
    variables |= {name: word for name, word in arguments.names.items() if re.fullmatch(r"[a-z][a-z0-9_]*", name)}
    assigned = [f"{name}={word}" for name, word in variables.items()]
    numbered = re.sub(r"\$\{?ARGUMENTS\[(\d+)\]\}?", r"${ARGUMENTS_\1}", command)
    line = ["env", *assigned, "bash", "-c", numbered, *(["bash"] * arguments.first), *arguments.words]
    try:
        result = await sandbox.exec(shlex.join(line), timeout=_SECONDS, fresh=True)
    except SandboxError as error:
        return f"[not run: {command}: {error}]", False
    text = result.output.strip()
    if len(text) > _CHARS:
        text = f"{text[:_CHARS]}\n[... {len(text) - _CHARS} characters cut]"
    if result.timed_out:
        return f"{text}\n[the command took longer than {_SECONDS:g} s: {command}]".lstrip(), False
    if result.exit_code:
        return f"{text}\n[the command failed with exit code {result.exit_code}: {command}]".lstrip(), False
    return text, True
