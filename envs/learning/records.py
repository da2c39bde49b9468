"""The files of learning episodes, besides those of every run folder.

`learning.json` says what was planned; `values.jsonl` has the value of every review, `groups.jsonl` the scored groups,
and `learned.json` the counts. All but the first are computed from the episodes, and written whole.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from hermes_lab.envs.groups import read_groups
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.groups import LearningGroups
from hermes_lab.envs.learning.lanes import Draw
from hermes_lab.envs.learning.worth import VALUE_VERSION, MeanValue, ReviewValue, mean_value
from hermes_lab.errors import ConfigError
from hermes_lab.records import decode_record, write_atomic, write_json

PLAN = "learning.json"
GROUPS = "groups.jsonl"
VALUES = "values.jsonl"
LEARNED = "learned.json"

_FIELDS = {
    "reviews": "reviews (env.reviews, or the lock's section reviews)",
    "draw": "tasks (-n, suite.split, suite.seed, suite.world, learning.worlds, grpo.groups_per_round)",
    "forks": "reviews of a task (env.group_size, grpo.group_size)",
}
"""The parts of a plan, and what their user set."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ReviewValue)


@dataclass(frozen=True)
class LearningPlan:
    """Which learning episodes run: the tasks, what a review is paid, and how many reviews a finished task gets."""

    worth: ReviewWorth
    draw: Draw
    forks: int


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of finished learning episodes: the mean over their reviews, and the finished tasks without a group of
    reviews by reason."""

    v: int = 1
    reviews: MeanValue
    refused: dict[str, int]


def check_plan(folder: Path, plan: LearningPlan) -> None:
    """Writes down the plan of a new run. Raises `ConfigError` with the difference if the folder has another one."""
    now = {"reviews": plan.worth.model_dump(mode="json"), "draw": plan.draw._asdict(), "forks": plan.forks}
    path = folder / PLAN
    if not path.exists():
        write_json(path, now)
        return
    try:
        before = msgspec.json.decode(path.read_bytes(), type=dict)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not the plan of learning episodes: {error}") from None
    for name, value in now.items():
        if before.get(name) != value:
            raise ConfigError(
                f"{folder}: was started with other {_FIELDS[name]}: {before.get(name)}, now {value}; give the same, or "
                "another folder"
            )


def write_learned(folder: Path, found: LearningGroups) -> None:
    """Writes the values and the counts."""
    write_atomic(folder / VALUES, b"".join(_encoder.encode(value) + b"\n" for value in found.values))
    write_json(folder / LEARNED, Learned(reviews=mean_value(found.values), refused=found.refused))


def read_values(folder: Path) -> list[ReviewValue]:
    """The values of all reviews. Raises `ConfigError` with file and line for one that cannot be read."""
    path = folder / VALUES
    lines = path.read_bytes().splitlines()
    return [
        decode_record(_decoder, line, f"{path}:{number}", "the value of a review", VALUE_VERSION)
        for number, line in enumerate(lines, 1)
    ]


def read_learned(folder: Path) -> LearningGroups:
    """What finished learning episodes gave. Raises `ConfigError` if they are not finished, or a file is damaged."""
    path = folder / LEARNED
    try:
        learned = msgspec.json.decode(path.read_bytes(), type=Learned)
    except FileNotFoundError:
        raise ConfigError(f"{folder}: its learning episodes are not finished; continue them") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: not the counts of learning episodes: {error}") from None
    return LearningGroups(read_groups(folder / GROUPS), read_values(folder), learned.refused)
