"""The words of each split: packages, modules, and how people write bug reports. No two splits share one."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_lab.tasks.code_debugging._modules import TESTS


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    packages: tuple[str, ...]
    modules: tuple[str, ...]
    """What lies beside the broken one."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        packages=_words("backoffice stockroom counter frontdesk registry chest planner hallway cupboard ledgers"),
        modules=_words(
            """
            parcels invoices tickets meters pumps trucks pallets vouchers shelves crates orders refunds bookings rooms
            keys lockers boilers tanks valves sensors routes stops drivers permits badges shifts rosters menus
            """
        ),
    ),
    "validation": Vocabulary(
        packages=_words("workhouse logbook pantry dispatch"),
        modules=_words("ladders ovens kettles wagons ferries towers mills looms nets ropes anchors sails buoys docks"),
    ),
    "heldout": Vocabulary(
        packages=_words("almanac bureau cabinet larder turnstile"),
        modules=_words(
            """
            violins organs drums stages costumes posters reels lenses prints frames canvases statues kilns glazes easels
            """
        ),
    ),
}

OPENINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "{place} has a bug in {function}() of {path}.",
        "{place} is wrong somewhere in {function}(), which is in {path}.",
        "Somebody complains about {place}, that is about {function}() in {path}.",
        "Please look at {function}() in {path}, a part of {place}.",
        "Since the last release {function}() of {place} ({path}) is off.",
        "A bug report about {place} came in; it concerns {function}() in {path}.",
        "We have trouble with {place}: see {path}, function {function}().",
        "Here is a defect in {place}, to be found in {function}() of {path}.",
        "People who use {place} say that {function}() in {path} is broken.",
        "There is work to do on {place}, since {function}() in {path} fails.",
    ),
    "validation": (
        "Customers of {place} run into {function}() of {path}.",
        "Can you find out what {place} does wrong in {function}() ({path})?",
        "A test of {place} is red, the one for {function}() from {path}.",
        "What {function}() does for {place} in {path} cannot be right.",
    ),
    "heldout": (
        "Issue about {place}: {function}() misbehaves ({path}).",
        "Our colleagues at {place} are stuck, and {function}() from {path} is to blame.",
        "I think that {place} has an error; look into {function}(), {path}.",
        "Here is one for you, out of {place}: the function {function}() of {path}.",
        "Nobody at {place} trusts {function}() from {path} any more.",
    ),
}

CLOSINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        f"Fix {{path}} and change no other file; `{TESTS}` must pass.",
        f"Mend {{path}}, leave all other files alone, and see that `{TESTS}` passes.",
        f"The fix belongs in {{path}}, nothing else may change. `{TESTS}` shows the failure.",
        f"Repair {{path}} only. The tests (`{TESTS}`) fail today and have to pass.",
        f"I would like a small fix in {{path}}, no other file, with `{TESTS}` passing.",
    ),
    "validation": (
        f"Correct it in {{path}} without touching another file, until `{TESTS}` is green.",
        f"We want {{path}} corrected and everything else as it is; run `{TESTS}`.",
    ),
    "heldout": (
        f"Make it right within {{path}}; the rest of the tree stays. Check with `{TESTS}`.",
        f"Only {{path}} should differ afterwards, and `{TESTS}` should succeed.",
        f"Patch {{path}} alone so that `{TESTS}` goes through.",
    ),
}
