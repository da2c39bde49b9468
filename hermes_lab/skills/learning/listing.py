"""Selects the skills that a prompt lists if the library has too many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from hermes_lab.skills.library import Library
from hermes_lab.types import Skill

if TYPE_CHECKING:
    import numpy as np


def choose(library: Library, query: str, most: int) -> Sequence[Skill]:
    """Returns at most `most` listed skills, by name: those whose descriptions are most similar to `query`.

    The choice is deterministic. Without a query, the first skills by name are returned and nothing is embedded.
    """
    skills = list(library.listed.values())
    if len(skills) <= most or not query:
        return skills[:most]
    import numpy as np

    from hermes_lab.memory.embed import embed

    likeness = _descriptions(library) @ embed([query])[0]
    nearest = np.argsort(-likeness, kind="stable")[:most]
    return [skills[index] for index in sorted(nearest)]


@lru_cache(maxsize=8)  # all sessions of a round share the same immutable library
def _descriptions(library: Library) -> np.ndarray:
    from hermes_lab.memory.embed import embed

    return embed([f"{skill.name}: {skill.description}" for skill in library.listed.values()])
