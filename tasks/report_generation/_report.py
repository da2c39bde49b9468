"""Base class of the families in this domain: the solution is one script that writes a report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Template
from typing import Any, Generic, TypeVar

from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.family import Action, H, Rule, TaskInstance, shell
from hermes_lab.tasks.rules import Convention, Literals, rule_types, slots_of, strategy_of
from hermes_lab.tasks.words import load_words

C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class ReportInstance(TaskInstance, Generic[H]):
    """Data to report on."""

    site_config: H


T = TypeVar("T", bound=ReportInstance[Any])


@dataclass(frozen=True)
class Script:
    """A script with slots: words of a site, and `lines` that rules can replace."""

    template: str
    lines: Mapping[str, str]
    """The lines of a script that follows no rule, by slot."""

    def fill(self, slots: Mapping[str, str]) -> str:
        """The script with all slots filled. A line with only a slot becomes the lines of that slot.

        An empty slot removes an indented line, and leaves an empty line otherwise.
        """
        filled = []
        for line in self.template.splitlines():
            indent, _, slot = line.partition("$")
            if slot in slots and not indent.strip():
                filled += [indent + each for each in slots[slot].splitlines() or ([] if indent else [""])]
            else:
                filled.append(Template(line).substitute(slots))
        return "\n".join(filled)


class Report(DataFamily[H, T], Generic[H, T, C]):
    """A family whose rules change the form of a report: each replaces `default` with a `C` built from its literals.

    `words.yaml` and `script.yaml` are in the folder of `module_file`, the calling module's `__file__`.
    """

    def __init__(
        self, module_file: str, conventions: Mapping[str, Convention[H, Callable[[Literals], C]]], default: C
    ) -> None:
        super().__init__(module_file, rule_types(conventions))
        self._conventions = conventions
        self._default = default
        self._script = load_words(module_file, Script, name="script")

    def strategy(self, rule: Rule | None) -> C:
        """The strategy under `rule`."""
        return strategy_of(self._conventions, rule, self._default)

    def slots(self, instance: T) -> Mapping[str, str]:
        """The slots that rules do not change: texts of the instance by name, and of its site as `site_NAME`."""
        return {**texts(instance), **{f"site_{name}": text for name, text in texts(instance.site_config).items()}}

    def solve(self, instance: T, rule: Rule | None) -> tuple[Action, ...]:
        """One script that writes the report."""
        slots = {**self.slots(instance), **self._script.lines, **slots_of(self._conventions, rule)}
        command = f"python3 - <<'EOF'\n{self._script.fill(slots)}\nEOF"
        return (shell(command, "I write it with a script that reads the data."),)


def texts(record: object) -> dict[str, str]:
    """The string attributes of a dataclass."""
    return {name: value for name, value in vars(record).items() if isinstance(value, str)}
