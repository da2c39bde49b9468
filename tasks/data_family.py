"""The base of families whose words are data: `words.yaml` in the family's folder."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, Family, H, Rule, RuleType, S, TaskInstance, sentence
from hermes_lab.tasks.words import Phrases, load_by_split, load_words

Vocabulary = Mapping[str, tuple[str, ...]]
"""The words of a split, by kind."""


@dataclass(frozen=True)
class Look:
    """A tool call before the work. `argument` is a format string over `task`, the instance."""

    tool: str
    argument: str
    thought: str

    def at(self, task: TaskInstance) -> Action:
        """The call for a task."""
        name = "path" if self.tool == "read_file" else "command"
        return Action(self.tool, {name: self.argument.format(task=task)}, self.thought)


class DataFamily(Family[H, S]):
    """A family in a folder `DOMAIN/NAME`. Its `words.yaml` has these sections:

    - `family`: noun, summary and subject.
    - `vocabularies`: the words of each split, by kind.
    - `prompt`: the parts of a prompt in order, each with the phrases of each split.
    - `explore`: the tool calls before the work.
    """

    vocabularies: ClassVar[Mapping[str, Vocabulary]]
    _prompt: ClassVar[tuple[Phrases, ...]]
    _explore: ClassVar[tuple[Look, ...]]

    def __init_subclass__(cls, module_file: str, rules: Mapping[str, RuleType]) -> None:
        super().__init_subclass__()
        folder, about = Path(module_file).parent, load_words(module_file, dict[str, str], "family")
        cls.name, cls.domain, cls.rules = folder.name, folder.parent.name, rules
        cls.noun, cls.summary, cls.subject = about["noun"], about["summary"], about["subject"]
        cls.vocabularies = load_by_split(module_file, dict[str, tuple[str, ...]])
        cls._prompt = tuple(load_words(module_file, dict[str, Phrases], "prompt").values())
        cls._explore = load_words(module_file, tuple[Look, ...], "explore")

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> H:
        """Drawn from the vocabulary of the split."""
        return self.draw_site(entity, kind, self.vocabularies[entity.split], draws)

    @abstractmethod
    def draw_site(self, entity: Entity, kind: str, words: Vocabulary, draws: Draws) -> H:
        """As `site_config`, with the vocabulary of the split."""

    def explore(self, instance: S) -> tuple[Action, ...]:
        """The tool calls of the section `explore`."""
        return tuple(look.at(instance) for look in self._explore)

    def statement(self, rule: Rule, *files: str) -> str:
        """The rule as a skill tells it. At the beginning, names of `files` keep their case."""
        return f"{sentence(rule.paraphrases[0], *files)}.\n\n{sentence(rule.instruction)}."

    def ask(self, entity: Entity, draws: Draws, names: Mapping[str, object], *files: str, complaint: str = "") -> str:
        """The prompt: a phrase for each part, filled with `names`, with `complaint` after the first.

        At the beginning, names of `files` keep their case.
        """
        filled = {"place": entity.called(self.noun), **names}
        first, *rest = (entity.phrase(draws, part).format(**filled) for part in self._prompt)
        return " ".join(filter(None, (sentence(first, *files), complaint, *rest)))
