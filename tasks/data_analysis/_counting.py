"""Base class of the families in this domain: the solution is one script, and the site's rule changes some of its
lines."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, H, Rule, S, shell
from hermes_lab.tasks.rules import Convention, Literals, rule_types, slots_of, strategy_of
from hermes_lab.tasks.words import read_file

W = TypeVar("W")


def write_script(template: str, slots: Mapping[str, str]) -> str:
    """A command that pipes the script to Python. A line `<slot>` is replaced by the lines of the slot, or removed;
    within a line, `<slot>` is replaced by the slot's text."""
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


class Counting(DataFamily[H, S], Generic[H, S, W]):
    """A family that computes figures from files. Its rules change the strategy `W` by which the verifier computes them,
    and the lines of `script.txt` in the module's folder (see `write_script`)."""

    thought: str
    """The thought before the script runs."""

    def __init__(
        self,
        module_file: str,
        conventions: Mapping[str, Convention[H, Callable[[Literals], W]]],
        plain: W,
        draw_shape: Callable[[Draws, Any], H],
    ) -> None:
        super().__init__(module_file, rule_types(conventions))
        self.conventions, self.plain, self._draw_shape = conventions, plain, draw_shape
        self._script = read_file(module_file, "script.txt")

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> H:
        """The files and fields of a place, drawn from the words of its split."""
        return self._draw_shape(draws, self.words[entity.split])

    def strategy(self, rule: Rule | None) -> W:
        """The strategy under `rule`."""
        return strategy_of(self.conventions, rule, self.plain)

    @abstractmethod
    def slots(self, instance: S) -> Mapping[str, str]:
        """The slots of the naive script."""

    def solve(self, instance: S, rule: Rule | None) -> tuple[Action, ...]:
        """One command that runs the script."""
        slots = {**self.slots(instance), **slots_of(self.conventions, rule)}
        return (shell(write_script(self._script, slots), self.thought),)

    def explore(self, instance: S) -> tuple[Action, ...]:
        """Lists the input files and shows the top of each."""
        files = " ".join(instance.inputs)
        return (
            shell(f"ls -l {files}", "First I look at what is there."),
            shell(f"head -n 8 {files}", "Then at the top of each file."),
        )

    def skill_body(self, entity: Entity, site_config: H, rule: Rule) -> str:
        """The rule, and the lines of Python that implement it."""
        code = "\n".join(slots_of(self.conventions, rule).values())
        return f"{self.statement(rule)} In Python:\n\n```python\n{code}\n```"
