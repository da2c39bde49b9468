"""Families whose sites are drawn from words of their own, and whose exploration is data."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, H, Rule, RuleType, S, TaskInstance, sentence
from hermes_lab.tasks.worded import WordedFamily, Words
from hermes_lab.tasks.words import load_phrases, load_words


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


class DataFamily(WordedFamily[H, S]):
    """A family in a folder `DOMAIN/NAME`. Its `words.yaml` has these sections besides those of `WordedFamily`:

    - `closings`: ends of prompts, by split.
    - `explore`: the tool calls before the work.
    """

    def __init__(self, module_file: str, rules: Mapping[str, RuleType]) -> None:
        super().__init__(module_file)
        self.domain, self.rules = Path(module_file).parent.parent.name, rules
        self.closings = load_phrases(module_file, "closings")
        self._explore = load_words(module_file, tuple[Look, ...], "explore")

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> H:
        """Drawn from the vocabulary of the split."""
        return self.draw_site(entity, kind, self.words[entity.split], draws)

    @abstractmethod
    def draw_site(self, entity: Entity, kind: str, words: Words, draws: Draws) -> H:
        """As `site_config`, with the vocabulary of the split."""

    def explore(self, instance: S) -> tuple[Action, ...]:
        """The tool calls of the section `explore`."""
        return tuple(look.at(instance) for look in self._explore)

    def statement(self, rule: Rule, *paths: str) -> str:
        """The rule as a skill tells it. At the beginning, `paths` keep their case."""
        return f"{sentence(rule.paraphrases[0], *paths)}.\n\n{sentence(rule.instruction)}."

    def closing(self, entity: Entity, draws: Draws, **names: object) -> str:
        """One of the `closings`, filled with `names`."""
        return entity.phrase(draws, self.closings).format(place=entity.called(self.noun), **names)

    def ask(self, entity: Entity, draws: Draws, names: Mapping[str, object], *paths: str, complaint: str = "") -> str:
        """The prompt: a request, the complaint and a closing. `paths` are as in `request`."""
        parts = (self.request(entity, draws, *paths, **names), complaint, self.closing(entity, draws, **names))
        return " ".join(filter(None, parts))
