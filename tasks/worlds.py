"""Worlds of hidden rules: what a seed draws, and what its tasks trigger."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal, get_args

from hermes_lab.errors import ConfigError
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity, Family, Rule, draw_rule
from hermes_lab.tasks.names import MORE_NAMES, NAMES, Name

AnyFamily = Family[Any, Any]
SPLITS = tuple(NAMES)

Frequencies = Literal["uniform", "zipf"]
Salience = Literal["told", "worded", "symptom"]
Wording = Literal["near", "varied", "far"]
Drift = Literal["redraw", "invert"]
Names = Literal["few", "many"]
_CHOICES = {
    "frequencies": Frequencies,
    "salience": Salience,
    "wording": Wording,
    "drift": Drift,
    "names": Names,
}


@dataclass(frozen=True)
class WorldSpec:
    """The knobs of a world: `suite.options`. Raises `ConfigError` for a world that cannot be."""

    ruled: int = 5
    """Places with a hidden rule each (the M of the learning curve)."""
    plain: int = 2
    """Places where the obvious way is right."""
    unseen: int = 2
    """How many of the rules of a held-out world, at most, are of types that training never shows."""
    pieces: int = 1
    """Places that one task is about, so at most as many rules: all must come out right."""
    frequencies: Frequencies = "uniform"
    """How often tasks are about the ruled places: all alike, or the j-th most frequent in proportion to 1/j^exponent.
    Ruled places together have the share ruled / (ruled + plain) either way."""
    exponent: float = 1.2
    salience: Salience = "told"
    """What a rejection tells: the rule and what to do about it, the rule in words alone, or only what is wrong."""
    discovery: int = 0
    """Rejections that tell only what is wrong, before one tells the rule: what finding a rule costs."""
    wording: Wording = "varied"
    """How far the words of a task are from those of the world (`Entity.wording`)."""
    names: Names = "few"
    """How many names the places of training worlds are drawn from: `many` cannot be learnt by heart."""
    drift_at: int = 0
    """The number of the task from which on the rules are others; 0: they stay."""
    drift: Drift = "redraw"
    """What happens there: every ruled place gets another rule, or ruled and plain places change roles."""
    decoy: bool = False
    """The world inverted from the start: where it would have had a rule there is none, and the other way round. A
    library that was learnt in the same world without it misleads here."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value, name = getattr(self, each.name), f"suite.options.{each.name}"
            if each.name in _CHOICES:
                allowed = get_args(_CHOICES[each.name])
                if value not in allowed:
                    raise ConfigError(f"{name}: give {', '.join(allowed)}, not {value!r}")
            elif each.type is bool:
                if not isinstance(value, bool):
                    raise ConfigError(f"{name}: give true or false, not {value!r}")
            elif each.type is float:
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 10:
                    raise ConfigError(f"{name}: give a number over 0, at most 10, not {value!r}")
            elif isinstance(value, bool) or not isinstance(value, int) or value < (each.name == "pieces"):
                raise ConfigError(f"{name}: give a whole number from {int(each.name == 'pieces')}, not {value!r}")
        if not self.sites:
            raise ConfigError("suite.options: a world has at least one place; raise ruled or plain")
        if self.sites > _MOST:
            raise ConfigError(f"suite.options: a world has at most {_MOST} places, not {self.sites}; lower ruled")
        if self.pieces > self.sites:
            raise ConfigError(f"suite.options.pieces: a task is about {self.pieces} places of {self.sites}; lower it")

    @property
    def sites(self) -> int:
        """All of them."""
        return self.ruled + self.plain

    @property
    def shares(self) -> tuple[float, ...]:
        """The probability that a task's first piece is about each place, the ruled ones first; they add up to 1."""
        raw = [1.0 if self.frequencies == "uniform" else (j + 1) ** -self.exponent for j in range(self.ruled)]
        ruled = [self.ruled / self.sites * each / sum(raw) for each in raw]
        return (*ruled, *[1 / self.sites] * self.plain)


_MOST = min(map(len, NAMES.values()))


def names_of(split: str, names: Names = "many") -> tuple[Name, ...]:
    """What the places of a split may be called; those that `few` leaves out come last."""
    return NAMES[split] + (MORE_NAMES if names == "many" and split == "train" else ())


