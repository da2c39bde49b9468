"""What a text tells of the rules of a world: a harness's own reading of a library, whoever wrote it.

Texts are read, not understood: a rule counts as told where the words of its recipe, of one of its clauses, or of its
shipped skill (all of it, or what it says to do) stand in the text. A paraphrase tells nothing here, and "no longer"
changes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, draw_rule
from hermes_lab.tasks.worlds import Site
from hermes_lab.types import Skill

_DRAWS = 32
"""Draws of each type of rule for a place: what else its rule might have been."""


class Telling:
    """Reads skills against the rules of `sites`, a world in one epoch; `past` are the same places in earlier ones."""

    def __init__(self, sites: Sequence[Site], past: Sequence[Site] = ()) -> None:
        self._places = [_Read(site, [p.drawn for p in past if p.entity == site.entity]) for site in sites]

    @property
    def rules(self) -> frozenset[str]:
        """The ids of the rules in force, as in `Task.triggers`."""
        return frozenset(each.site.trigger for each in self._places if each.site.ruled)

    def stated_rules(self, skill: Skill) -> tuple[str, ...]:
        """The ids of the rules in force that a skill tells of the places it names; and "" for each other rule that it
        tells of them, whether of another time, of other literals, or of a place without a rule.

        A rule that holds at one of the places that the skill names is no untrue one at the others.
        """
        text = f"{skill.name.replace('-', ' ')}\n{skill.text}".lower()
        # A place's name is an ordinary word: "the legal desk" is surer than "legal".
        called = [each for each in self._places if each.site.called.lower() in text]
        named = called or [each for each in self._places if each.named_in(text)]
        found = [(each.site, each.stated_in(text)) for each in named]
        true = [site.trigger for site, told in found if site.ruled and site.drawn.instruction in told]
        holds = {site.drawn.instruction for site in (each.site for each in named) if site.ruled}
        untrue = {instruction for _, told in found for instruction in told} - holds
        return (*true, *[""] * len(untrue))


class _Read:
    """One place, and how each rule that it might have would be told."""

    def __init__(self, site: Site, past: Sequence[Rule]) -> None:
        self.site = site
        self._past = past

    def named_in(self, text: str) -> bool:
        """Whether the text is about the place, among others."""
        entity = self.site.entity
        name = rf"(?<![\w-]){re.escape(entity.name.lower())}(?!\w)"
        return entity.about.lower() in text or re.search(name, text) is not None

    def stated_in(self, text: str) -> frozenset[str]:
        """The recipes of the rules that the text tells: by their whole words, else by a clause, which rules of one type
        may share: then the one that is in force, if it is among them, else any one."""
        own = self.site.drawn.instruction
        # What rules share, the one in force is meant by: so it is the last to be put in.
        rules = sorted(self._rules, key=lambda rule: rule.instruction == own)
        whole = {
            phrase: rule.instruction
            for rule in rules
            for phrase in self._phrases[rule.instruction]
            if _stands(phrase, text)
        }
        # "--sign kind" stands in "--sign kind --net", too.
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
        # A skill begins with the clause; what is to be done comes after it, where the family says more than the clause.
        to_do = {instruction: told.partition("\n\n")[2] for instruction, told in skill_body.items()}
        return {
            instruction: tuple(filter(None, (instruction.lower(), skill_body[instruction], to_do[instruction])))
            for instruction in skill_body
        }


def _stands(phrase: str, text: str) -> bool:
    """Whether the text holds the phrase, and not the beginning of a longer word: "--cap 30" is not in "--cap 300"."""
    return phrase in text and re.search(rf"{re.escape(phrase)}(?!\w)", text) is not None
