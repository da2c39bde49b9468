"""The names of sites: English words, disjoint between splits, each with a description of the site."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Name(NamedTuple):
    """A site's name, and what it does, without using the name."""

    word: str
    about: str


def _read() -> dict[str, tuple[Name, ...]]:
    """Reads `names.txt`, by section: a line such as `[train]`, followed by lines `word: what it does`."""
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
"""Names by split."""
MORE_NAMES = _SECTIONS["many"]
"""More names of training sites, too many for a small model to memorize (`suite.options.names: many`)."""
