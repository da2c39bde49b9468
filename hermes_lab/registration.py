"""`RUN/plan.json`: what an experiment set out to compare, written before its first episode.

Whatever the plan does not name is exploratory: it was chosen after the data could be seen.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from hermes_lab.errors import ConfigError

FILE = "plan.json"

Stop = Literal["never", "shown", "hopeless", "either"]
"""When an experiment ends early: `shown`, a difference is; `hopeless`, the expected effect is excluded."""


class Primary(msgspec.Struct, frozen=True, kw_only=True):
    """The primary comparison: `after` against `before` (arms, or weights), by success at the first submission.

    It is over the tasks of one `phase`; of held-out ones those of the check at `round`. `units` of the kind `over` are
    independent, in the order of their numbers, and have `pairs` pairs each.
    """

    question: str
    """`skills`, `weights`, `skills and weights` or `arms`."""
    before: str
    after: str
    phase: Literal["learn", "heldout"]
    round: int
    over: str
    worlds: int
    replicates: int
    units: int
    pairs: int
    baseline: float
    effect: float
    """The expected effect, as a fraction."""
    stop: Stop = "never"

    @property
    def sequential(self) -> bool:
        """Whether it can be looked at unit by unit: arms are compared, over worlds or over lanes with own tasks."""
        return self.question in ("skills", "arms") and self.over in ("worlds", "lanes")

    def unit(self, replicate: int, world: int) -> int:
        """The number of the unit that a lane belongs to."""
        return world if self.over == "worlds" else replicate * self.worlds + world


class RegisteredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan. `primary` is None if there is nothing to compare. `digest` is a sha256 of all else; `analysis`
    is the primary analysis in words."""

    v: int = 1
    registered_at: str
    digest: str = ""
    primary: Primary | None
    analysis: str
    arms: Sequence[str]
    weights: Sequence[str]
    episodes: int
    config_digest: str
    tasks_digest: str
    library: str
    adapter_digest: str


def content_digest(content: Mapping[str, Any]) -> str:
    """The digest of a plan's fields."""
    rows = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(msgspec.json.encode(rows, order="sorted")).hexdigest()


T = TypeVar("T", bound=msgspec.Struct)


def read_plan(run: Path) -> RegisteredPlan | None:
    """The registered plan of a run; None if it has none. Raises `ConfigError` if it was changed since."""
    return read_registered(run / FILE, RegisteredPlan, "a registered plan")


def is_extended(plan: RegisteredPlan | None, wanted: int) -> bool:
    """Whether worlds were added to a run, which has `wanted` episodes now, after its plan was registered."""
    return plan is not None and plan.episodes < wanted


def read_registered(path: Path, kind: type[T], what: str) -> T | None:
    """What was registered in a file with a `digest`; None if there is no file.

    `what` names it in errors. Raises `ConfigError` if the file is damaged, or was changed since.
    """
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        registered = msgspec.convert(content, kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not {what}: {error}") from None
    if content_digest(content) != content.get("digest"):
        raise ConfigError(f"{path}: was changed after it was registered (its digest is another); restore the file")
    return registered


def may_stop(run: Path) -> bool:
    """Whether a run was registered with a stopping rule. Raises `ConfigError` as `read_plan`."""
    plan = read_plan(run)
    return plan is not None and plan.primary is not None and plan.primary.stop != "never"


def missing_plan(run: Path, stop: str) -> str:
    """The error where a run with a stopping rule has no plan: what its results mean depends on it."""
    return f"{run / FILE}: missing, although learning.stop.when is {stop}; restore the file"
