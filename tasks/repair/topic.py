"""What a bug can be about, and the one convention that a house may have there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks.worlds import Draws

Json = Any
"""A value that JSON can tell: what a module's constant, a convention's number, an argument or a result is."""
Args = list[Json]


@dataclass(frozen=True)
class Topic:
    """One function that can be broken, with the obvious fix and the fix by the house's convention.

    Code is the body of a function, indented by four blanks; in `house_code` the word `RULE` stands for the convention's
    number or text. `plain` and `house` are the references that results are judged by: they run in the harness alone,
    and share no line with the code. Both get the module's constant first, `house` then the convention's number.
    """

    names: tuple[str, ...]
    """What the function may be called."""
    parameters: str
    purpose: str
    """Its docstring."""
    broken_code: tuple[str, ...]
    """Ways to be wrong, each for every argument that `report` draws."""
    plain_code: str
    house_code: str
    complaints: tuple[str, ...]
    """What a user says, over `call`, `want` and `constant`."""
    clauses: tuple[str, ...]
    """The convention in an owner's words, over `rule`."""
    rules: tuple[Json, ...]
    """Numbers or texts that the convention may have."""
    report: Callable[[Draws, Json], Args]
    """Arguments at which both fixes agree whatever the convention's number is, so that they give nothing away."""
    call: Callable[[Draws, Json, Json], Args]
    """Arguments at which they often agree and often do not, and at which nobody can doubt what the obvious fix gives.
    The last argument is the convention's number."""
    plain: Callable[..., Json]
    house: Callable[..., Json]
    constant: str = ""
    """The name of the module's constant, if it needs one."""
    constants: Callable[[Draws], Json] = lambda _: None
    """Its value, drawn for each task."""
