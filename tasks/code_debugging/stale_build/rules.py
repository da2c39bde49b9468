"""The conventions by which a site may want its builds: the release order that each requires."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions, rule_types


@dataclass(frozen=True)
class SiteConfig:
    """The files of a package and the words of its site. Every package has all of them."""

    parts: tuple[str, ...]
    """Files of src/ other than the one with the package's name."""
    banners: tuple[str, ...]
    """Files of banners/."""
    channels: tuple[str, ...]
    codenames: tuple[str, ...]
    seals: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """The arguments of a build: the order, as the site writes it."""

    numbers: tuple[int, int, int]
    """The release: 2, 4, 1."""
    day: str
    """YYYY-MM-DD."""
    prefix: str = ""
    separator: str = "."
    suffix: str = ""
    digits: int = 1
    digest: str = "sha256"
    channel: str = "main"
    banner: str = ""
    first: str = ""
    without: str = ""
    seal: str = ""

    @property
    def label(self) -> str:
        """The release as an argument."""
        return self.prefix + self.separator.join(f"{n:0{self.digits}d}" for n in self.numbers) + self.suffix

    @property
    def options(self) -> str:
        """The options that differ from the tool's defaults, each after a space."""
        given = {
            "digest": self.digest if self.digest != "sha256" else "",
            "channel": self.channel if self.channel != "main" else "",
            "banner": f"banners/{self.banner}" if self.banner else "",
            "first": self.first,
            "without": self.without,
            "seal": self.seal,
        }
        return "".join(f" --{name} {value}" for name, value in given.items() if value)


Apply = Callable[[Order, Literals], Order]


def ordered(order: Order, rule: Rule | None) -> Order:
    """The right call of the build under `rule`."""
    return CONVENTIONS[rule.type].apply(order, dict(rule.literals)) if rule else order


def _dated(order: Order, rule: Literals) -> Order:
    year, month, day = order.day.split("-")
    written = rule["form"].replace("YYYY", year).replace("YY", year[2:]).replace("MM", month).replace("DD", day)
    return replace(order, day=written)


_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Apply]] = {
    "prefix": Behavior(lambda order, rule: replace(order, prefix=rule["prefix"])),
    "padded": Behavior(lambda order, rule: replace(order, digits=rule["digits"])),
    "joined": Behavior(lambda order, rule: replace(order, separator=rule["sign"])),
    "named": Behavior(lambda order, rule: replace(order, suffix=f"-{rule['codename']}")),
    "dated": Behavior(_dated),
    "digest": Behavior(lambda order, rule: replace(order, digest=rule["digest"])),
    "first": Behavior(lambda order, rule: replace(order, first=rule["part"])),
    "without": Behavior(lambda order, rule: replace(order, without=rule["part"])),
    "banner": Behavior(lambda order, rule: replace(order, banner=rule["banner"])),
    "channel": Behavior(lambda order, rule: replace(order, channel=rule["channel"])),
    "reversed": Behavior(
        lambda order, rule: replace(order, numbers=(order.numbers[2], order.numbers[1], order.numbers[0]))
    ),
    "stepped": Behavior(
        lambda order, rule: replace(order, numbers=(*order.numbers[:2], order.numbers[2] * rule["step"]))
    ),
    "sealed": Behavior(lambda order, rule: replace(order, seal=rule["seal"])),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
RULES = rule_types(CONVENTIONS)
