"""Detects which rules of a world a skill states, regardless of its author.

Detection is by text matching: a rule counts as stated if the text contains its instruction, one of its paraphrases, or
the body of its reference skill (all of it, or the part that says what to do). Other wordings are not recognised, and
negations such as "no longer" are ignored.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, draw_rule
from hermes_lab.tasks.worlds import Site
from hermes_lab.types import Skill

_DRAWS = 32
"""Draws per rule type and site, to detect statements of rules that the site does not have."""


class RuleMatcher:
    """Matches skills with the rules of `sites`, a world in one epoch. `past` are the same sites in earlier epochs."""

    def __init__(self, sites: Sequence[Site], past: Sequence[Site] = ()) -> None:
        self._sites = [_SiteMatcher(site, [p.drawn for p in past if p.entity == site.entity]) for site in sites]

    @property
    def rules(self) -> frozenset[str]:
        """The ids of the rules in force, as in `Task.triggers`."""
        return frozenset(each.site.trigger for each in self._sites if each.site.ruled)

    def stated_rules(self, skill: Skill) -> tuple[str, ...]:
        """The ids of the rules in force that a skill states about the sites it names, and "" for each other rule that
        it states about them: one from another epoch, with other literals, or about a site without a rule.

        A rule that holds at one of the named sites does not count as false at the others.
        """
        text = f"{skill.name.replace('-', ' ')}\n{skill.text}".lower()
        # Site names are ordinary words, so a match of "the legal desk" is more reliable than one of "legal".
        called = [each for each in self._sites if each.site.called.lower() in text]
        named = called or [each for each in self._sites if each.named_in(text)]
        found = [(each.site, each.stated_in(text)) for each in named]
        true = [site.trigger for site, told in found if site.ruled and site.drawn.instruction in told]
        holds = {site.drawn.instruction for site in (each.site for each in named) if site.ruled}
        untrue = {instruction for _, told in found for instruction in told} - holds
        return (*true, *[""] * len(untrue))


class _SiteMatcher:
    """Matches texts with a site and the rules that it could have."""

    def __init__(self, site: Site, past: Sequence[Rule]) -> None:
        self.site = site
        self._past = past

    def named_in(self, text: str) -> bool:
        """Whether the text names or describes the site."""
        entity = self.site.entity
        name = rf"(?<![\w-]){re.escape(entity.name.lower())}(?!\w)"
        return entity.about.lower() in text or re.search(name, text) is not None

    def stated_in(self, text: str) -> frozenset[str]:
        """The instructions of the rules that the text states. If no instruction or skill body matches, paraphrases
        count. Rules of one type may share a paraphrase, so this gives at most one rule, preferably the site's own."""
        own = self.site.drawn.instruction
        # Of rules that share a phrase the last one wins, so the site's own rule comes last.
        rules = sorted(self._rules, key=lambda rule: rule.instruction == own)
        whole = {
            phrase: rule.instruction
            for rule in rules
            for phrase in self._phrases[rule.instruction]
            if _contains(phrase, text)
        }
        # Keep only the longest matches: "--sign kind" also matches in "--sign kind --net".
        longest = [
            instruction
            for phrase, instruction in whole.items()
            if not any(phrase in p for p in whole.keys() - {phrase})
        ]
        if longest:
            return frozenset(longest)
        weak = [
            rule.instruction for rule in rules if any(paraphrase.lower() in text for paraphrase in rule.paraphrases)
        ]
        return frozenset(weak[-1:])

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        site = self.site
        draws = Draws("telling", site.entity.name, site.drawn.instruction)
        held_out = site.entity.split == "heldout"
        kinds = [kind for kind in site.family.kinds(site.site_config) if held_out or not site.family.rules[kind].unseen]
        drawn = (
            draw_rule(kind, site.family.rules[kind], draws, site.site_config) for kind in kinds for _ in range(_DRAWS)
        )
        return tuple({rule.instruction: rule for rule in (site.drawn, *self._past, *drawn)}.values())

    @cached_property
    def _phrases(self) -> Mapping[str, tuple[str, ...]]:
        site = self.site
        skill_body = {
            rule.instruction: site.family.skill_body(site.entity, site.site_config, rule).lower()
            for rule in self._rules
        }
        # A skill body starts with the paraphrase; some families add a paragraph that says what to do.
        to_do = {instruction: body.partition("\n\n")[2] for instruction, body in skill_body.items()}
        return {
            instruction: tuple(filter(None, (instruction.lower(), skill_body[instruction], to_do[instruction])))
            for instruction in skill_body
        }


def _contains(phrase: str, text: str) -> bool:
    """Whether the text contains the phrase, followed by the end of a word: "--cap 30" is not in "--cap 300"."""
    return phrase in text and re.search(rf"{re.escape(phrase)}(?!\w)", text) is not None
