"""All slash commands: what a typed line means, help, completion, and the table of the documentation."""

import difflib
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import hermes_lab.commands
from hermes_lab.commands.command import Category, Command, CommandContext

_WORD = re.compile(r"/(?P<name>[A-Za-z?][^\s/]*)(?:\s+(?P<rest>.*))?", re.DOTALL)
_NEAREST = 3
_LIKE = 0.6


class Typed(NamedTuple):
    """What a line means. `command` None: `text` is a message for the agent; a `literal` one loads no skill. Otherwise
    `text` is the arguments. `typed` is what a person typed, if `text` has more, such as the sender."""

    command: Command | None
    text: str
    literal: bool = False
    typed: str = ""


class Unknown(NamedTuple):
    """A line with a `/word` that is neither a command nor a skill. `told` says so, and names the nearest."""

    told: str


class Completion(NamedTuple):
    """What Tab may put in place of the last `length` characters, and a short description."""

    text: str
    length: int
    about: str


class Registry:
    """The commands of one place: those for everywhere, and its own."""

    def __init__(self, place: Literal["terminal", "gateway"]) -> None:
        self.commands = [command for command in all_commands() if command.where in ("everywhere", place)]
        self._by_name = {name: command for command in self.commands for name in (command.name, *command.aliases)}

    def find(self, name: str) -> Command | None:
        """The command of that name or alias."""
        return self._by_name.get(name.lower().replace("_", "-"))

    def read(self, line: str, skills: Iterable[str]) -> Typed | Unknown:
        """What a typed line means. `//text` is the message `/text`; a path such as `/etc/hosts` is text."""
        stripped = line.strip()
        if stripped.startswith("//"):
            return Typed(None, stripped[1:], literal=True)
        if not (match := _WORD.fullmatch(stripped)):
            return Typed(None, line)
        name, known = match["name"], set(skills)
        if command := self.find(name):
            rest = (match["rest"] or "").strip()
            if rest and not command.hint:
                return Unknown(f"/{name} takes no arguments, so nothing was done; //{name} sends the line as text")
            return Typed(command, rest)
        if name in known:
            return Typed(None, line)
        return Unknown(_unknown(name, [*self._by_name, *known]))

    def complete(self, line: str, context: CommandContext) -> Iterator[Completion]:
        """What Tab offers after `line`: names of commands and skills, then its arguments."""
        name, space, rest = line.partition(" ")
        if not name.startswith("/") or name.startswith("//"):
            return
        if not space:
            yield from self._names(name[1:].lower(), context)
        elif (command := self.find(name[1:])) and command.arguments:
            for argument in command.arguments(context):
                if argument.lower().startswith(rest.lower()):
                    yield Completion(argument, len(rest), "")

    def _names(self, begun: str, context: CommandContext) -> Iterator[Completion]:
        for command in self.commands:
            for name in (command.name, *command.aliases):
                if name.startswith(begun):
                    yield Completion(f"/{name}", len(begun) + 1, command.summary)
                    break
        for name, skill in context.chat.library.listed.items():
            if name.startswith(begun):
                yield Completion(f"/{name}", len(begun) + 1, skill.description)

    def by_category(self) -> Iterator[tuple[Category, list[Command]]]:
        """The commands of each category, in order."""
        for category in get_args(Category):
            if commands := [command for command in self.commands if command.category == category]:
                yield category, commands


BUSY = {"now": "runs at once", "after": "waits for the end of the turn", "refuse": "is refused"}
"""What happens to a command while the agent works."""


def all_commands() -> list[Command]:
    """Every command, by category and name. Each module of this package with a `COMMAND` is one."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(hermes_lab.commands.__path__, f"{__package__}.")
    ]
    commands: list[Command] = [module.COMMAND for module in modules if hasattr(module, "COMMAND")]
    order = get_args(Category)
    return sorted(commands, key=lambda command: (order.index(command.category), command.name))


def table() -> str:
    """All commands as a table in Markdown, for the documentation."""
    where = {"everywhere": "everywhere", "terminal": "terminal", "gateway": "chat platforms"}
    rows = [["command", "what it does", "while the agent works", "where"], ["---"] * 4]
    for command in all_commands():
        typed = usage(command).replace("|", r"\|")
        rows.append([f"`{typed}`", command.summary, BUSY[command.busy], where[command.where]])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def usage(command: Command) -> str:
    """How a command is typed."""
    names = "".join(f", /{alias}" for alias in command.aliases)
    return f"/{command.name}{names}{f' {command.hint}' if command.hint else ''}"


def _unknown(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.lower(), names, _NEAREST, _LIKE)
    meant = f"did you mean {' or '.join(f'/{each}' for each in near)}? " if near else "/help lists the commands; "
    return f"no command or skill /{name}: nothing was sent; {meant}//{name} sends it as text"
