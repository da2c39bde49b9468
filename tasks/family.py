"""What a family of tasks is: one kind of work, and the hidden rules that can hold in it.

A family draws what a place is like (`shape`) and what a task there shows (`scene`); neither is given the place's rule,
so no prompt and no file can tell it. The rule comes in where work is judged (`judge`) and where the shipped policies
do it (`moves`).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.types import Page


@dataclass(frozen=True)
class Entity:
    """Who or what a piece of work is about, by name. `split` chooses the words of prompts."""

    name: str
    """A short real word, in small ASCII letters: fit for files, modules and services."""
    about: str
    """What it does, without its name: "looks after the cars and vans"."""
    split: str
    wording: str = "varied"
    """`near`: prompts name the site, in one wording. `varied`: in many. `far`: prompts and paths tell only what it
    does."""

    def called(self, noun: str) -> str:
        """How a prompt names it, after an article-free `noun` of the family: "the fleet desk"."""
        return f"the {noun} that {self.about}" if self.wording == "far" else f"the {self.name} {noun}"

    def slug(self, noun: str) -> str:
        """Its name in paths."""
        return noun if self.wording == "far" else self.name

    def phrase(self, draws: Draws, phrases: Mapping[str, Sequence[str]]) -> str:
        """One of the split's `phrases`. No two splits share one."""
        own = phrases[self.split]
        return own[0] if self.wording == "near" else draws.choice(own)


@dataclass(frozen=True)
class RuleType:
    """A type of hidden rule. `paraphrases` (the rule in an owner's words) and `instruction` (what to do about it: an
    exact imperative that begins small and ends without a full stop) are format strings over what `draw` gives."""

    paraphrases: tuple[str, ...]
    instruction: str
    draw: Callable[[Draws, Any], Mapping[str, Any]] = lambda draws, site_config: {}
    """The rule's literals, from the shape of its place."""
    unseen: bool = False
    """Whether it holds in held-out worlds alone."""


@dataclass(frozen=True)
class Rule:
    """One hidden rule: a type and its literals."""

    type: str
    paraphrases: tuple[str, ...]
    instruction: str
    literals: tuple[tuple[str, Any], ...] = ()
    unseen: bool = False

    def __getitem__(self, name: str) -> Any:
        """A literal by name."""
        return dict(self.literals)[name]

    def stated_in(self, text: str) -> bool:
        """Whether somebody tells this very rule in `text`."""
        return any(
            # A sentence may begin with it; other capitals tell rules apart. Few texts need the pattern to be made.
            words[1:] in text
            and re.search(rf"(?<![\w-])(?i:{re.escape(words[0])}){re.escape(words[1:])}(?![\w-])", text) is not None
            for words in (self.instruction, *self.paraphrases)
        )


def draw_rule(name: str, kind: RuleType, draws: Draws, site_config: object) -> Rule:
    """A rule of that type for a place of that shape."""
    literals = kind.draw(draws, site_config)
    return Rule(
        type=name,
        paraphrases=tuple(paraphrase.format(**literals) for paraphrase in kind.paraphrases),
        instruction=kind.instruction.format(**literals),
        literals=tuple(literals.items()),
        unseen=kind.unseen,
    )


@dataclass(frozen=True, kw_only=True)
class TaskInstance:
    """What one piece of work shows. Families derive from it to keep what judging needs; paths are relative."""

    request: str
    """The prompt: as a person would write it, and complete but for the rule."""
    files: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    """Bash commands that make what a text cannot be: modes, links, binaries."""
    pages: tuple[Page, ...] = ()
    inputs: tuple[str, ...] = ()
    """Files that must stay as they are."""
    outputs: tuple[str, ...] = ()
    """Files that are judged."""


def sentence(text: str, *names: str) -> str:
    """The text with a capital at its beginning, unless it begins with one of the `names` of files, which keep their
    case."""
    return text if text.startswith(names) else f"{text[0].upper()}{text[1:]}"


@dataclass(frozen=True)
class Action:
    """One tool call of a shipped policy, with what it thinks before."""

    tool: str
    arguments: Mapping[str, Any]
    thought: str = ""


def shell(command: str, thought: str = "") -> Action:
    """A command in the terminal."""
    return Action("terminal", {"command": command}, thought)


@dataclass(frozen=True)
class Criterion:
    """One judgement, with its reason.

    `ruled`: the hidden rule decides it. Where such a criterion alone fails, the owner tells the rule; otherwise the
    reasons of the others, which must hold nothing of it.
    """

    name: str
    score: float
    reason: str
    ruled: bool = False


def criterion(name: str, holds: bool, reason: str, *, ruled: bool = False) -> Criterion:
    """A criterion that holds or not; `reason` says what is wrong where it does not."""
    return Criterion(name, float(holds), "" if holds else reason, ruled)


H = TypeVar("H")
S = TypeVar("S", bound=TaskInstance)


class Family(ABC, Generic[H, S]):
    """One kind of work. `H` is the shape of a place, `S` the scene of a task."""

    name: str
    domain: str
    noun: str
    """What its places are: desks, modules, services."""
    summary: str
    """One line for `tasks list`."""
    rules: Mapping[str, RuleType]
    subject: str
    """What a skill about a place is about, over `{site}`: "how the totals of {place} are made"."""

    def kinds(self, site_config: H) -> tuple[str, ...]:
        """The types of rules that a place of that shape may have."""
        return tuple(self.rules)

    @abstractmethod
    def site_config(self, entity: Entity, kind: str, draws: Draws) -> H:
        """What lasts at a place: names, columns, layouts.

        `kind` is the type of rule that the place has or might have; most families make nothing of it.
        """

    @abstractmethod
    def instance(self, entity: Entity, site_config: H, draws: Draws) -> S:
        """One piece of work there, on which every rule of `kinds(site_config)` makes a difference."""

    @abstractmethod
    async def judge(
        self, instance: S, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the workspace where `rule` holds; without one the obvious way is right. Follows no link, changes
        nothing, and takes nothing from the prose of `answer`."""

    @abstractmethod
    def solve(self, instance: S, rule: Rule | None) -> tuple[Action, ...]:
        """The tool calls of someone who believes that `rule` holds, or that nothing special does. They overwrite
        what an earlier attempt left."""

    def explore(self, instance: S) -> tuple[Action, ...]:
        """How somebody looks around before the work: for demonstrations. Changes nothing."""
        return (shell("ls", "First a look around."),)

    def skill_body(self, entity: Entity, site_config: H, rule: Rule) -> str:
        """What a skill about the place tells. Small models need the literal command or form in it."""
        paraphrase = rule.paraphrases[0]
        return f"{paraphrase[0].upper()}{paraphrase[1:]}.\n\n{rule.instruction[0].upper()}{rule.instruction[1:]}."
