"""Loads a family's texts from the YAML files next to its code."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, TypeVar

import msgspec
import yaml

from hermes_lab.config.yaml_files import repeated_key

T = TypeVar("T")
Phrases = Mapping[str, tuple[str, ...]]
"""Alternative texts by split."""


def read_words(module_file: str, name: str = "words") -> Any:
    """The content of `NAME.yaml` in the folder of `module_file`, the calling module's `__file__`. Cached.

    In the file, quote texts that YAML would parse as a number, a date or a boolean.
    """
    return _read(Path(module_file).with_name(f"{name}.yaml"))


@cache
def read_file(module_file: str, name: str) -> str:
    """The text of a file in the folder of `module_file`, such as a program of a task. Cached."""
    return Path(module_file).with_name(name).read_text()


def load_words(module_file: str, type_: type[T], key: str = "", name: str = "words") -> T:
    """The section `key` of `NAME.yaml`, or all of it, converted to `type_`: tuples, mappings and dataclasses, possibly
    nested.

    Lists become tuples; texts become `string.Template` if the type says so. Raises `ValueError` if the data does not
    match the type.
    """
    found = read_words(module_file, name)
    try:
        return msgspec.convert(found[key] if key else found, type_, dec_hook=_template)
    except (KeyError, msgspec.ValidationError) as error:
        raise ValueError(f"{name}.yaml of {module_file}: {key} {error}") from error


def load_by_split(module_file: str, type_: type[T], key: str = "vocabularies") -> Mapping[str, T]:
    """The section `key` of `words.yaml`: a `type_` for each split."""
    return load_words(module_file, dict[str, type_], key)  # type: ignore[valid-type]


def load_phrases(module_file: str, key: str) -> Phrases:
    """The section `key` of `words.yaml`: alternative texts for each split."""
    return load_words(module_file, dict[str, tuple[str, ...]], key)


def load_list(module_file: str, key: str) -> tuple[str, ...]:
    """The section `key` of `words.yaml`: a list of texts."""
    return load_words(module_file, tuple[str, ...], key)


def _template(type_: type, text: Any) -> Template:
    if type_ is not Template or not isinstance(text, str):
        raise NotImplementedError(f"unsupported type {type_}")
    return Template(text)


@cache
def _read(path: Path) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(path.read_bytes())
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if twice := repeated_key(node):
            raise ValueError(
                f"{path}:{twice.line}: {twice.key} is set twice, first in line {twice.first}; keep one of the two"
            )
        return loader.construct_document(node)
    finally:
        loader.dispose()
