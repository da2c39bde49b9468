"""What a person means by a path or by dots in place of `module:Class`. Reads files of the current folder, and imports
nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

from hermes_lab.text.suggest import did_you_mean

_METHODS = {"load", "verify"}


def own_name_hint(name: str) -> str:
    """What to append to an error about `mine/parcels.py`, `mine/parcels:Parcels` or `mine.parcels.Parcels`:
    `; did you mean mine.parcels:Parcels?`. "" if no file of the current folder fits."""
    for module, attribute in _readings(name):
        parts = module.split(".")
        if not all(part.isidentifier() for part in parts):
            continue
        if not (file := Path(*parts).with_suffix(".py")).is_file():
            continue
        classes = _suites_in(file)
        if attribute in classes:
            return f"; did you mean {module}:{attribute}?"
        if near := did_you_mean(f"{module}:{attribute}", [f"{module}:{each}" for each in classes]):
            return near
        if classes:
            return f"; did you mean {' or '.join(f'{module}:{each}' for each in classes)}?"
    return ""


def _readings(name: str) -> Iterator[tuple[str, str]]:
    """The modules and classes that a name may stand for."""
    path, _, attribute = name.partition(":")
    if Path(path).is_absolute():
        here = Path.cwd()
        path = str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
    module = path.removeprefix("./").removesuffix(".py").replace("/", ".")
    yield module, attribute
    if not attribute:
        yield module.rpartition(".")[0], module.rpartition(".")[2]


def _suites_in(file: Path) -> list[str]:
    """The classes of a file that have the methods of a suite; all its classes if none has."""
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    classes = [each for each in body if isinstance(each, ast.ClassDef)]
    full = [each.name for each in classes if {getattr(part, "name", "") for part in each.body} >= _METHODS]
    return full or [each.name for each in classes]
