"""The words of each split, and how people ask for a plugin. No two splits share one."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    kinds: tuple[str, ...]
    """What comes before a function's name in that of its plugin."""
    others: tuple[str, ...]
    """What the plugins that are there are for."""
    keys: tuple[str, ...]
    owners: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        kinds=_words("daily weekly monthly plain quick simple common local"),
        others=_words("badge parcel letter voucher ticket roster invoice shelf menu locker"),
        keys=_words("owner team contact"),
        owners=_words("billing support stores planning counter finance"),
    ),
    "validation": Vocabulary(
        kinds=_words("yearly fixed public bulk"),
        others=_words("wagon kettle anchor rope ladder oven"),
        keys=_words("desk unit"),
        owners=_words("purchasing transport reception payroll"),
    ),
    "heldout": Vocabulary(
        kinds=_words("evening rural express special regional"),
        others=_words("poster reel canvas statue kiln costume lens"),
        keys=_words("keeper sponsor crew"),
        owners=_words("workshops exhibitions loans ushers visitors"),
    ),
}

OPENINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "{place} has a plugin {name} in {path} that nobody can use.",
        "{place} ought to offer {name}, but it does not; the plugin is in {path}.",
        "Somebody left a half-finished plugin for {place}: {path}.",
        "Please finish {name}, a plugin of {place}; it lies in {path}.",
        "Users of {place} are waiting for its plugin {name} ({path}).",
        "For {place} we have {path}, a plugin that neither works nor is registered.",
        "We cannot switch on {name} at {place}; its code is in {path}.",
        "There is a plugin {name} for {place} in {path}, still without an entry and with a bug.",
        "Take over {path}, a plugin that {place} is to have.",
    ),
    "validation": (
        "Will you bring {name} to life? It belongs to {place}, its code to {path}.",
        "At {place} the plugin {name} is missing, though {path} is there.",
        "{place} gets a further plugin, {name}, whose draft is {path}.",
    ),
    "heldout": (
        "Extension request, {place}: activate {name}; a draft exists as {path}.",
        "Our release of {place} lacks {name}, for which {path} was begun.",
        "I promised {name} to the people of {place}; {path} is as far as I came.",
        "The draft {path} should become a working part of {place}, by the name of {name}.",
        "Someone has to complete {name} for {place}, starting from {path}.",
    ),
}

CLOSINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Mend the function there and register {name} in plugins.json with priority {priority}; `{tests}` must pass.",
        "Once the function is right, enter {name} in plugins.json, priority {priority}. `{tests}` has to pass.",
        "Repair it and give {name} an entry of priority {priority} in plugins.json, as the README says. Run `{tests}`.",
        "It needs a mended function and an entry in plugins.json at priority {priority}, until `{tests}` passes.",
        "Correct the function, then add {name} to plugins.json (priority {priority}). The tests: `{tests}`.",
    ),
    "validation": (
        "Cure the function, list {name} in plugins.json under priority {priority}, and make `{tests}` green.",
        "Its function has to work, and plugins.json to hold it with priority {priority}; `{tests}` shows both.",
    ),
    "heldout": (
        "Put its function right, and have plugins.json carry {name} at priority {priority}. `{tests}` should succeed.",
        "What remains is the faulty function and the record in plugins.json, priority {priority}; check by `{tests}`.",
        "Let the function compute what it should, record {name} in plugins.json ({priority} is its priority), and "
        "verify with `{tests}`.",
    ),
}
