"""Families whose words are data, down to what they are called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity, Family, H, S, sentence
from hermes_lab.tasks.words import load_by_split, load_phrases, load_words

Words = SimpleNamespace
"""The vocabulary of a split: texts, format strings and lists of both, as in `words.yaml`."""


def words_by_split(module_file: str) -> Mapping[str, Words]:
    """The `vocabularies` of `words.yaml` in the folder of a module, which passes its `__file__`."""
    return {split: Words(**words) for split, words in load_by_split(module_file, dict[str, Any]).items()}


@dataclass(frozen=True)
class _About:
    noun: str
    summary: str
    subject: str


class WordedFamily(Family[H, S]):
    """A family with the name of its folder. `words.yaml` there has its noun, summary and subject (`family`), its
    vocabularies, and the prompts to choose from (`requests`)."""

    def __init__(self, module_file: str) -> None:
        self.name = Path(module_file).parent.name
        about = load_words(module_file, _About, "family")
        self.noun, self.summary, self.subject = about.noun, about.summary, about.subject
        self.words = words_by_split(module_file)
        self.requests = load_phrases(module_file, "requests")

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        """Another process has the family too: tasks travel without its words and functions."""
        return _family_of, (type(self).__module__,)

    def request(self, entity: Entity, draws: Draws, *paths: str, **names: object) -> str:
        """One of the `requests`, filled with `names`. It begins with a capital, unless it begins with one of the
        `paths`."""
        text = entity.phrase(draws, self.requests).format(place=entity.called(self.noun), **names)
        return sentence(text, *paths)


def _family_of(module: str) -> Any:
    return import_module(module).FAMILY
