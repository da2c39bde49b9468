"""A family's words as data: YAML files next to its code."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, TypeVar

import msgspec
import yaml

T = TypeVar("T")
Phrases = Mapping[str, tuple[str, ...]]
"""The texts to choose from, by split."""


def read_words(module_file: str, name: str = "words") -> Any:
    """The content of `NAME.yaml` in the folder of a module, which passes its `__file__`. Read once per process.

    Quote texts that YAML would read as a number, a date or a boolean.
    """
    return _read(Path(module_file).with_name(f"{name}.yaml"))


@cache
def read_file(module_file: str, name: str) -> str:
    """The text of a file in the folder of a module, which passes its `__file__`: a program or script of a task."""
    return Path(module_file).with_name(name).read_text()


def load_words(module_file: str, type_: type[T], key: str = "", name: str = "words") -> T:
    """The section `key` of `NAME.yaml`, or all of it, as a `type_`: a tuple, mapping or dataclass, however nested.

    Lists become tuples, and texts `string.Template` where the type says so. Raises `ValueError` where the data does not
    fit.
    """
    found = read_words(module_file, name)
    try:
        return msgspec.convert(found[key] if key else found, type_, dec_hook=_template)
    except (KeyError, msgspec.ValidationError) as error:
        raise ValueError(f"{name}.yaml of {module_file}: {key} {error}") from error


def load_by_split(module_file: str, type_: type[T], key: str = "vocabularies") -> Mapping[str, T]:
    """The section `key` of `words.yaml`: what each split has, as a `type_`."""
    return load_words(module_file, dict[str, type_], key)  # type: ignore[valid-type]


def load_phrases(module_file: str, key: str) -> Phrases:
    """The section `key` of `words.yaml`: the texts of each split."""
    return load_words(module_file, dict[str, tuple[str, ...]], key)


def load_list(module_file: str, key: str) -> tuple[str, ...]:
    """The section `key` of `words.yaml`: a list of texts."""
    return load_words(module_file, tuple[str, ...], key)


def _template(type_: type, text: Any) -> Template:
    if type_ is not Template or not isinstance(text, str):
        raise NotImplementedError(f"no words of the type {type_}")
    return Template(text)


@cache
def _read(path: Path) -> Any:
    return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
