"""The reference of all commands. `python -m hermes_lab.runners.command_page docs/commands.md` writes it."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from hermes_lab.records import write_atomic
from hermes_lab.runners.cli import app

PROGRAM = "hermes-lab"
_TYPES = {"str": "text", "int": "integer", "float": "number"}
_INTRODUCTION = f"""\
# Commands

Every command with its arguments and options, as `--help` prints them. This page is generated from the code:
`python -m hermes_lab.runners.command_page docs/commands.md`.

- `-c` takes a YAML file or `key=value`, any number of times, merged from left to right.
  [Configuration](configuration.md) has every field.
- Exit codes: 0 success; 1 a check has failed, where a command says so; 2 a mistake in the command or configuration;
  3 some episodes errored, a budget is spent, or an endpoint or server failed, and `--resume` continues if there is one;
  130 interrupted, can be resumed.
- `{PROGRAM} --install-completion` adds tab completion to your shell."""


def page() -> str:
    """The page."""
    root = typer.main.get_command(app)
    listed = dict(_commands((), root))
    panels: dict[str, list[str]] = {}
    for name, command in listed.items():
        if " " not in name:
            panels.setdefault(command.rich_help_panel, []).append(name)
    parts = [_INTRODUCTION]
    for title, names in panels.items():
        parts += [
            f"**{title}**",
            "\n".join(["| command | |", "|---|---|", *map(_entry, names, map(listed.get, names))]),
        ]
    parts += [part for names in panels.values() for name in names for part in _group(name, listed)]
    return "\n\n".join(parts) + "\n"


def _commands(path: tuple[str, ...], command: Any) -> Iterator[tuple[str, Any]]:
    """The visible commands below a group, by name, groups included."""
    for name, inner in _inner(command).items():
        if not inner.hidden:
            yield " ".join((*path, name)), inner
            yield from _commands((*path, name), inner)


def _inner(command: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(command, "commands", {})
    return found


def _entry(name: str, command: Any) -> str:
    return f"| [`{name}`](#{_anchor(name)}) | {_cell(_linked(command.short_help).rstrip('.'))} |"


def _anchor(name: str) -> str:
    return f"{PROGRAM} {name}".replace(" ", "-")


def _group(name: str, listed: dict[str, Any]) -> Iterator[str]:
    """The section of a command, or of a group and its commands."""
    yield f"## `{PROGRAM} {name}`"
    yield from _body(listed[name])
    for each in _inner(listed[name]):
        inner = f"{name} {each}"
        if inner in listed:
            yield f"### `{PROGRAM} {inner}`"
            yield from _body(listed[inner])


def _body(command: Any) -> Iterator[str]:
    """What it does, examples, and a table of parameters."""
    examples = []
    for paragraph in _paragraphs(command):
        if _is_example(paragraph):
            examples.append(_example(paragraph))
        else:
            yield from [_fenced(examples)] if examples else []
            examples = []
            yield paragraph
    yield from [_fenced(examples)] if examples else []
    rows = [_row(parameter, command) for parameter in command.params if _is_shown(parameter)]
    if rows and not _inner(command):
        yield "\n".join(["| option | value | default | meaning |", "|---|---|---|---|", *rows])


def _paragraphs(command: Any) -> list[str]:
    """The help text."""
    text = _linked(command.help or "")
    return [" ".join(paragraph.split("\n")) for paragraph in text.split("\n\n")]


def _plain(text: str) -> str:
    """Without the backslashes that keep Rich from reading styles."""
    return text.replace("\\[", "[")


def _linked(text: str) -> str:
    """With links to pages instead of their paths, except where a file is meant."""
    return re.sub(r"(?<!page )(?<!> )\bdocs/([\w-]+)\.md", r"[\1](\1.md)", _plain(text))


def _is_example(paragraph: str) -> bool:
    return bool(re.match(rf"(?:[A-Z_]+=\S+ )*(?:\*/5 \* \* \* \* )?{PROGRAM} ", paragraph))


def _example(paragraph: str) -> str:
    """A command, with its remark as a comment."""
    return re.sub(r" {2,}\((.*)\)$", r"    # \1", paragraph)


def _fenced(examples: list[str]) -> str:
    return "\n".join(["```bash", *examples, "```"])


def _is_shown(parameter: Any) -> bool:
    return not getattr(parameter, "hidden", False) and parameter.name not in ("help", "install_completion")


def _row(parameter: Any, command: Any) -> str:
    flags = [*parameter.opts, *parameter.secondary_opts]
    is_option = flags[0].startswith("-")
    name = ", ".join(f"`{flag}`" for flag in flags) if is_option else f"`{parameter.name.upper()}`"
    default = "required" if parameter.required else _default(parameter)
    cells = (_type(parameter, command), default, _linked(parameter.help or ""))
    return f"| {name} | {' | '.join(map(_cell, cells))} |"


def _type(parameter: Any, command: Any) -> str:
    """The kind of value, "" for a switch. Typer writes it as `<int>`, or as `<a|b>` for a choice."""
    if getattr(parameter, "is_flag", False):
        return ""
    name = parameter.display_type(ctx=command.context_class(command)).strip("<>")
    each = re.sub(r"^list\[(.*)\]$", r"\1", name).removesuffix(" range")
    at_least = f", at least {parameter.min}" if parameter.min is not None else ""
    at_most = f", at most {parameter.max}" if parameter.max is not None else ""
    several = ", repeatable" if parameter.multiple or parameter.nargs == -1 else ""
    return f"{_TYPES.get(each, each)}{at_least}{at_most}{several}"


def _default(parameter: Any) -> str:
    """What `--help` says of the default; a text in its place stands in brackets there."""
    if isinstance(parameter.show_default, str):
        return _plain(parameter.show_default)
    value = getattr(parameter.default, "value", parameter.default)
    return "" if value in (None, "", False, (), []) or not parameter.show_default else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), page())
