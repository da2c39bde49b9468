"""The words of each split, and how people ask for a reset. No two splits share one."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    packages: tuple[str, ...]
    verbs: tuple[str, ...]
    """Functions that give a number."""
    lists: tuple[str, ...]
    """Functions that list the names."""
    people: tuple[str, ...]
    modes: tuple[str, ...]
    guests: tuple[str, ...]
    lines: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        packages=_words("tallies tickets turns queues lockers cloakroom waitlist"),
        verbs=_words("issue assign enrol book admit"),
        lists=_words("names holders members"),
        people=_words("ada ben cleo dan eva finn gus ida kai lea max nora"),
        modes=_words("open plain day quick paper manual guarded trial summer"),
        guests=_words("house staff reserve visitor system"),
        lines=_words("begin clean fresh ready blank"),
    ),
    "validation": Vocabulary(
        packages=_words("stalls pitches benches"),
        verbs=_words("allocate register"),
        lists=_words("known listed"),
        people=_words("otto pia rosa sam tess uma vera will"),
        modes=_words("calm busy holiday nightly shared"),
        guests=_words("porter deputy steward"),
        lines=_words("empty untouched zero"),
    ),
    "heldout": Vocabulary(
        packages=_words("seats moorings bays plots"),
        verbs=_words("allot grant accept"),
        lists=_words("owners takers present"),
        people=_words("anton bruno clara david elsa frida greta hugo irma jonas"),
        modes=_words("regular strict festive remote silent winter"),
        guests=_words("warden chair founder patron"),
        lines=_words("opened renewed swept start"),
    ),
}

OPENINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "The tests of {place} pass or fail by the order in which they run.",
        "Depending on their order, the tests of {place} break each other.",
        "One test of {place} spoils the next, because {path} remembers too much.",
        "We get red tests for {place} at random, as something is left over from test to test.",
        "For {place} the tests only pass in the order in which they are written.",
        "State leaks from one test of {place} to the others, by way of {path}.",
        "A test of {place} is fine alone and fails among the others.",
        "Since we run the tests in any order, {place} fails now and then.",
        "The module {path} of {place} keeps what earlier tests did.",
    ),
    "validation": (
        "Our shuffled run trips over {place} again and again.",
        "Nobody can rely on the tests of {place}, whose outcome hangs on which comes first.",
        "{place} carries leftovers along, so its tests disturb one another.",
    ),
    "heldout": (
        "The build server reports {place} as flaky; leftovers in {path} are the reason.",
        "I shuffled the tests of {place} and half of them fell over.",
        "Tests concerning {place} are not independent of one another.",
        "Somebody has to untangle the tests of {place}, which pollute one another.",
        "Everything that {path} holds survives into the next test, to the grief of {place}.",
    ),
}

SYMPTOMS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "After {verb}({one!r}) in one test, {listing}() still has {one} in another.",
        "{one} is in log() before {verb}() was ever called.",
        "Where archive() ought to be empty, it holds {three}.",
        "A test that never calls {verb}({one!r}) finds {one} in {listing}().",
        "log() tells of {one}, although that was long ago.",
        "{listing}() should begin empty and already has {one}.",
    ),
    "validation": (
        "For instance {listing}() returns {one}, for whom a different test called {verb}().",
        "So archive() shows {three} to a test that retired nobody.",
    ),
    "heldout": (
        "Just look at {listing}(): {one} should be gone and is not.",
        "In archive() I keep finding {three} from the test before.",
        "Once {verb}({one!r}) was run anywhere, the line in log() never disappears.",
    ),
}

CLOSINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Let reset() in {path} put all of the module's state back, and register it with state.on_reset(), so that "
        "`{tests}` passes. Change no other file.",
        "reset() in {path} forgets some things, and nobody calls it: complete it, register it with state.on_reset(), "
        "and leave all other files alone. `{tests}` must pass.",
        "Please complete reset() in {path} and hand it to state.on_reset(), without touching another file. `{tests}` "
        "shows the failure.",
        "What is missing is a complete reset() in {path}, registered by state.on_reset(). Only {path} may change, and "
        "`{tests}` has to pass.",
    ),
    "validation": (
        "Make reset() in {path} thorough, tell state.on_reset() of it, and run `{tests}`; the rest stays untouched.",
        "In {path}, and nowhere else, finish reset() and pass it to state.on_reset() until `{tests}` is green.",
    ),
    "heldout": (
        "The cure is a reset() that clears everything {path} holds, made known to state.on_reset(); no other file is "
        "to differ, and `{tests}` should succeed.",
        "Have {path} alone changed: its reset() must cover all state and be announced through state.on_reset(). Verify "
        "by `{tests}`.",
        "Extend reset() within {path}, subscribe it by state.on_reset(), keep your hands off other files, and see "
        "`{tests}` go through.",
    ),
}
