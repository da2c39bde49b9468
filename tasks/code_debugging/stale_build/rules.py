"""How houses want their builds: the conventions, and what each makes of an order to release."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType


@dataclass(frozen=True)
class SiteConfig:
    """What a package is made of, and the words that its house has. Every package has all of them."""

    parts: tuple[str, ...]
    """Files of src/ beside the one that carries the package's name."""
    banners: tuple[str, ...]
    """Files of banners/."""
    channels: tuple[str, ...]
    codenames: tuple[str, ...]
    seals: tuple[str, ...]


@dataclass(frozen=True)
class Order:
    """How a build is called: what somebody ordered, as the house writes it."""

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
        """The options that differ from what the tool does of itself, each after a blank."""
        given = {
            "digest": self.digest if self.digest != "sha256" else "",
            "channel": self.channel if self.channel != "main" else "",
            "banner": f"banners/{self.banner}" if self.banner else "",
            "first": self.first,
            "without": self.without,
            "seal": self.seal,
        }
        return "".join(f" --{name} {value}" for name, value in given.items() if value)


@dataclass(frozen=True)
class Convention:
    """How a house wants its builds. `paraphrases` and `instruction` are format strings over what `draw` gives."""

    paraphrases: tuple[str, ...]
    instruction: str
    draw: Callable[[Draws, SiteConfig], Mapping[str, Any]]
    order: Callable[[Order, Rule], Order]
    unseen: bool = field(default=False)

    @property
    def rule_type(self) -> RuleType:
        """The convention as a family has it."""
        return RuleType(self.paraphrases, self.instruction, self.draw, self.unseen)


def _one_of(name: str, items: Sequence[Any]) -> Callable[[Draws, SiteConfig], Mapping[str, Any]]:
    return lambda draws, _: {name: draws.choice(items)}


def _written(day: str, form: str) -> str:
    year, month, number = day.split("-")
    return form.replace("YYYY", year).replace("YY", year[2:]).replace("MM", month).replace("DD", number)


CONVENTIONS: Mapping[str, Convention] = {
    "prefix": Convention(
        (
            "the label of every release begins with {prefix}",
            "a release without {prefix} in front of its numbers is not found by the installer",
            "labels are read from {prefix} on, which stands before the first number",
        ),
        "put {prefix} in front of the release that you give to tools/build.py",
        _one_of("prefix", ("v", "r", "rel-", "no-", "b", "R-")),
        lambda order, rule: replace(order, prefix=rule["prefix"]),
    ),
    "padded": Convention(
        (
            "every number of a label has {digits} digits",
            "labels are sorted as text, so their numbers are filled up with zeros to {digits} digits",
            "the installer cuts labels into numbers of just {digits} digits",
        ),
        "fill each number of the release with zeros to {digits} digits",
        _one_of("digits", (2, 3, 4)),
        lambda order, rule: replace(order, digits=rule["digits"]),
    ),
    "joined": Convention(
        (
            "the numbers of a label are joined by {sign!r}, never by points",
            "a point in a label ends it, which is why {sign!r} stands between the numbers",
            "labels become names of folders, with {sign!r} where others put a point",
        ),
        "write {sign!r} instead of each point of the release",
        _one_of("sign", ("_", "-", "+", ":", "~")),
        lambda order, rule: replace(order, separator=rule["sign"]),
    ),
    "named": Convention(
        (
            "labels end with -{codename}, the name of this year's line",
            "the installer takes releases of the line {codename} only, whose name follows the numbers after a dash",
            "after the last number comes -{codename}",
        ),
        "append -{codename} to the release",
        lambda draws, site_config: {"codename": draws.choice(site_config.codenames)},
        lambda order, rule: replace(order, suffix=f"-{rule['codename']}"),
    ),
    "dated": Convention(
        (
            "days are written {form} here",
            "the day of a build has the form {form}, or the installer takes it for another day",
            "whoever reads a build expects its day as {form}",
        ),
        "give the date to tools/build.py in the form {form}",
        _one_of("form", ("DD.MM.YYYY", "YYYYMMDD", "DD/MM/YYYY", "MM/DD/YYYY", "YYYY.MM.DD", "DD-MM-YY")),
        lambda order, rule: replace(order, day=_written(order.day, rule["form"])),
    ),
    "digest": Convention(
        (
            "deliveries are checked by {digest}, nothing else",
            "the installer knows {digest} as its only hash",
            "the hash of a delivery is a {digest}",
        ),
        "build with --digest {digest}",
        _one_of("digest", ("sha1", "md5", "sha512", "sha384", "blake2b", "sha3_256")),
        lambda order, rule: replace(order, digest=rule["digest"]),
    ),
    "first": Convention(
        (
            "{part} has to be on top of what is delivered",
            "the installer looks for {part} at the beginning",
            "of all parts {part} comes first",
        ),
        "build with --first {part}",
        lambda draws, site_config: {"part": draws.choice(site_config.parts)},
        lambda order, rule: replace(order, first=rule["part"]),
    ),
    "without": Convention(
        (
            "{part} is for our own use and is never delivered",
            "what we deliver holds no {part}",
            "customers must not get {part}",
        ),
        "build with --without {part}",
        lambda draws, site_config: {"part": draws.choice(site_config.parts)},
        lambda order, rule: replace(order, without=rule["part"]),
    ),
    "banner": Convention(
        (
            "every delivery carries the text of banners/{banner} on top",
            "our lawyers want banners/{banner} above the code",
            "nothing leaves the house without banners/{banner} as its first lines",
        ),
        "build with --banner banners/{banner}",
        lambda draws, site_config: {"banner": draws.choice(site_config.banners)},
        lambda order, rule: replace(order, banner=rule["banner"]),
    ),
    "channel": Convention(
        (
            "releases go to the channel {channel}, which hands them on",
            "only the channel {channel} is read by the installer",
            "nobody listens to the channel main any more, all are on {channel}",
        ),
        "build with --channel {channel}",
        lambda draws, site_config: {"channel": draws.choice(site_config.channels)},
        lambda order, rule: replace(order, channel=rule["channel"]),
    ),
    "reversed": Convention(
        (
            "a label begins with the smallest part and ends with the major number",
            "the installer reads labels from the right, and the numbers have to stand the other way round",
            "the last number of a release comes first in its label",
        ),
        "turn the numbers of the release round, so that the last comes first",
        lambda draws, site_config: {},
        lambda order, rule: replace(order, numbers=(order.numbers[2], order.numbers[1], order.numbers[0])),
        unseen=True,
    ),
    "stepped": Convention(
        (
            "the last number of a label is counted in steps of {step}",
            "between two releases {step} numbers are kept free, so the third number is {step} times as large",
            "a third number of 1 is written {step}, a 2 is twice that",
        ),
        "multiply the last number of the release by {step}",
        _one_of("step", (5, 10, 20, 50, 100)),
        lambda order, rule: replace(order, numbers=(*order.numbers[:2], order.numbers[2] * rule["step"])),
        unseen=True,
    ),
    "sealed": Convention(
        (
            "a build counts once it is sealed with the word {seal}",
            "the installer throws away what has not got the seal {seal}",
            "our seal is the word {seal}, and no build is without it",
        ),
        "build with --seal {seal}",
        lambda draws, site_config: {"seal": draws.choice(site_config.seals)},
        lambda order, rule: replace(order, seal=rule["seal"]),
        unseen=True,
    ),
}


def ordered(order: Order, rule: Rule | None) -> Order:
    """How a build has to be called where `rule` holds."""
    return CONVENTIONS[rule.type].order(order, rule) if rule else order
