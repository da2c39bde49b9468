"""Rules as data: texts and literals in a family's `rules.yaml`, behavior in its Python.

# rules.yaml                                             # rules.py
mark:                                                    CONVENTIONS = load_conventions(__file__, {
  instruction: put {mark} between the parts                  "mark": Behavior(lambda rule: Style(rule["mark"])),
  paraphrases:                                           })
    - '{mark} stands between the parts'
  literals: {mark: ["/", "+", ":"]}
  code: {mark: 'separator = "%(mark)s"'}
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType
from hermes_lab.tasks.words import load_words

Literals = Mapping[str, Any]
H = TypeVar("H")
F = TypeVar("F")
W = TypeVar("W")
Variants = Callable[[H], Sequence[Literals]]
Draw = Callable[[Draws, H], Literals]


class RuleTexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of a rule in `rules.yaml`. `paraphrases` and `instruction` are as in `RuleType`.

    The literals of a rule are the product of `site`, `each` and `literals`.
    """

    paraphrases: tuple[str, ...]
    instruction: str = ""
    """For house tools it follows from `flags`."""
    flags: str = ""
    """Of a house tool: a format string over the literals."""
    option: Mapping[str, str | int] = {}
    """Of a house tool: what its parser says about the flag, as arguments of `add_argument`."""
    site: Mapping[str, str] = {}
    """Literals that a site has one value of, by name: the attribute of its configuration."""
    each: Mapping[str, str] = {}
    """A literal that can have each value of an attribute of the site's configuration."""
    literals: Mapping[str, tuple[Any, ...] | str] = {}
    """By name the values of a literal, or a range of whole numbers: `2..6`. They vary together: the first values of
    all, or the second ones, ..."""
    code: Mapping[str, str] = {}
    """The lines of the script that differ, by slot: %-format strings over the literals."""
    unseen: bool = False

    def variants(self, site_config: object) -> list[Literals]:
        """The literals that the rule can have at a site."""
        fixed = {name: getattr(site_config, attribute) for name, attribute in self.site.items()}
        each = [{name: value} for name, attribute in self.each.items() for value in getattr(site_config, attribute)]
        columns = map(_values, self.literals.values())
        rows = [dict(zip(self.literals, row, strict=True)) for row in zip(*columns, strict=True)]
        return [{**fixed, **one, **row} for one in each or [{}] for row in rows or [{}]]


def _values(column: tuple[Any, ...] | str) -> Sequence[Any]:
    if not isinstance(column, str):
        return column
    low, high = map(int, column.split(".."))
    return range(low, high + 1)


@dataclass(frozen=True)
class Behavior(Generic[H, F]):
    """What a rule does. Where `rules.yaml` cannot tell its literals, `variants` lists those that it can have at a site,
    one of which is drawn, or `draw` draws them."""

    apply: F
    variants: Variants[H] | None = None
    draw: Draw[H] | None = None
    derive: Callable[[H, Literals], Literals] = lambda site_config, literals: {}
    """More literals, from the site and those of `rules.yaml`, which they may replace."""


@dataclass(frozen=True)
class Convention(Generic[H, F]):
    """A type of rule in full: `texts` from the data, `apply` from the family."""

    texts: RuleTexts
    apply: F
    """How the harness follows the rule: what it takes and gives is up to the family."""
    variants: Variants[H]
    draw: Draw[H] = field(repr=False)


def load_texts(module_file: str) -> Mapping[str, RuleTexts]:
    """The rules of `rules.yaml` next to a module, which passes its `__file__`."""
    return load_words(module_file, dict[str, RuleTexts], name="rules")


def load_conventions(module_file: str, behaviors: Mapping[str, Behavior[H, F]]) -> Mapping[str, Convention[H, F]]:
    """The conventions of the family whose module passes its `__file__`, in the order of `behaviors`.

    Raises `ValueError` where `rules.yaml` has other rules, or an entry that is no `RuleTexts`.
    """
    texts = load_texts(module_file)
    if texts.keys() != behaviors.keys():
        raise ValueError(f"rules.yaml and {module_file} differ: {sorted(texts.keys() ^ behaviors.keys())}")
    return {name: _convention(texts[name], behavior) for name, behavior in behaviors.items()}


def _convention(texts: RuleTexts, behavior: Behavior[H, F]) -> Convention[H, F]:
    def listed(site_config: H) -> Sequence[Literals]:
        return [{**each, **behavior.derive(site_config, each)} for each in texts.variants(site_config)]

    variants = behavior.variants or listed

    def draw_variant(draws: Draws, site_config: H) -> Literals:
        found = variants(site_config)
        return draws.choice(found) if any(found) else {}

    return Convention(texts, behavior.apply, variants, behavior.draw or draw_variant)


def rule_types(conventions: Mapping[str, Convention[H, F]]) -> Mapping[str, RuleType]:
    """The types of rules that they make."""
    return {
        name: RuleType(each.texts.paraphrases, each.texts.instruction, each.draw, each.texts.unseen)
        for name, each in conventions.items()
    }


def strategy_of(conventions: Mapping[str, Convention[H, Callable[[Literals], W]]], rule: Rule | None, plain: W) -> W:
    """How the harness counts where `rule` holds; `plain` where none does."""
    return conventions[rule.type].apply(dict(rule.literals)) if rule else plain


def slots_of(conventions: Mapping[str, Convention[H, F]], rule: Rule | None) -> dict[str, str]:
    """The lines of a script that somebody who believes in `rule` writes differently."""
    if rule is None:
        return {}
    literals = dict(rule.literals)
    return {slot: code % literals for slot, code in conventions[rule.type].texts.code.items()}


def fixed(**attributes: str) -> Draw[Any]:
    """Literals that are attributes of the site's configuration, by name. Unlike a single variant this takes no draw."""
    return lambda draws, site_config: {name: getattr(site_config, each) for name, each in attributes.items()}
