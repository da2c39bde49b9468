"""The words of each split: packages, components, and how people write bug reports. No two splits share one."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split. `openings` and `closings` are format strings over path, component and function."""

    packages: tuple[str, ...]
    components: tuple[str, ...]
    openings: tuple[str, ...]
    closings: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TESTS = "python3 -m unittest discover tests"

VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        packages=_words("depot backoffice stockroom counter frontdesk registry chest planner"),
        components=_words(
            """
            parcels invoices tickets meters pumps trucks pallets vouchers shelves crates orders refunds bookings rooms
            keys lockers boilers tanks valves sensors routes stops drivers permits badges shifts rosters menus recipes
            tables guests tours boats berths cranes lamps signs cables panels bikes scooters carts barrels bottles
            seeds plots hives meadows barns tools spares gauges filters batches labels stamps letters files
            """
        ),
        openings=(
            "There is a bug in {path}.",
            "{function}() in {path} is wrong.",
            "Somebody from {component} complains about {function}().",
            "Please look at {function}() in {path}.",
            "Since the last release {function}() of our {component} module is off.",
            "A bug report about {component} came in.",
        ),
        closings=(
            "Fix {path} and change no other file; `{tests}` must pass.",
            "Mend {path}, leave all other files alone, and see that `{tests}` passes.",
            "The fix belongs in {path}, nothing else may change. `{tests}` shows the failure.",
            "Repair {path} only. The tests (`{tests}`) fail today and have to pass.",
            "I would like a small fix in {path}, no other file, with `{tests}` passing.",
        ),
    ),
    "validation": Vocabulary(
        packages=_words("workhouse logbook pantry dispatch"),
        components=_words(
            "ladders ovens kettles wagons ferries towers mills looms nets ropes anchors sails buoys docks"
        ),
        openings=(
            "Customers have trouble with {component}: see {function}().",
            "Can you find out what {path} does wrong?",
            "A test of {component} is red.",
        ),
        closings=(
            "Correct it in {path} without touching another file, until `{tests}` is green.",
            "We want {path} corrected and everything else as it is; run `{tests}`.",
        ),
    ),
    "heldout": Vocabulary(
        packages=_words("almanac bureau cabinet larder turnstile"),
        components=_words(
            """
            violins organs drums choirs stages costumes posters reels lenses prints frames canvases
            statues kilns glazes easels
            """
        ),
        openings=(
            "Issue: {function}() misbehaves ({path}).",
            "Our {component} colleagues are stuck, and {function}() is to blame.",
            "I think that {path} has an error.",
            "Here is one for you in {component}.",
        ),
        closings=(
            "Make it right within {path}; the rest of the tree stays. Check with `{tests}`.",
            "Only {path} should differ afterwards, and `{tests}` should succeed.",
            "Patch {path} alone so that `{tests}` goes through.",
        ),
    ),
}

REJECTIONS = (
    "Rejected: {clause}.",
    "Rejected: in {component}, {clause}.",
    "Rejected. {component} has a convention of its own: {clause}.",
    "Rejected, that is not how it is done in {component}: {clause}.",
    "Rejected. {function}() is not right yet, because in {component} {clause}.",
    "Rejected in review. For everything in {component} it holds that {clause}.",
)
"""What the owner of a component says of a fix that breaks its convention."""
