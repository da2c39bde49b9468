"""Families whose rules are data: an unwritten convention in the harness, in a script and in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType

Literals = Mapping[str, Any]
H = TypeVar("H")
W = TypeVar("W")


@dataclass(frozen=True)
class Convention(Generic[H, W]):
    """An unwritten convention. `paraphrases` and `instruction` are as in `RuleType`."""

    paraphrases: tuple[str, ...]
    instruction: str
    variants: Callable[[H], Sequence[Literals]]
    """The literals that it can have at a place of that shape."""
    way: Callable[[Literals], W]
    """How the harness counts by it."""
    code: Mapping[str, str]
    """The lines of the script that differ, by slot: %-format strings over the literals."""
    unseen: bool = False


def rule_types(conventions: Mapping[str, Convention[H, W]]) -> Mapping[str, RuleType]:
    """The rules that they make."""
    return {name: _rule_type(convention) for name, convention in conventions.items()}


def _rule_type(convention: Convention[H, W]) -> RuleType:
    def draw(draws: Draws, site_config: H) -> Literals:
        return draws.choice(convention.variants(site_config))

    return RuleType(convention.paraphrases, convention.instruction, draw, convention.unseen)


def strategy_of(conventions: Mapping[str, Convention[H, W]], rule: Rule | None, plain: W) -> W:
    """How the harness counts where `rule` holds; `plain` where none does."""
    return conventions[rule.type].way(dict(rule.literals)) if rule else plain


def slots_of(conventions: Mapping[str, Convention[H, W]], rule: Rule | None) -> dict[str, str]:
    """The lines of a script that somebody writes otherwise who believes in `rule`."""
    if rule is None:
        return {}
    literals = dict(rule.literals)
    return {slot: code % literals for slot, code in conventions[rule.type].code.items()}


def one_of(name: str, *values: Any) -> Callable[[object], Sequence[Literals]]:
    """Variants that differ in one literal, whatever the shape."""
    return lambda _: [{name: value} for value in values]


def variants_of(names: str, *rows: tuple[Any, ...]) -> Callable[[object], Sequence[Literals]]:
    """Variants that differ in several literals, whatever the shape."""
    return lambda _: [dict(zip(names.split(), row, strict=True)) for row in rows]
