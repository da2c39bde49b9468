"""What a bug can be about, and the one convention that a house may have there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_lab.tasks.draws import Draws

Json = Any
"""A value that JSON can tell: what a module's constant, a convention's number, an argument or a result is."""
Args = list[Json]
Phrases = Mapping[str, tuple[str, ...]]
"""Words of each split; no two splits share one."""


@dataclass(frozen=True)
class Topic:
    """One function that can be broken, with the obvious fix and the fix by the house's convention.

    Code is the body of a function, indented by four blanks; in `house_code` the word `RULE` stands for the convention's
    number or text. `plain` and `house` are the references that results are judged by: they run in the harness alone,
    and share no line with the code. Both get the module's constant first, `house` then the convention's number.
    """

    names: Phrases
    """What the function may be called."""
    parameters: str
    purpose: str
    """Its docstring."""
    broken_code: tuple[str, ...]
    """Ways to be wrong, each for every argument that `report` draws."""
    plain_code: str
    house_code: str
    complaints: Phrases
    """What a user says, over `call` and `want`."""
    paraphrases: tuple[str, ...]
    """The convention in an owner's words, over `rule`."""
    instruction: str
    """What to do about it, over `rule`."""
    rules: tuple[Json, ...]
    """Numbers or texts that the convention may have, several: so that it can become another."""
    report: Callable[[Draws, Json], Args]
    """Arguments at which all fixes agree whatever the convention's number is, so that they give nothing away."""
    call: Callable[[Draws, Json, Json], Args]
    """Arguments at which they often agree and often do not, and at which nobody can doubt what the obvious fix gives.
    The last argument is the convention's number."""
    plain: Callable[..., Json]
    house: Callable[..., Json]
    constant: str = ""
    """The name of the module's constant, if it needs one."""
    constants: Callable[[Draws], Json] = lambda _: None
    """Its value, drawn for each task."""

    def house_fix(self, rule: Json) -> str:
        """The body of a function that follows the convention."""
        return self.house_code.replace("RULE", repr(rule))

    def agree(self, constant: Json, args: Args) -> bool:
        """Whether the convention, with whatever number, gives what the obvious fix gives."""
        plain = self.plain(constant, *args)
        return all(self.house(constant, rule, *args) == plain for rule in self.rules)
