"""Base class of families whose texts are in YAML files."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, SupportsIndex

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, Family, H, Rule, RuleType, S, TaskInstance, sentence
from hermes_lab.tasks.words import Phrases, load_by_split, load_words, read_words

Words = SimpleNamespace
"""The vocabulary of a split: texts, format strings and tuples of them, by their names in `words.yaml`."""


def words_by_split(module_file: str) -> Mapping[str, Words]:
    """The `vocabularies` of `words.yaml` in the folder of `module_file`, the calling module's `__file__`."""
    found = load_by_split(module_file, dict[str, Any])
    return {split: Words(**{name: _frozen(value) for name, value in words.items()}) for split, words in found.items()}


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Look:
    """A tool call that explores the workspace. `argument` is a format string with the placeholder `task`, the
    instance."""

    tool: str
    argument: str
    thought: str

    def at(self, task: TaskInstance) -> Action:
        """The call for a task instance."""
        name = "path" if self.tool == "read_file" else "command"
        return Action(self.tool, {name: self.argument.format(task=task)}, self.thought)


class DataFamily(Family[H, S]):
    """A family in a folder `DOMAIN/NAME`. Its `words.yaml` has these sections:

    - `family`: noun, summary and subject; also `domain`, if it is not the name of the parent folder.
    - `vocabularies`: the words of each split, available as `words[split]`.
    - `prompt`: the parts of a prompt in order, each with the phrases of each split.
    - `explore`: the tool calls of `explore`, if they differ from those of `Family`.
    """

    def __init__(self, module_file: str, rules: Mapping[str, RuleType]) -> None:
        folder, about = Path(module_file).parent, load_words(module_file, dict[str, str], "family")
        sections = read_words(module_file)
        self.name, self.domain, self.rules = folder.name, about.get("domain", folder.parent.name), rules
        self.noun, self.summary, self.subject = about["noun"], about["summary"], about["subject"]
        self.words = words_by_split(module_file) if "vocabularies" in sections else {}
        self.prompt = load_words(module_file, dict[str, Phrases], "prompt")
        self._explore = load_words(module_file, tuple[Look, ...], "explore") if "explore" in sections else None

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickles a module's `FAMILY` by the module's name, since rules contain functions that cannot be pickled."""
        module = type(self).__module__
        if getattr(sys.modules.get(module), "FAMILY", None) is self:
            return _family_of, (module,)
        return super().__reduce_ex__(protocol)

    def explore(self, instance: S) -> tuple[Action, ...]:
        """The tool calls of the section `explore`."""
        return (
            super().explore(instance) if self._explore is None else tuple(each.at(instance) for each in self._explore)
        )

    def statement(self, rule: Rule, *paths: str) -> str:
        """The rule as a skill states it. A sentence that starts with one of the `paths` keeps its case."""
        return f"{sentence(rule.paraphrases[0], *paths)}.\n\n{sentence(rule.instruction)}."

    def ask(self, entity: Entity, draws: Draws, *paths: str, complaint: str = "", **names: Any) -> str:
        """The prompt: a phrase for each part, filled with `names`, with `complaint` after the first part.

        It is capitalised, unless it starts with one of the `paths`.
        """
        filled = {"place": entity.called(self.noun), **names}
        first, *rest = (entity.phrase(draws, part).format(**filled) for part in self.prompt.values())
        return " ".join(filter(None, (sentence(first, *paths), complaint, *rest)))


def _family_of(module: str) -> Any:
    return import_module(module).FAMILY
