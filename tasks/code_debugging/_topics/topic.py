"""What a bug can be about, and the convention a house may have for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.words import read_words

Json = Any
"""A JSON value: a module's constant, a convention's parameter, an argument or a result."""
Args = list[Json]
Phrases = Mapping[str, tuple[str, ...]]
"""Words by split; no two splits share one."""


@dataclass(frozen=True, kw_only=True)
class TopicText:
    """The function and its fixes as text, from the YAML file of the topic's module.

    Code is the body of a function, indented by four spaces. In `house_code` the word `RULE` stands for the
    convention's parameter.
    """

    names: Phrases
    """Names of the function."""
    parameters: str
    purpose: str
    """The docstring of the function."""
    broken_code: tuple[str, ...]
    """Bodies that are wrong for every argument that `Behaviour.report` draws."""
    plain_code: str
    house_code: str
    complaints: Phrases
    """What a user reports, over `call` and `want`."""
    paraphrases: tuple[str, ...]
    """The convention in an owner's words, over `rule`."""
    instruction: str
    """What to do about it, over `rule`."""
    rules: tuple[Json, ...]
    """Parameters of the convention; several, so that it can change."""
    constant: str = ""
    """The name of the module's constant, if it has one."""


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """How calls are drawn and what they return.

    `plain` and `house` are the references that results are judged by. They run only in the harness and share no line
    with the code of the task. Both take the module's constant first; `house` takes the convention's parameter next.
    """

    report: Callable[[Draws, Json], Args]
    """Arguments for which all fixes agree, whatever the convention's parameter: they give nothing away."""
    call: Callable[[Draws, Json, Json], Args]
    """Arguments for which the fixes often agree and often differ, and for which the obvious fix is unambiguous. The
    last argument is the convention's parameter."""
    plain: Callable[..., Json]
    house: Callable[..., Json]
    constants: Callable[[Draws], Json] = lambda _: None
    """The value of the module's constant, drawn for each task."""


@dataclass(frozen=True, kw_only=True)
class Topic(TopicText, Behaviour):
    """One function that can be broken, with the obvious fix and the fix by the house's convention."""

    def house_fix(self, rule: Json) -> str:
        """The body of a function that follows the convention."""
        return self.house_code.replace("RULE", repr(rule))

    def agree(self, constant: Json, args: Args) -> bool:
        """Whether the convention, with any parameter, gives the result of the obvious fix."""
        plain = self.plain(constant, *args)
        return all(self.house(constant, rule, *args) == plain for rule in self.rules)


def topics_of(module_file: str, behaviours: Mapping[str, Behaviour]) -> dict[str, Topic]:
    """The topics of a module: their behaviour, with the texts from the YAML file of the same name."""
    texts = msgspec.convert(read_words(module_file, Path(module_file).stem), dict[str, TopicText])
    return {name: Topic(**vars(texts[name]), **vars(behaviour)) for name, behaviour in behaviours.items()}
