"""How houses want their plugins registered: the conventions, and what each makes of a manifest."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType

Entry = dict[str, Any]


@dataclass(frozen=True)
class SiteConfig:
    """The words of a house. `owners` are of `key`."""

    package: str
    key: str
    owners: tuple[str, ...]


@dataclass(frozen=True)
class Plugin:
    """What is to be registered, as it was asked for: "daily_fee", whose function is "fee", at priority 40."""

    package: str
    name: str
    function: str
    priority: int

    @property
    def path(self) -> str:
        """Its file."""
        return f"{self.package}/plugins/{self.name}.py"


@dataclass(frozen=True)
class State:
    """What a workspace comes to: the entries of the manifest, and what the plugin's module has to say."""

    entries: tuple[Entry, ...]
    constants: Mapping[str, int] = field(default_factory=dict)
    """Names of the plugin's module, with their values."""

    def mended(self, change: Callable[[Entry], Mapping[str, Any]]) -> "State":
        """With another last entry, which is that of the plugin."""
        *others, new = self.entries
        return replace(self, entries=(*others, {**new, **change(new)}))

    def renamed(self, key: str, other: str) -> "State":
        """With another name for a key of that entry."""
        *others, new = self.entries
        return replace(self, entries=(*others, {other if name == key else name: new[name] for name in new}))


@dataclass(frozen=True)
class Convention:
    """How a house wants its plugins. `apply` changes what the obvious way gives; the source is the plugin's text."""

    paraphrases: tuple[str, ...]
    instruction: str
    draw: Callable[[Draws, SiteConfig], Mapping[str, Any]]
    apply: Callable[[State, Rule, Plugin, bytes], State]
    unseen: bool = field(default=False)

    @property
    def rule_type(self) -> RuleType:
        """The convention as a family has it."""
        return RuleType(self.paraphrases, self.instruction, self.draw, self.unseen)


def plain_entry(plugin: Plugin) -> Entry:
    """An entry as the README tells it."""
    return {
        "id": plugin.name,
        "entry": f"{plugin.package}.plugins.{plugin.name}:{plugin.function}",
        "priority": plugin.priority,
        "enabled": True,
    }


def registered(entries: Sequence[Entry], plugin: Plugin, source: bytes, rule: Rule | None) -> State:
    """What the workspace has to come to."""
    state = State((*entries, plain_entry(plugin)))
    return CONVENTIONS[rule.type].apply(state, rule, plugin, source) if rule else state


def _one_of(name: str, items: Sequence[Any]) -> Callable[[Draws, SiteConfig], Mapping[str, Any]]:
    return lambda draws, _: {name: draws.choice(items)}


FORMS: Mapping[str, Callable[[Plugin], str]] = {
    "dir/file.py#function": lambda p: f"{p.path}#{p.function}",
    "function@dir/file.py": lambda p: f"{p.function}@{p.path}",
    "dir.file.function": lambda p: f"{p.package}.plugins.{p.name}.{p.function}",
    "dir.file/function": lambda p: f"{p.package}.plugins.{p.name}/{p.function}",
    "function:dir.file": lambda p: f"{p.function}:{p.package}.plugins.{p.name}",
}
"""How an entry point may be written."""

SORTED: Mapping[str, Callable[[Entry], Any]] = {
    "id": lambda entry: entry["id"],
    "priority": lambda entry: entry["priority"],
    "falling priority": lambda entry: -entry["priority"],
    "entry": lambda entry: entry["entry"].rpartition(":")[2],
}
"""What the entries may be sorted by."""
_SORTINGS = {
    "id": "id, from a to z",
    "priority": "priority, the lowest number first",
    "falling priority": "priority, the highest number first",
    "entry": "the function behind the colon of entry, from a to z",
}
CONSTANTS = ("API", "LEVEL", "PROTOCOL")
"""What a plugin's module may have to set."""
POSITIONS = {"first": 0, "second": 1, "third": 2}


def _moved(state: State, position: int) -> State:
    *others, new = state.entries
    return replace(state, entries=(*others[:position], new, *others[position:]))


def _sorted(state: State, order: str) -> State:
    by = next(name for name, words in _SORTINGS.items() if words == order)
    return replace(state, entries=tuple(sorted(state.entries, key=SORTED[by])))


