"""The words of each split, and how people ask for a mended release. No two splits share one."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    parts: tuple[str, ...]
    banners: tuple[str, ...]
    channels: tuple[str, ...]
    codenames: tuple[str, ...]
    seals: tuple[str, ...] = ()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        parts=_words("labels letters reports records pages names texts forms sheets papers notices notes"),
        banners=_words("short long owner rights thanks address notice terms"),
        channels=_words("early slow night weekly partner inside trial quick"),
        codenames=_words("amber birch cedar delta ember falcon granite hazel ivory juniper"),
        seals=_words("anchor"),
    ),
    "validation": Vocabulary(
        parts=_words("envelopes signs badges lists slips titles"),
        banners=_words("house motto contact origin"),
        channels=_words("steady probe outer dawn"),
        codenames=_words("kestrel laurel marble nutmeg"),
        seals=_words("lantern"),
    ),
    "heldout": Vocabulary(
        parts=_words("posters tags headers captions stamps cards columns"),
        banners=_words("claim imprint warning greeting sponsor"),
        channels=_words("silent public western morning reserve"),
        codenames=_words("opal pepper quartz raven saffron"),
        seals=_words("compass thistle mirror feather candle"),
    ),
}

OPENINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "{place} has a bug in {function}(), which is in {path}.",
        "{place} computes something wrong in {function}() ({path}).",
        "Users of {place} report a fault in {function}() of {path}.",
        "A defect in {place} has to be mended and released: {function}() in {path}.",
        "We need a new release of {place}, because {function}() in {path} is faulty.",
        "In {place}, {function}() from {path} is wrong, and so is what we deliver.",
        "What {place} delivers has a fault that comes from {function}() in {path}.",
        "Support asks for a corrected build of {place}; the cause is {function}() in {path}.",
        "There is an error in {place} that we must get rid of, in {function}() of {path}.",
    ),
    "validation": (
        "Would you repair {function}() in {path} and ship {place} again?",
        "A customer of {place} is waiting for a cure of {function}() ({path}).",
        "{place} goes out once more today, on account of {function}() in {path}.",
    ),
    "heldout": (
        "Ticket for {place}: {function}() in {path} yields nonsense.",
        "Operations cannot use {place} as it is, owing to {function}() in {path}.",
        "Regarding {place}, a hotfix is due for {function}(), see {path}.",
        "The pager went off for {place}, and I traced it to {function}() in {path}.",
        "Whoever installs {place} today gets the broken {function}() of {path}.",
    ),
}

CLOSINGS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "Mend it there and build release {release} of {day}; `{tests}` tests what was built.",
        "Correct the source, then build it as release {release}, dated {day}. `{tests}` must pass.",
        "Once src/ is right, make release {release} of {day} with tools/build.py, until `{tests}` passes.",
        "After the fix the build is to be release {release} of {day}; check it with `{tests}`.",
        "It should become release {release} of {day}: mend the source, run tools/build.py, run `{tests}`.",
    ),
    "validation": (
        "The number of the release is {release}, its day {day}. tools/build.py makes it, `{tests}` proves it.",
        "Use tools/build.py for {release} ({day}) when the source is in order, and finish with `{tests}`.",
    ),
    "heldout": (
        "Put the source right, produce {release} for {day} by tools/build.py, and see `{tests}` succeed.",
        "I want {release} built on the corrected source, day {day}; the command `{tests}` has to be content.",
        "Deliver {release}, {day}, from a sound source through tools/build.py; verify by `{tests}`.",
    ),
}
