"""Lane names encode the lane's coordinates: `on-r3-w0`, or `on-r3-w0-a1` if weights are a factor.

The arms of an experiment come from the configuration. Those of `skills uplift` are `all`, with the whole library, and
`without-<skill>`. Where `env.knowledge` chooses the skills of every task, each task of a GRPO batch is a lane of its
own, named after that mode.
"""

import re
from typing import NamedTuple

_NAME = re.compile(r"(?P<arm>.+?)-r(?P<replicate>[0-9]{1,9})-w(?P<world>[0-9]{1,9})(?:-a(?P<weights>[0-9]{1,9}))?")

MAIN = "main"
"""The only lane of a plain run."""
WHOLE = "all"
"""The arm with the whole library."""
LEARNING_ARMS = ("on", "placebo")
"""The arms whose library grows: their skills come from reviews."""
SKILL_ARMS = (*LEARNING_ARMS, "frozen", "oracle")
"""The arms with skills."""
_WITHOUT = "without-"


class LaneKey(NamedTuple):
    """The coordinates of a lane: its arm, and the indices (from 0) of its replicate, world and weights
    (`learning.adapters`)."""

    arm: str
    replicate: int = 0
    world: int = 0
    weights: int = 0


def lane_name(place: LaneKey, *, with_weights: bool) -> str:
    """The name of a lane, with the index of the weights only if `with_weights`."""
    name = f"{place.arm}-r{place.replicate}-w{place.world}"
    return f"{name}-a{place.weights}" if with_weights else name


def lane_key(name: str) -> LaneKey | None:
    """The coordinates encoded in a lane's name; None for a lane outside an experiment, such as `main`."""
    if not (found := _NAME.fullmatch(name)):
        return None
    return LaneKey(found["arm"], int(found["replicate"]), int(found["world"]), int(found["weights"] or 0))


def arm_and_weights(name: str) -> str:
    """A lane's arm, with the index of its weights if the name has one: `on-a1` of `on-r3-w0-a1`. The name itself for a
    lane outside an experiment."""
    if not (found := _NAME.fullmatch(name)):
        return name
    return f"{found['arm']}-a{found['weights']}" if found["weights"] else found["arm"]


def without(skill: str) -> str:
    """The name of the arm without that skill. Skill names consist of lowercase letters, digits and hyphens."""
    return f"{_WITHOUT}{skill}"


def left_out(arm: str) -> str:
    """The skill that an arm lacks, or "" for any other arm."""
    return arm.removeprefix(_WITHOUT) if arm.startswith(_WITHOUT) else ""
