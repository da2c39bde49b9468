"""The names of sites: real words, none shared between splits, each with what such a site does."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Name(NamedTuple):
    """A site's name, and what it does without saying the name."""

    word: str
    about: str


def _read() -> dict[str, tuple[Name, ...]]:
    """The names of `names.txt` by section: under a line `[train]` a line `word: what it does` for each."""
    found: dict[str, list[Name]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        word, colon, about = line.partition(": ")
        if line.startswith("["):
            names = found.setdefault(line.strip("[]"), [])
        elif colon and not line.startswith("#"):
            names.append(Name(word, about))
    return {section: tuple(names) for section, names in found.items()}


_SECTIONS = _read()
NAMES: Mapping[str, tuple[Name, ...]] = {split: _SECTIONS[split] for split in ("train", "validation", "heldout")}
"""By split."""
MORE_NAMES = _SECTIONS["many"]
"""More names of training sites, too many for a small model to memorize (`suite.options.names: many`)."""
