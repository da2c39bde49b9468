"""Rules as data: their texts and literals are in a family's `rules.yaml`, their behavior in its Python code.

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
    """Not set for house tools, which derive it from `flags`."""
    flags: str = ""
    """House tools only: the flags to add, as a format string over the literals."""
    option: Mapping[str, str | int] = {}
    """House tools only: the arguments of `add_argument` for the flag."""
    site: Mapping[str, str] = {}
    """Literals that have one value per site: by name, the attribute of the site's configuration."""
    each: Mapping[str, str] = {}
    """A literal that takes each value of an attribute of the site's configuration."""
    literals: Mapping[str, tuple[Any, ...] | str] = {}
    """By name, the values of a literal, or a range of integers such as `2..6`. Literals are zipped: all take their
    first values, or all their second values, ..."""
    code: Mapping[str, str] = {}
    """The lines of the script that the rule changes, by slot: %-format strings over the literals."""
    unseen: bool = False

    def variants(self, site_config: object) -> list[Literals]:
        """The possible literals of the rule at a site."""
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
    """The behavior of a rule. If `rules.yaml` cannot express its literals, `variants` lists the possible ones at a
    site, of which one is drawn, or `draw` draws them."""

    apply: F
    variants: Variants[H] | None = None
    draw: Draw[H] | None = None
    derive: Callable[[H, Literals], Literals] = lambda site_config, literals: {}
    """Computes more literals from the site and those of `rules.yaml`. It may also replace the latter."""


@dataclass(frozen=True)
class Convention(Generic[H, F]):
    """A complete rule type: `texts` from `rules.yaml`, `apply` from the family."""

    texts: RuleTexts
    apply: F
    """Applies the rule in the verifier. Its signature depends on the family."""
    variants: Variants[H]
    draw: Draw[H] = field(repr=False)


def load_texts(module_file: str) -> Mapping[str, RuleTexts]:
    """The rules of `rules.yaml` in the folder of `module_file`, the calling module's `__file__`."""
    return load_words(module_file, dict[str, RuleTexts], name="rules")


def load_conventions(module_file: str, behaviors: Mapping[str, Behavior[H, F]]) -> Mapping[str, Convention[H, F]]:
    """The conventions of a family, in the order of `behaviors`. `module_file` is the calling module's `__file__`.

    Raises `ValueError` if `rules.yaml` has other rules, or an entry that is not a valid `RuleTexts`.
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
    """The rule types of `conventions`."""
    return {
        name: RuleType(each.texts.paraphrases, each.texts.instruction, each.draw, each.texts.unseen)
        for name, each in conventions.items()
    }


def strategy_of(conventions: Mapping[str, Convention[H, Callable[[Literals], W]]], rule: Rule | None, plain: W) -> W:
    """The verifier's strategy under `rule`; `plain` if it is None."""
    return conventions[rule.type].apply(dict(rule.literals)) if rule else plain


def slots_of(conventions: Mapping[str, Convention[H, F]], rule: Rule | None) -> dict[str, str]:
    """The lines of the solution script that `rule` changes, by slot."""
    if rule is None:
        return {}
    literals = dict(rule.literals)
    return {slot: code % literals for slot, code in conventions[rule.type].texts.code.items()}


def fixed(**attributes: str) -> Draw[Any]:
    """A `draw` whose literals are attributes of the site's configuration, by name. Unlike with a single variant, it
    draws no random number."""
    return lambda draws, site_config: {name: getattr(site_config, each) for name, each in attributes.items()}