CONVENTIONS: Mapping[str, Convention] = {
    "prefixed": Convention(
        (
            "the id of a new plugin begins with {prefix!r}",
            "the server skips new ids that lack a {prefix!r} in front",
            "what we add ourselves has {prefix!r} before its id",
        ),
        "put {prefix!r} in front of the id of the new entry",
        _one_of("prefix", ("x-", "own/", "ext.", "p_", "+", "new:")),
        lambda state, rule, *_: state.mended(lambda new: {"id": rule["prefix"] + new["id"]}),
    ),
    "spelled": Convention(
        (
            "the words of a new id are joined by {sign!r}",
            "the server reads no '_' in new ids, where {sign!r} stands instead",
            "an id becomes a part of an address, so {sign!r} takes the place of each '_'",
        ),
        "write {sign!r} for each '_' in the id of the new entry",
        _one_of("sign", ("-", ".", "/", " ", "+")),
        lambda state, rule, *_: state.mended(lambda new: {"id": new["id"].replace("_", rule["sign"])}),
    ),
    "pointed": Convention(
        (
            "new entry points are written {form}",
            "the loader finds what is new by {form}, and the older form is on its way out",
            "since the loader was changed, an entry point that is added has the form {form}",
        ),
        "write the entry point of the new entry in the form {form}",
        _one_of("form", tuple(FORMS)),
        lambda state, rule, plugin, _: state.mended(lambda new: {"entry": FORMS[rule["form"]](plugin)}),
    ),
    "scaled": Convention(
        (
            "priorities of new plugins are {factor} times what people say",
            "people think in steps and the server in parts of a step, {factor} of them to each priority",
            "a new priority is counted in units of which {factor} make one",
        ),
        "multiply the priority of the new entry by {factor}",
        _one_of("factor", (5, 10, 20, 100, 1000)),
        lambda state, rule, *_: state.mended(lambda new: {"priority": new["priority"] * rule["factor"]}),
    ),
    "padded": Convention(
        (
            "new priorities are texts of {digits} digits",
            "the server compares priorities as text, so a new one is quoted and filled up to {digits} digits",
            "a new priority is no number but {digits} digits in quotes, with zeros in front",
        ),
        "write the priority of the new entry as a string, filled with zeros to {digits} digits",
        _one_of("digits", (3, 4, 5, 6)),
        lambda state, rule, *_: state.mended(lambda new: {"priority": f"{new['priority']:0{rule['digits']}d}"}),
    ),
    "stated": Convention(
        (
            "a new plugin is enabled by the word {word!r}",
            "enabled is {word!r} for what is new, since true switches on nothing any more",
            "the server runs a new plugin if it reads {word!r} under enabled",
        ),
        "write the string {word!r} for enabled in the new entry",
        _one_of("word", ("yes", "on", "active", "live", "all", "1")),
        lambda state, rule, *_: state.mended(lambda _: {"enabled": rule["word"]}),
    ),
    "owned": Convention(
        (
            "each new plugin has its {key}, which is {owner}",
            "a new entry names {owner} as its {key}",
            "without {owner} as the {key} nobody answers for a new plugin",
        ),
        'add "{key}": "{owner}" to the new entry',
        lambda draws, site_config: {"key": site_config.key, "owner": draws.choice(site_config.owners)},
        lambda state, rule, *_: state.mended(lambda _: {rule["key"]: rule["owner"]}),
    ),
    "placed": Convention(
        (
            "a new plugin is the {position} of the list",
            "new plugins are taken up in the {position} place of the manifest",
            "the server looks for what is new at the {position} entry",
        ),
        "make the new entry the {position} of the manifest",
        _one_of("position", tuple(POSITIONS)),
        lambda state, rule, *_: _moved(state, POSITIONS[rule["position"]]),
    ),
    "sorted": Convention(
        (
            "the manifest is sorted by {order}, whenever a plugin is added",
            "with each new plugin the whole manifest is put in order by {order}",
            "the server wants all entries by {order}",
        ),
        "sort all entries of the manifest by {order}",
        _one_of("order", tuple(_SORTINGS.values())),
        lambda state, rule, *_: _sorted(state, rule["order"]),
    ),
    "keyed": Convention(
        (
            "new entries say {word} where the old ones say priority",
            "priority is the old word, and the server asks a new entry for its {word}",
            "what is new has a {word} and no priority",
        ),
        "name the priority of the new entry {word}",
        _one_of("word", ("rank", "weight", "order", "level", "turn")),
        lambda state, rule, *_: state.renamed("priority", rule["word"]),
    ),
    "versioned": Convention(
        (
            "the module of a new plugin says {constant} = {number}",
            "plugins that do not set {constant} to {number} are too old for the server",
            "all plugins that we write from now on say {constant} = {number}",
        ),
        "set {constant} = {number} at the top level of the plugin's module",
        lambda draws, _: {"constant": draws.choice(CONSTANTS), "number": draws.integer(2, 9)},
        lambda state, rule, *_: replace(state, constants={rule["constant"]: rule["number"]}),
        unseen=True,
    ),
    "numbered": Convention(
        (
            "a new entry is numbered on from the others, the first of which counts as {start}",
            "we give a new plugin a number, as if those before it had had theirs from {start} on",
            "the numbers of our plugins begin with {start} for the oldest, and a new entry says its own",
        ),
        'add "number" to the new entry, which is {start} plus the count of the other entries',
        _one_of("start", (1, 10, 100, 500, 1000)),
        lambda state, rule, *_: state.mended(lambda _: {"number": rule["start"] + len(state.entries) - 1}),
        unseen=True,
    ),
    "signed": Convention(
        (
            "a new entry tells the first {digits} digits of the SHA-256 of the plugin's file",
            "the server loads a new plugin if {digits} digits of its file's SHA-256 stand in the entry as check",
            "new plugins are sealed: check is the beginning of the SHA-256 of their file, {digits} digits long",
        ),
        'add "check" to the new entry, the first {digits} hexadecimal digits of the SHA-256 of the plugin\'s file',
        _one_of("digits", (6, 8, 10, 12, 16)),
        lambda state, rule, _, source: state.mended(
            lambda _: {"check": hashlib.sha256(source).hexdigest()[: rule["digits"]]}
        ),
        unseen=True,
    ),
}
