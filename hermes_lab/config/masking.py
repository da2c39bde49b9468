"""Hides possible secrets in a configuration that is shown.

No field is meant to hold a key, but a header, a URL, an option or a server argument can.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "***"
_NAMES = re.compile(r"key|token$|secret|password|authorization|cookie|credential", re.IGNORECASE)
_VARIABLE = re.compile(r"(?:[A-Za-z]+ )?\$\{\w+\}")
_URL_USER = re.compile(r"(?<=://)[^/@\s]*@")
_URL_QUERY = re.compile(r"(?<=[?&])([^=&#\s]*(?:key|token|secret|password|sig)[^=&#\s]*)=[^&#\s,]*", re.IGNORECASE)
_OVERRIDE = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)


def as_written(message: str, references: Mapping[str, str]) -> str:
    """A message without values of the environment: `references` has the text that was written for each."""
    shown = {form: text for value, text in references.items() if value for form in (value, repr(value)[1:-1])}
    values = "|".join(map(re.escape, sorted(shown, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)(?:{values})(?!\w)", lambda match: shown[match[0]], message) if shown else message


def is_secret(path: Sequence[str]) -> bool:
    """Whether the value at that path may be a secret: by its own name, or since it is a request header."""
    return "headers" in path or bool(_NAMES.search(path[-1]))


def masked(value: Any, path: tuple[str, ...] = ()) -> Any:
    """A valid configuration, or the part of it at `path`, with possible secrets replaced by `***`."""
    if isinstance(value, dict):
        return {name: masked(each, (*path, str(name))) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_argument(value, n, path) for n in range(len(value))]
    if not isinstance(value, str) or not value:
        return value
    # `*_env` fields are checked to be names of variables, `*_file` fields to be files.
    if path and not path[-1].endswith(("_env", "_file")) and is_secret(path) and not _VARIABLE.fullmatch(value):
        return HIDDEN
    if (override := _OVERRIDE.fullmatch(value)) and is_secret(tuple(override[1].split("."))):
        return f"{override[1]}={HIDDEN}"
    return _URL_QUERY.sub(rf"\1={HIDDEN}", _URL_USER.sub(f"{HIDDEN}@", value))


def _argument(items: Sequence[Any], place: int, path: tuple[str, ...]) -> Any:
    """An item of a list, which may be a command-line option's value."""
    item, before = items[place], items[place - 1] if place else ""
    if isinstance(item, str) and isinstance(before, str) and before.startswith("--") and _is_option(before):
        return HIDDEN
    if isinstance(item, str) and item.startswith("--") and "=" in item and _is_option(item.partition("=")[0]):
        return f"{item.partition('=')[0]}={HIDDEN}"
    return masked(item, path)


def _is_option(name: str) -> bool:
    return bool(_NAMES.search(name)) and "=" not in name
