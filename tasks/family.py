"""Task families: one kind of work each, and the hidden rules that it can have.

A family generates the configuration of a site (`site_config`) and the tasks at that site (`instance`). Neither depends
on the site's rule, so no prompt or file can leak it. Only the verifier (`judge`) and the scripted policies (`solve`,
`skill_body`) use the rule.
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
    """The name and description of a site. `split` selects the words of its prompts."""

    name: str
    """A short English word in lower-case ASCII, valid in names of files, modules and services."""
    about: str
    """What it does, without its name: "looks after the cars and vans"."""
    split: str
    wording: str = "varied"
    """`near`: prompts name the site, always in the same wording. `varied`: in various wordings. `far`: prompts and
    paths only say what it does."""

    def called(self, noun: str) -> str:
        """How prompts refer to it, such as "the fleet desk"; `noun` is the family's, without an article."""
        return f"the {noun} that {self.about}" if self.wording == "far" else f"the {self.name} {noun}"

    def slug(self, noun: str) -> str:
        """Its name in paths."""
        return noun if self.wording == "far" else self.name

    def phrase(self, draws: Draws, phrases: Mapping[str, Sequence[str]]) -> str:
        """One of the split's `phrases`. Splits do not share phrases."""
        own = phrases[self.split]
        return own[0] if self.wording == "near" else draws.choice(own)


@dataclass(frozen=True)
class RuleType:
    """A type of hidden rule. `paraphrases` state the rule in the words of the site's owner; `instruction` says exactly
    what to do, as an imperative in lower case without a full stop. Both are format strings for the literals of
    `draw`."""

    paraphrases: tuple[str, ...]
    instruction: str
    draw: Callable[[Draws, Any], Mapping[str, Any]] = lambda draws, site_config: {}
    """Draws the rule's literals for a `site_config`."""
    unseen: bool = False
    """Whether it only occurs in held-out worlds."""


@dataclass(frozen=True)
class Rule:
    """A hidden rule: a type and its literals."""

    type: str
    paraphrases: tuple[str, ...]
    instruction: str
    literals: tuple[tuple[str, Any], ...] = ()
    unseen: bool = False

    def __getitem__(self, name: str) -> Any:
        """A literal by name."""
        return dict(self.literals)[name]

    def stated_in(self, text: str) -> bool:
        """Whether `text` states exactly this rule."""
        return any(
            # The first letter may be a capital, at the start of a sentence; otherwise case distinguishes rules. The
            # substring test avoids most regular expressions.
            words[1:] in text
            and re.search(rf"(?<![\w-])(?i:{re.escape(words[0])}){re.escape(words[1:])}(?![\w-])", text) is not None
            for words in (self.instruction, *self.paraphrases)
        )


def draw_rule(name: str, kind: RuleType, draws: Draws, site_config: object) -> Rule:
    """Draws a rule of type `kind` for a site."""
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
    """The visible content of one subtask. Subclasses add what the verifier needs. Paths are relative."""

    request: str
    """The prompt, as a person would write it. Complete except for the rule."""
    files: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    """Bash commands that create what text files cannot express: modes, links, binaries."""
    pages: tuple[Page, ...] = ()
    inputs: tuple[str, ...] = ()
    """Files that must not change."""
    outputs: tuple[str, ...] = ()
    """Files that the verifier judges."""


def sentence(text: str, *names: str) -> str:
    """Capitalises the text, unless it starts with one of `names`, such as a file name."""
    return text if text.startswith(names) else f"{text[0].upper()}{text[1:]}"


@dataclass(frozen=True)
class Action:
    """A tool call of a scripted policy, with the text before it."""

    tool: str
    arguments: Mapping[str, Any]
    thought: str = ""


def shell(command: str, thought: str = "") -> Action:
    """A call of the terminal tool."""
    return Action("terminal", {"command": command}, thought)


@dataclass(frozen=True)
class Criterion:
    """The score of one criterion, with the reason if it is not met.

    `ruled`: the hidden rule decides it. If only such criteria fail, the rejection states the rule; otherwise it gives
    the reasons of the other failed criteria, which must not reveal the rule.
    """

    name: str
    score: float
    reason: str
    ruled: bool = False


def criterion(name: str, holds: bool, reason: str, *, ruled: bool = False) -> Criterion:
    """A pass/fail criterion; `reason` says what is wrong if it fails."""
    return Criterion(name, float(holds), "" if holds else reason, ruled)


H = TypeVar("H")
S = TypeVar("S", bound=TaskInstance)


class Family(ABC, Generic[H, S]):
    """A task family. `H` is the type of a site's configuration, `S` that of a task instance."""

    name: str
    domain: str
    noun: str
    """The kind of its sites, such as `desk`, `module` or `service`."""
    summary: str
    """One line for `tasks list`."""
    rules: Mapping[str, RuleType]
    subject: str
    """The topic of a skill about a site, a format string: "how the totals of {place} are made"."""

    def kinds(self, site_config: H) -> tuple[str, ...]:
        """The rule types that a site with this configuration can have."""
        return tuple(self.rules)

    @abstractmethod
    def site_config(self, entity: Entity, kind: str, draws: Draws) -> H:
        """Draws the lasting properties of a site: names, columns, layouts.

        `kind` is the type of the rule drawn for the site, in force or not; most families ignore it.
        """

    @abstractmethod
    def instance(self, entity: Entity, site_config: H, draws: Draws) -> S:
        """Draws a task instance at a site. Every rule type of `kinds(site_config)` must change its right result."""

    @abstractmethod
    async def judge(
        self, instance: S, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the workspace under `rule`; if None, the naive solution is right. Must not follow links, change the
        workspace, or use the prose of `answer`."""

    @abstractmethod
    def solve(self, instance: S, rule: Rule | None) -> tuple[Action, ...]:
        """The tool calls that solve the instance under `rule`; if None, the naive solution. They overwrite the results
        of earlier attempts."""

    def explore(self, instance: S) -> tuple[Action, ...]:
        """Read-only tool calls that explore the workspace before the work, for demonstrations."""
        return (shell("ls", "First I look around."),)

    def skill_body(self, entity: Entity, site_config: H, rule: Rule) -> str:
        """The body of a skill that states the rule. Small models need the literal command or format in it."""
        paraphrase = rule.paraphrases[0]
        return f"{paraphrase[0].upper()}{paraphrase[1:]}.\n\n{rule.instruction[0].upper()}{rule.instruction[1:]}."
