"""The name of a lane tells its place in the experiment: `on-r3-w0`, and `on-r3-w0-a1` where weights are a factor.

The arms of `experiment` are in the configuration. Those of `skills uplift` are `all`, with the whole library, and
`without-<skill>`.
"""

import re
from typing import NamedTuple

_NAME = re.compile(r"(?P<arm>.+?)-r(?P<replicate>\d+)-w(?P<world>\d+)(?:-a(?P<weights>\d+))?")

WHOLE = "all"
"""The arm with the whole library."""
_WITHOUT = "without-"


class LaneKey(NamedTuple):
    """Where a lane stands: its arm, and which replicate, world and weights (of `learning.adapters`), each from 0."""

    arm: str
    replicate: int = 0
    world: int = 0
    weights: int = 0


def lane_name(place: LaneKey, *, with_weights: bool) -> str:
    """The name of the lane there; the weights stand in it only where they are a factor."""
    name = f"{place.arm}-r{place.replicate}-w{place.world}"
    return f"{name}-a{place.weights}" if with_weights else name


def lane_key(name: str) -> LaneKey | None:
    """The place that a lane's name tells; None of a lane that is in no experiment, such as `main`."""
    if not (found := _NAME.fullmatch(name)):
        return None
    return LaneKey(found["arm"], int(found["replicate"]), int(found["world"]), int(found["weights"] or 0))


def without(skill: str) -> str:
    """The arm that lacks the skill. A skill's name has only small letters, digits and hyphens."""
    return f"{_WITHOUT}{skill}"


def left_out(arm: str) -> str:
    """The skill that an arm lacks, "" of any other arm."""
    return arm.removeprefix(_WITHOUT) if arm.startswith(_WITHOUT) else ""