@dataclass(frozen=True)
class Site:
    """One place of a world. It has a rule either way, which is in force only where the place is `ruled`: so nothing
    that is drawn for it tells the two kinds apart."""

    entity: Entity
    family: AnyFamily
    site_config: Any
    drawn: Rule
    ruled: bool
    epoch: int = 0

    @property
    def rule(self) -> Rule | None:
        """The rule in force; None where the obvious way is right."""
        return self.drawn if self.ruled else None

    @property
    def called(self) -> str:
        """How its people call it."""
        return f"the {self.entity.name} {self.family.noun}"

    @property
    def trigger(self) -> str:
        """The id of the rule in force; empty where there is none. Another rule at the place has another id."""
        epoch = f"@{self.epoch}" if self.epoch else ""
        return f"{self.entity.name}:{self.drawn.type}{epoch}" if self.ruled else ""

    @property
    def skill_name(self) -> str:
        """The name of a skill about it: the words of `called`."""
        return f"{self.entity.name}-{self.family.noun}"


@lru_cache(maxsize=256)
def draw_world(
    suite: str, families: tuple[AnyFamily, ...], split: str, world: int, spec: WorldSpec, epoch: int
) -> tuple[Site, ...]:
    """The places of a world in an epoch (0 until the drift, then 1), in the order of `WorldSpec.shares`.

    The families take turns. In a family the rules are of different types as far as it has them; the plain places draw
    from the same types.
    """
    draws = Draws(suite, split, world)
    turns = draws.shuffled(families)
    names = draws.sample(names_of(split, spec.names), spec.sites)
    unseen = _draw_unseen(Draws(suite, split, world, "unseen"), spec) if split == "heldout" else frozenset()
    decks = {family.name: _Deck(family, draws, held_out=split == "heldout") for family in families}
    sites = []
    for number, name in enumerate(names):
        family = turns[number % len(turns)]
        entity = Entity(name.word, name.about, split, spec.wording)
        kind = decks[family.name].draw(unseen=number in unseen)
        # A stream of its own for each place: what one draws changes nothing at the others.
        own = Draws(suite, split, world, name.word)
        site_config = family.site_config(entity, kind, own)
        rule = draw_rule(kind, family.rules[kind], own, site_config)
        sites.append(Site(entity, family, site_config, rule, (number < spec.ruled) != spec.decoy))
    if not epoch:
        return tuple(sites)
    return tuple(_drifted(site, spec, Draws(suite, split, world, site.entity.name, "drift")) for site in sites)


def _draw_unseen(draws: Draws, spec: WorldSpec) -> frozenset[int]:
    """The places whose rules are of unseen types: some of the ruled ones, met no more often than the others, and as
    many of the plain ones, whose rules hold in the world inverted."""
    ruled = draws.sample(range(spec.ruled), min(spec.unseen, spec.ruled))
    plain = draws.sample(range(spec.ruled, spec.sites), min(spec.unseen, spec.plain))
    return frozenset((*ruled, *plain))


class _Deck:
    """The types of a family's rules, each dealt once before one comes again."""

    def __init__(self, family: AnyFamily, draws: Draws, *, held_out: bool) -> None:
        self._draws = draws
        self._seen = [name for name, kind in family.rules.items() if not kind.unseen]
        self._unseen = [name for name, kind in family.rules.items() if kind.unseen and held_out]
        self._left: dict[bool, list[str]] = {True: [], False: []}

    def draw(self, *, unseen: bool) -> str:
        unseen = unseen and bool(self._unseen)
        if not self._left[unseen]:
            self._left[unseen] = self._draws.shuffled(self._unseen if unseen else self._seen)
        return self._left[unseen].pop()


def _drifted(site: Site, spec: WorldSpec, draws: Draws) -> Site:
    if spec.drift == "invert":
        return Site(site.entity, site.family, site.site_config, site.drawn, not site.ruled, epoch=1)
    return Site(site.entity, site.family, site.site_config, redraw(site, draws), site.ruled, epoch=1)


def redraw(site: Site, draws: Draws) -> Rule:
    """Another rule for the same place. Raises `ValueError` for a family that has none."""
    family = site.family
    held_out = site.entity.split == "heldout"
    kinds = [kind for kind in family.kinds(site.site_config) if held_out or not family.rules[kind].unseen]
    for kind in draws.shuffled(kinds * 8):
        rule = draw_rule(kind, family.rules[kind], draws, site.site_config)
        if rule.instruction != site.drawn.instruction:
            return rule
    raise ValueError(f"{family.name}: a site has only one possible rule ({site.drawn.instruction}), so it cannot drift")


def draw_sites(sites: Sequence[Site], spec: WorldSpec, draws: Draws) -> list[Site]:
    """The places of one task: different ones, one after the other by their shares."""
    left = list(range(len(sites)))
    chosen = []
    for _ in range(spec.pieces):
        number = draws.weighted(left, [spec.shares[n] for n in left])
        left.remove(number)
        chosen.append(sites[number])
    return chosen


def task_id(split: str, world: int, seed: int, number: int) -> str:
    """An id that is unique within a suite."""
    return f"{split}-w{world}-s{seed}-{number:06d}"
