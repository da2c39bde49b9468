"""How a house may want its plugins registered: what each convention makes of a manifest."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_lab.tasks.family import Rule
from hermes_lab.tasks.rules import Behavior, Literals, load_conventions, rule_types

Entry = dict[str, Any]


@dataclass(frozen=True)
class SiteConfig:
    """The words of a house. `owners` are of `key`."""

    package: str
    key: str
    owners: tuple[str, ...]


@dataclass(frozen=True)
class Plugin:
    """The plugin to register, as requested: "daily_fee", whose function is "fee", at priority 40."""

    package: str
    name: str
    function: str
    priority: int

    @property
    def path(self) -> str:
        """Its file."""
        return f"{self.package}/plugins/{self.name}.py"

    @property
    def module(self) -> str:
        """Its module."""
        return f"{self.package}.plugins.{self.name}"


@dataclass(frozen=True)
class State:
    """The right outcome: the entries of the manifest, and the constants that the plugin's module has to set."""

    entries: tuple[Entry, ...]
    constants: Mapping[str, int] = field(default_factory=dict)
    """By name."""

    def mended(self, change: Callable[[Entry], Mapping[str, Any]]) -> "State":
        """Changes the last entry, which is that of the plugin."""
        *others, new = self.entries
        return replace(self, entries=(*others, {**new, **change(new)}))

    def renamed(self, key: str, other: str) -> "State":
        """Renames a key of that entry."""
        *others, new = self.entries
        return replace(self, entries=(*others, {other if name == key else name: new[name] for name in new}))


Apply = Callable[[State, Literals, Plugin, bytes], State]
"""Changes the obvious outcome; takes the plugin and the text of its file too."""


def plain_entry(plugin: Plugin) -> Entry:
    """An entry as the README describes it."""
    return {
        "id": plugin.name,
        "entry": f"{plugin.module}:{plugin.function}",
        "priority": plugin.priority,
        "enabled": True,
    }


def registered(entries: Sequence[Entry], plugin: Plugin, source: bytes, rule: Rule | None) -> State:
    """The right outcome under `rule`."""
    state = State((*entries, plain_entry(plugin)))
    return CONVENTIONS[rule.type].apply(state, dict(rule.literals), plugin, source) if rule else state


SORTED: Mapping[str, Callable[[Entry], Any]] = {
    "id": lambda entry: entry["id"],
    "priority": lambda entry: entry["priority"],
    "falling priority": lambda entry: -entry["priority"],
    "entry": lambda entry: entry["entry"].rpartition(":")[2],
}
"""What the entries may be sorted by."""
CONSTANTS = ("API", "LEVEL", "PROTOCOL")
"""Constants that a plugin's module may have to set."""


def _new(change: Callable[[Entry, Literals], Mapping[str, Any]]) -> Apply:
    """The entry of the plugin changes."""
    return lambda state, rule, *_: state.mended(lambda new: change(new, rule))


def _placed(state: State, rule: Literals, *_: object) -> State:
    *others, new = state.entries
    return replace(state, entries=(*others[: rule["index"]], new, *others[rule["index"] :]))


_BEHAVIORS: Mapping[str, Behavior[SiteConfig, Apply]] = {
    "prefixed": Behavior(_new(lambda new, rule: {"id": rule["prefix"] + new["id"]})),
    "spelled": Behavior(_new(lambda new, rule: {"id": new["id"].replace("_", rule["sign"])})),
    "pointed": Behavior(
        lambda state, rule, plugin, _: state.mended(
            lambda new: {
                "entry": rule["written"].format(path=plugin.path, function=plugin.function, module=plugin.module)
            }
        )
    ),
    "scaled": Behavior(_new(lambda new, rule: {"priority": new["priority"] * rule["factor"]})),
    "padded": Behavior(_new(lambda new, rule: {"priority": f"{new['priority']:0{rule['digits']}d}"})),
    "stated": Behavior(_new(lambda new, rule: {"enabled": rule["word"]})),
    "owned": Behavior(_new(lambda new, rule: {rule["key"]: rule["owner"]})),
    "placed": Behavior(_placed),
    "sorted": Behavior(
        lambda state, rule, *_: replace(state, entries=tuple(sorted(state.entries, key=SORTED[rule["by"]])))
    ),
    "keyed": Behavior(lambda state, rule, *_: state.renamed("priority", rule["word"])),
    "versioned": Behavior(
        lambda state, rule, *_: replace(state, constants={rule["constant"]: rule["number"]}),
        draw=lambda draws, _: {"constant": draws.choice(CONSTANTS), "number": draws.integer(2, 9)},
    ),
    "numbered": Behavior(
        lambda state, rule, *_: state.mended(lambda _: {"number": rule["start"] + len(state.entries) - 1})
    ),
    "signed": Behavior(
        lambda state, rule, _, source: state.mended(
            lambda _: {"check": hashlib.sha256(source).hexdigest()[: rule["digits"]]}
        )
    ),
}
CONVENTIONS = load_conventions(__file__, _BEHAVIORS)
RULES = rule_types(CONVENTIONS)
