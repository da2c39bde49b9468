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
from hermes_lab.tasks.worlds import Place
from hermes_lab.types import Skill

_DRAWS = 32
"""Draws of each type of rule for a place: what else its rule might have been."""


class Telling:
    """Reads skills against the rules of `places`, a world in one epoch; `past` are the same places in earlier ones."""

    def __init__(self, places: Sequence[Place], past: Sequence[Place] = ()) -> None:
        self._places = [_Read(place, [p.drawn for p in past if p.site == place.site]) for place in places]

    @property
    def rules(self) -> frozenset[str]:
        """The ids of the rules in force, as in `Task.triggers`."""
        return frozenset(each.place.trigger for each in self._places if each.place.ruled)

    def told(self, skill: Skill) -> tuple[str, ...]:
        """The ids of the rules in force that a skill tells of the places it names; and "" for each other rule that it
        tells of them, whether of another time, of other literals, or of a place without a rule.

        A rule that holds at one of the places that the skill names is no untrue one at the others.
        """
        text = f"{skill.name.replace('-', ' ')}\n{skill.text}".lower()
        # A place's name is an ordinary word: "the legal desk" is surer than "legal".
        called = [each for each in self._places if each.place.called.lower() in text]
        named = called or [each for each in self._places if each.named_in(text)]
        found = [(each.place, each.told_in(text)) for each in named]
        true = [place.trigger for place, told in found if place.ruled and place.drawn.recipe in told]
        holds = {place.drawn.recipe for place in (each.place for each in named) if place.ruled}
        untrue = {recipe for _, told in found for recipe in told} - holds
        return (*true, *[""] * len(untrue))


class _Read:
    """One place, and how each rule that it might have would be told."""

    def __init__(self, place: Place, past: Sequence[Rule]) -> None:
        self.place = place
        self._past = past

    def named_in(self, text: str) -> bool:
        """Whether the text is about the place, among others."""
        site = self.place.site
        name = rf"(?<![\w-]){re.escape(site.name.lower())}(?!\w)"
        return site.about.lower() in text or re.search(name, text) is not None

    def told_in(self, text: str) -> frozenset[str]:
        """The recipes of the rules that the text tells: by their whole words, else by a clause, which rules of one type
        may share: then the one that is in force, if it is among them, else any one."""
        own = self.place.drawn.recipe
        # What rules share, the one in force is meant by: so it is the last to be put in.
        rules = sorted(self._rules, key=lambda rule: rule.recipe == own)
        whole = {
            phrase: rule.recipe for rule in rules for phrase in self._phrases[rule.recipe] if _stands(phrase, text)
        }
        # "--sign kind" stands in "--sign kind --net", too.
        longest = [recipe for phrase, recipe in whole.items() if not any(phrase in p for p in whole.keys() - {phrase})]
        if longest:
            return frozenset(longest)
        weak = [rule.recipe for rule in rules if any(clause.lower() in text for clause in rule.clauses)]
        return frozenset(weak[-1:])

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        place = self.place
        draws = Draws("telling", place.site.name, place.drawn.recipe)
        held_out = place.site.split == "heldout"
        kinds = [kind for kind in place.family.kinds(place.shape) if held_out or not place.family.rules[kind].unseen]
        drawn = (draw_rule(kind, place.family.rules[kind], draws, place.shape) for kind in kinds for _ in range(_DRAWS))
        return tuple({rule.recipe: rule for rule in (place.drawn, *self._past, *drawn)}.values())

    @cached_property
    def _phrases(self) -> Mapping[str, tuple[str, ...]]:
        place = self.place
        howto = {rule.recipe: place.family.howto(place.site, place.shape, rule).lower() for rule in self._rules}
        # A skill begins with the clause; what is to be done comes after it, where the family says more than the clause.
        to_do = {recipe: told.partition("\n\n")[2] for recipe, told in howto.items()}
        return {recipe: tuple(filter(None, (recipe.lower(), howto[recipe], to_do[recipe]))) for recipe in howto}


def _stands(phrase: str, text: str) -> bool:
    """Whether the text holds the phrase, and not the beginning of a longer word: "--cap 30" is not in "--cap 300"."""
    return phrase in text and re.search(rf"{re.escape(phrase)}(?!\w)", text) is not None
