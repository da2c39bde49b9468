"""Worlds with hidden rules, generated from a seed: their sites, rules and drift."""

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
Size = Literal["full", "small"]
_CHOICES = {
    "frequencies": Frequencies,
    "salience": Salience,
    "wording": Wording,
    "drift": Drift,
    "names": Names,
    "size": Size,
}


@dataclass(frozen=True)
class WorldSpec:
    """The parameters of a world (`suite.options`). Raises `ConfigError` for invalid combinations."""

    ruled: int = 5
    """Number of sites with a hidden rule (the M of the learning curve)."""
    plain: int = 2
    """Number of sites where the naive solution is right."""
    unseen: int = 2
    """Maximum number of rules in a held-out world whose type never occurs in training worlds."""
    pieces: int = 1
    """Sites per task, each with its own subtask. All of them must be right."""
    frequencies: Frequencies = "uniform"
    """How often tasks involve each ruled site: equally often, or the j-th most frequent in proportion to 1/j^exponent.
    Together, ruled sites always have the share ruled / (ruled + plain)."""
    exponent: float = 1.2
    salience: Salience = "told"
    """What a rejection says: the rule and what to do (`told`), only the rule (`worded`), or only what is wrong
    (`symptom`)."""
    discovery: int = 0
    """Number of rejections that only say what is wrong, before one states the rule: the cost of discovering a rule."""
    wording: Wording = "varied"
    """How explicitly prompts name a site (`Entity.wording`)."""
    names: Names = "few"
    """The pool of names for the sites of training worlds; `many` has too many to memorise."""
    size: Size = "full"
    """`small`: shorter tasks with fewer types of rules, in families that have them (`small.py` in their folder)."""
    drift_at: int = 0
    """The task number at which the rules change; 0: never."""
    drift: Drift = "redraw"
    """The change: every ruled site gets another rule (`redraw`), or ruled and plain sites swap roles (`invert`)."""
    decoy: bool = False
    """Inverts the world from the start: sites that would have a rule have none, and vice versa. A library learned in
    the same world without `decoy` is misleading here."""

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
                    raise ConfigError(f"{name}: give a number above 0 and at most 10, not {value!r}")
            elif isinstance(value, bool) or not isinstance(value, int) or value < (each.name == "pieces"):
                raise ConfigError(f"{name}: give a whole number from {int(each.name == 'pieces')}, not {value!r}")
        if not self.sites:
            raise ConfigError("suite.options: a world needs at least one site; raise ruled or plain")
        if self.sites > _MOST_SITES:
            raise ConfigError(f"suite.options: a world has at most {_MOST_SITES} sites, not {self.sites}; lower ruled")
        if self.pieces > self.sites:
            raise ConfigError(f"suite.options.pieces: {self.pieces} per task, but only {self.sites} sites; lower it")

    @property
    def sites(self) -> int:
        """The number of all sites."""
        return self.ruled + self.plain

    @property
    def shares(self) -> tuple[float, ...]:
        """The probability of each site for the first subtask of a task, ruled sites first; they sum to 1."""
        raw = [1.0 if self.frequencies == "uniform" else (j + 1) ** -self.exponent for j in range(self.ruled)]
        ruled = [self.ruled / self.sites * each / sum(raw) for each in raw]
        return (*ruled, *[1 / self.sites] * self.plain)


_MOST_SITES = min(map(len, NAMES.values()))


def names_of(split: str, names: Names = "many") -> tuple[Name, ...]:
    """The site names of a split. Those that `few` excludes come last."""
    return NAMES[split] + (MORE_NAMES if names == "many" and split == "train" else ())


@dataclass(frozen=True)
class Site:
    """A site of a world. Every site has a rule, but the rule is only in force if the site is `ruled`, so that nothing
    generated for a site reveals whether it is ruled."""

    entity: Entity
    family: AnyFamily
    site_config: Any
    drawn: Rule
    ruled: bool
    epoch: int = 0

    @property
    def rule(self) -> Rule | None:
        """The rule in force; None if the naive solution is right."""
        return self.drawn if self.ruled else None

    @property
    def called(self) -> str:
        """Its name in feedback and skills, such as "the fleet desk"."""
        return f"the {self.entity.name} {self.family.noun}"

    @property
    def trigger(self) -> str:
        """The id of the rule in force, or "". It changes when the site's rule changes."""
        epoch = f"@{self.epoch}" if self.epoch else ""
        return f"{self.entity.name}:{self.drawn.type}{epoch}" if self.ruled else ""

    @property
    def skill_name(self) -> str:
        """The name of a skill about the site, such as `fleet-desk`."""
        return f"{self.entity.name}-{self.family.noun}"


@lru_cache(maxsize=256)
def draw_world(
    suite: str, families: tuple[AnyFamily, ...], split: str, world: int, spec: WorldSpec, epoch: int
) -> tuple[Site, ...]:
    """The sites of a world in an epoch (0 before the drift, 1 after it), in the order of `WorldSpec.shares`.

    Sites alternate between families. Within a family no rule type repeats until all were used; plain sites draw from
    the same types.
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
        # Each site has its own random stream, so that its draws do not affect other sites.
        own = Draws(suite, split, world, name.word)
        site_config = family.site_config(entity, kind, own)
        rule = draw_rule(kind, family.rules[kind], own, site_config)
        sites.append(Site(entity, family, site_config, rule, (number < spec.ruled) != spec.decoy))
    if not epoch:
        return tuple(sites)
    return tuple(_drifted(site, spec, Draws(suite, split, world, site.entity.name, "drift")) for site in sites)


def _draw_unseen(draws: Draws, spec: WorldSpec) -> frozenset[int]:
    """The sites whose rules have unseen types: random ruled sites, regardless of their frequency, and as many plain
    ones, whose rules hold in the inverted world."""
    ruled = draws.sample(range(spec.ruled), min(spec.unseen, spec.ruled))
    plain = draws.sample(range(spec.ruled, spec.sites), min(spec.unseen, spec.plain))
    return frozenset((*ruled, *plain))


class _Deck:
    """Deals a family's rule types in random order. No type repeats before all were dealt."""

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
    """Draws another rule for the same site. Raises `ValueError` if the family has no other."""
    family = site.family
    held_out = site.entity.split == "heldout"
    kinds = [kind for kind in family.kinds(site.site_config) if held_out or not family.rules[kind].unseen]
    for kind in draws.shuffled(kinds * 8):
        rule = draw_rule(kind, family.rules[kind], draws, site.site_config)
        if rule.instruction != site.drawn.instruction:
            return rule
    raise ValueError(f"{family.name}: a site has only one rule ({site.drawn.instruction}), so it cannot drift")


def draw_sites(sites: Sequence[Site], spec: WorldSpec, draws: Draws) -> list[Site]:
    """Draws the sites of one task, without replacement, in proportion to their shares."""
    left = list(range(len(sites)))
    chosen = []
    for _ in range(spec.pieces):
        number = draws.weighted(left, [spec.shares[n] for n in left])
        left.remove(number)
        chosen.append(sites[number])
    return chosen


def task_id(split: str, world: int, seed: int, number: int) -> str:
    """A task id that is unique within its suite."""
    return f"{split}-w{world}-s{seed}-{number:06d}"
