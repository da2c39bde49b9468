"""Which skills a prompt names, where a library has more of them than a prompt should."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from hermes_lab.skills.library import Library
from hermes_lab.types import Skill

if TYPE_CHECKING:
    import numpy as np


def choose(library: Library, query: str, most: int) -> Sequence[Skill]:
    """The listed skills, by name; of more than `most` those whose descriptions are most like `query`, the same ones for
    the same library and query. Where nothing is asked yet (""), the first by name: that costs no embedding."""
    skills = list(library.listed.values())
    if len(skills) <= most or not query:
        return skills[:most]
    import numpy as np

    from hermes_lab.memory.embed import embed

    likeness = _descriptions(library) @ embed([query])[0]
    nearest = np.argsort(-likeness, kind="stable")[:most]
    return [skills[place] for place in sorted(nearest)]


@lru_cache(maxsize=8)  # a library is a value that all sessions of a round share
def _descriptions(library: Library) -> np.ndarray:
    from hermes_lab.memory.embed import embed

    return embed([f"{skill.name}: {skill.description}" for skill in library.listed.values()])
