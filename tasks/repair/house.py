"""A house: the components of one world, and the conventions that hold in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tasks.repair import amounts, lists, texts, times
from tasks.repair.topic import Args, Json, Topic
from tasks.repair.words import VOCABULARIES
from tasks.worlds import Draws, WorldSpec

TOPICS: Mapping[str, Topic] = {**amounts.TOPICS, **lists.TOPICS, **texts.TOPICS, **times.TOPICS}
UNSEEN = ("free", "draft", "group", "gap")
"""Topics that appear in held-out worlds alone."""
SEEN = tuple(name for name in TOPICS if name not in UNSEEN)


@dataclass(frozen=True)
class Component:
    """One module of the house. Its functions are all of one topic, and where it is `ruled` by the house's convention.

    A plain component has a `rule` too, which decides what it is tested with, but not what is right.
    """

    name: str
    type: str
    """A key of `TOPICS`."""
    rule: Json
    ruled: bool

    @property
    def topic(self) -> Topic:
        """What its bugs are about."""
        return TOPICS[self.type]

    @property
    def seen(self) -> bool:
        """Whether no convention holds, or one that training worlds have too."""
        return not self.ruled or self.type in SEEN

    def right(self, constant: Json, args: Args) -> Json:
        """What the function has to return."""
        return self.topic.house(constant, self.rule, *args) if self.ruled else self.obvious(constant, args)

    def obvious(self, constant: Json, args: Args) -> Json:
        """What it would have to return without the convention."""
        return self.topic.plain(constant, *args)

    def rule_matters(self, constant: Json, args: Args) -> bool:
        """Whether the convention, if it holds here or not, gives something else at these arguments."""
        return bool(self.topic.house(constant, self.rule, *args) != self.obvious(constant, args))

    @property
    def fix(self) -> str:
        """The body of a right function."""
        return self.topic.house_code.replace("RULE", repr(self.rule)) if self.ruled else self.topic.plain_code


@dataclass(frozen=True)
class House:
    """One world: its package, and its components, those with a convention first."""

    package: str
    components: tuple[Component, ...]


@lru_cache(maxsize=256)
def draw_house(split: str, world: int, spec: WorldSpec) -> House:
    """The house of a world. No two conventions of a world are of one topic.

    The plain components draw their topics from the same types, those of the ruled ones included: that one component
    rounds up says nothing of another that rounds too.
    """
    draws = Draws("repair", split, world)
    words = VOCABULARIES[split]
    unseen = min(spec.unseen, spec.ruled) if split == "heldout" else 0
    ruled = draws.sample(UNSEEN, unseen) + draws.sample(SEEN, spec.ruled - unseen)
    plain = draws.sample(SEEN + UNSEEN if unseen else SEEN, spec.plain)
    components = [
        Component(name, type_, draws.choice(TOPICS[type_].rules), ruled=place < spec.ruled)
        for place, (name, type_) in enumerate(
            zip(draws.sample(words.components, spec.places), ruled + plain, strict=True)
        )
    ]
    return House(draws.choice(words.packages), tuple(components))
