"""What the families of this domain have in common: the work is one script, whose lines follow the site's rule."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, Family, H, Rule, S, sentence, shell
from hermes_lab.tasks.rules import Convention, Literals, slots_of
from hermes_lab.tasks.words import Phrases

W = TypeVar("W")


def write_script(template: str, slots: Mapping[str, str]) -> str:
    """A command that pipes the script to python. A line `<slot>` becomes the lines of the slot, or none; inside a line
    it becomes the slot's text."""
    lines: list[str] = []
    for line in template.strip().splitlines():
        bare = line.strip()
        if bare[:1] == "<" and bare[-1:] == ">":
            indent = line[: line.index("<")]
            lines += [indent + each for each in slots[bare[1:-1]].splitlines()]
        else:
            for slot, text in slots.items():
                line = line.replace(f"<{slot}>", text)
            lines.append(line)
    return "python3 - <<'EOF'\n" + "\n".join(lines) + "\nEOF"


class Counting(Family[H, S], Generic[H, S, W]):
    """A family that counts what files say. `W` is the strategy: how the harness counts."""

    domain = "data_analysis"
    conventions: Mapping[str, Convention[H, Callable[[Literals], W]]]
    phrases: tuple[Phrases, ...]
    """The sentences of a request, in order."""
    script: str
    """The script, over the names of slots: see `write_script`."""
    thought: str
    """What somebody thinks before running it."""

    @abstractmethod
    def slots(self, instance: S) -> Mapping[str, str]:
        """The slots of the script of someone who believes that no rule holds."""

    def request(self, entity: Entity, draws: Draws, data: str, **names: Any) -> str:
        """The prompt about `data`, the file or folder; the sentences are format strings over `names`."""
        text = " ".join(entity.phrase(draws, each) for each in self.phrases)
        return sentence(text.format(place=entity.called(self.noun), **names), data)

    def solve(self, instance: S, rule: Rule | None) -> tuple[Action, ...]:
        """One script."""
        slots = {**self.slots(instance), **slots_of(self.conventions, rule)}
        return (shell(write_script(self.script, slots), self.thought),)

    def explore(self, instance: S) -> tuple[Action, ...]:
        """The list of the files, and the top of each."""
        files = " ".join(instance.inputs)
        return (
            shell(f"ls -l {files}", "First a look at what is there."),
            shell(f"head -n 8 {files}", "And at the top of each file."),
        )

    def skill_body(self, entity: Entity, site_config: H, rule: Rule) -> str:
        """The rule, and the lines of Python that do it."""
        paraphrase, instruction = sentence(rule.paraphrases[0]), sentence(rule.instruction)
        code = "\n".join(slots_of(self.conventions, rule).values())
        return f"{paraphrase}.\n\n{instruction}. In Python:\n\n```python\n{code}\n```"
