"""Reads `config.yaml` of the Hermes home, and merges it with the `-c` options of a chat."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.config.files import read_file
from hermes_lab.config.home import DisplayConfig, HomeConfig
from hermes_lab.config.paths import Problem
from hermes_lab.config.problems import problems_of_merged
from hermes_lab.config.sandboxes import SshConfig
from hermes_lab.config.sources import Merged, Resolved, validated
from hermes_lab.config.yaml_files import Document, plain
from hermes_lab.errors import ConfigError

FILE = "config.yaml"
_At = tuple[str, ...]
_DEFAULTS: dict[str, Any] = {"agent": {"toolsets": ["core"]}}
"""Where a chat differs from a run."""
_MEANT: dict[_At, _At] = {
    ("user", "preferences", "model"): ("model", "name"),
    ("user", "preferences", "personality"): ("personality",),
    **{("user", "preferences", "display", name): ("display", name) for name in DisplayConfig.model_fields},
    ("terminal", "docker", "image"): ("sandbox", "image"),
    ("terminal", "docker", "volumes"): ("sandbox", "volumes"),
    **{("terminal", "ssh", name): ("sandbox", "ssh", name) for name in SshConfig.model_fields},
    **{("terminal", name): ("sandbox", name) for name in ("backend", "timeout", "image", "volumes")},
    ("toolsets", "enabled"): ("agent", "toolsets"),
    ("toolsets", "disabled"): ("agent", "disabled_tools"),
}
"""Other places where the file may set a field, and the field."""
OF_BATCHES = ("judge", "suite", "reward", "env", "run", "learning", "budget", "tracking")
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)\}?")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


def load_home_config(home: Path, sources: Sequence[str]) -> HomeConfig:
    """The configuration of a chat: `config.yaml` of that home if there is one, then the `-c` sources.

    Raises `ConfigError` with the file and line, or the override, that contains the mistake.
    """
    return resolve_home(home / FILE, sources).config


def resolve_home(path: Path, sources: Sequence[str]) -> Resolved[HomeConfig]:
    """As `load_home_config`, for any file, with the origins of the fields."""
    merged, file = _read(path, sources)
    for problem in file.problems:
        raise ConfigError(problem.message)
    found = validated(HomeConfig, merged)
    kept = {at: text for at, text in found.written.items() if at in found.origins and found.origins[at].source == 0}
    return found._replace(written=kept)


def problems_in_home(path: Path, sources: Sequence[str]) -> tuple[list[Problem], Merged]:
    """Everything that is wrong with them, and the merged sources. Raises `ConfigError` for what cannot be read."""
    merged, file = _read(path, sources)
    told = {problem.field for problem in file.problems}
    others = [problem for problem in problems_of_merged(HomeConfig, merged) if problem.field not in told]
    return [*file.problems, *others], merged


class _File(NamedTuple):
    """`written` and `references`: see `Merged`."""

    document: Document
    problems: list[Problem]
    written: dict[_At, str]
    references: dict[str, str]


def _read(path: Path, sources: Sequence[str]) -> tuple[Merged, _File]:
    merged = Merged(HomeConfig, _DEFAULTS)
    # A link to nowhere is an error, not a missing file.
    document = read_file(path) if os.path.lexists(path) else Document({}, {})
    file = _replaced(path, *_allowed(path, *_moved(path, document)), os.environ)
    merged.written, merged.references = file.written, file.references
    merged.add_document(path, file.document)
    for source in sources:
        merged.add(source)
    return merged, file


def _moved(path: Path, document: Document) -> tuple[Document, list[Problem]]:
    """The document with each value in its own field."""
    content, lines = document.content, dict(document.lines)
    problems: list[Problem] = []
    for old, new in _MEANT.items():
        if not _has(content, old):
            continue
        if _has(content, new):
            other = lines.get(new)
            mend = f"{'.'.join(new)} is set, too{f', in line {other}' if other else ''}; keep one of the two"
            problems.append(_problem(path, lines, old, mend))
            content = _without(content, old)
            continue
        value = content
        for part in old:
            value = value[part]
        content = _with(_without(content, old), new, value)
        for at, line in document.lines.items():
            if at[: len(old)] == old:
                lines[*new, *at[len(old) :]] = line
                for depth in range(1, len(new)):
                    lines.setdefault(new[:depth], line)
    for emptied in (
        ("user", "preferences", "display"),
        ("toolsets",),
        ("terminal", "docker"),
        ("terminal", "ssh"),
        ("terminal",),
    ):
        if _at(content, emptied) == {}:
            content = _without(content, emptied)
    return Document(content, lines), problems


def _allowed(path: Path, document: Document, problems: list[Problem]) -> tuple[Document, list[Problem]]:
    """The document without sections that do not belong here."""
    reasons = dict.fromkeys(OF_BATCHES, "is for batches, which do not read this file; remove it")
    reasons["toolsets"] = "set agent.toolsets and agent.disabled_tools"
    reasons["terminal"] = "set the fields of `sandbox` (docs/backends.md)"
    found = [_problem(path, document.lines, (name,), reasons[name]) for name in document.content if name in reasons]
    content = {name: value for name, value in document.content.items() if name not in reasons}
    return document._replace(content=content), [*problems, *found]


def _replaced(path: Path, document: Document, problems: list[Problem], environment: Mapping[str, str]) -> _File:
    """The document with the environment's values. Request headers and variables of MCP servers stay as they are: the
    client replaces them, and hides the values in its messages."""
    written: dict[_At, str] = {}
    references: dict[str, str] = {}
    found = list(problems)

    def replaced(value: Any, at: _At) -> Any:
        if isinstance(value, dict):
            return {key: replaced(each, (*at, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [replaced(each, (*at, str(number))) for number, each in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        if wrong := next(_unusable(value, environment), ""):
            found.append(_problem(path, document.lines, at, wrong))
            return value
        if "headers" in at or (at[0] == "mcp" and "env" in at):
            return value
        written[at] = value
        names = {match["name"] for match in _REFERENCE.finditer(value) if match["name"]}
        references.update({environment[name]: f"${{{name}}}" for name in names})
        whole = _REFERENCE.sub(lambda match: environment[match["name"]] if match["name"] else "${", value)
        references[whole] = value
        return plain(whole)

    return _File(document._replace(content=replaced(document.content, ())), found, written, references)


def _unusable(text: str, environment: Mapping[str, str]) -> Iterator[str]:
    for match in _REFERENCE.finditer(text):
        name = match["name"]
        if name is None:
            continue
        if not _VARIABLE.fullmatch(name) or not match[0].endswith("}"):
            yield f"{match[0]!r} is not a reference such as ${{NAME}}; for the characters themselves write $${{"
        elif name not in environment:
            yield f"${{{name}}}: set {name} in the environment; for the characters themselves write $${{{name}}}"


def _problem(path: Path, lines: Mapping[_At, int], at: _At, message: str) -> Problem:
    where = next((f"{path}:{lines[at[:n]]}" for n in range(len(at), 0, -1) if at[:n] in lines), str(path))
    field = ".".join(at)
    return Problem(where, field, f"{where}: {field}: {message}")


def _at(content: Any, at: _At) -> Any:
    """The value there, None if there is none."""
    for part in at:
        content = content.get(part) if isinstance(content, dict) else None
    return content


def _has(content: Any, at: _At) -> bool:
    inner = _at(content, at[:-1])
    return isinstance(inner, dict) and at[-1] in inner


def _without(content: dict[str, Any], at: _At) -> dict[str, Any]:
    first, *rest = at
    if rest:
        return {**content, first: _without(content[first], tuple(rest))}
    return {name: value for name, value in content.items() if name != first}


def _with(content: dict[str, Any], at: _At, value: Any) -> dict[str, Any]:
    """`content` with the value there; unchanged where a section is something else, which is an error of its own."""
    first, *rest = at
    if not rest:
        return {**content, first: value}
    inner = content.get(first, {})
    return {**content, first: _with(inner, tuple(rest), value)} if isinstance(inner, dict) else content
