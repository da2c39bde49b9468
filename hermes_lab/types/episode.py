"""One line of the episode log."""

from typing import Any, Literal

from msgspec import Struct, field

from hermes_lab.types.memory import MemoryUse, MemoryWrite
from hermes_lab.types.skill import SkillWrite
from hermes_lab.types.task import Reward, Verdict
from hermes_lab.types.trajectory import Trajectory

VERSION = 1
"""Of the record that is written. Fields that were added since have defaults; a change of meaning raises it."""

Phase = Literal["learn", "heldout"]


class EpisodeError(Struct, frozen=True, omit_defaults=True):
    """Why an episode has no score. `kind` names the part that failed: model, sandbox, verifier, worker or
    internal."""

    kind: str
    message: str
    detail: str = ""


class ModelIdentity(Struct, frozen=True, omit_defaults=True):
    """Which weights answered. `adapter_digest` is the sha256 of the adapter that the server had loaded."""

    provider: str
    name: str
    base_url: str = ""
    adapter: str = ""
    adapter_digest: str = ""

    @property
    def policy(self) -> str:
        """What tells these weights from others: the adapter's digest, or the name of the model."""
        return self.adapter_digest or self.adapter or self.name


class TaskInfo(Struct, frozen=True, omit_defaults=True):
    """The part of a task that analysis needs; its files and answer key are not repeated in every record."""

    domain: str
    split: str
    world: int = 0
    triggers: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class SkillTrace(Struct, frozen=True, omit_defaults=True):
    """How far one skill of the library came in one episode: eligible -> listed -> loaded -> followed. The outcome is
    that of the episode.

    `eligible`: the skill is about what this task needs, told by `by`: `trigger`, the task's hidden rules against those
    that the skill was learnt from, or `similarity` of texts. None where neither can tell, as of a placebo's emptied
    skills. `loaded`: by the agent or a child of it; a call of a compiled skill's tool is a load. `followed`: a call
    after loading, in a conversation that loaded it, did what a line of the skill says, or was one of its tool; None
    where the skill has neither line nor tool. `adherence` is the share of its lines that were, 1 where its tool was
    called.
    """

    name: str
    eligible: bool | None = None
    by: Literal["", "trigger", "similarity"] = ""
    listed: bool = False
    loaded: bool = False
    followed: bool | None = None
    adherence: float | None = None


class SkillUse(Struct, frozen=True, omit_defaults=True):
    """The library as this episode met it: the frozen snapshot, what was listed in the prompt, loaded, written.

    `loaded` holds what child agents loaded, too. `traces` has, by name, a row for every skill that was loaded; for
    every one that was eligible; and for those that were listed and of which eligibility is unknown, at most the 20 that
    are most like the task. So a listed skill without a row was not eligible, unless 20 others are unknown.
    """

    snapshot: str = ""
    listed: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    writes: tuple[SkillWrite, ...] = ()
    traces: tuple[SkillTrace, ...] = ()


class Observation(Struct, frozen=True, omit_defaults=True):
    """What an episode is worth learning from (`hermes_lab.skills.learning.observe`).

    `value` = .4 success + .2 (three or more different tools) + .2 recovered + .2 generalisable. `worth` says that it
    passed the thresholds of `skills`, so that a skill should come of it.
    """

    value: float
    success: bool
    tools: int
    recovered: bool
    generalisable: bool
    messages: int
    worth: bool


class Review(Struct, frozen=True, omit_defaults=True):
    """The review that ran after an episode, accounted by itself.

    Its `trajectory.messages` continue those of the episode: only the turns after them are repeated here. A review that
    failed has an `error`, and what it said and spent until then as its trajectory; what it wrote does not count, and
    the episode stands as it is.
    """

    trajectory: Trajectory | None = None
    writes: tuple[SkillWrite, ...] = ()
    seconds: float = 0.0
    memory: tuple[MemoryWrite, ...] = ()
    error: EpisodeError | None = None


class Child(Struct, frozen=True, omit_defaults=True):
    """A delegated piece of work: the whole conversation of the child agent, of which its parent saw the summary alone.

    `depth` is 1 for a child of the episode's agent.
    """

    goal: str
    depth: int
    trajectory: Trajectory | None = None
    seconds: float = 0.0
    error: EpisodeError | None = None
    children: tuple["Child", ...] = ()


class Episode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rollout of one task.

    The key is (suite, task, lane, round, sample); a later record of the same key supersedes an earlier one. An episode
    with status `errored` was stopped by the infrastructure: it has no score, counts as no attempt, and is owed again.
    `experience` is the number of tasks that the lane had finished when this episode's skill snapshot was frozen: the n
    of a learning curve. `place` is the episode's place within its round, which makes the order of merging known.
    `seconds` is wall clock without the review. `phase`: the task was one to learn from, or one of a held-out block,
    which is run against the same frozen snapshot, never reviewed, and adds nothing to the library. `block` is the place
    of the task's world among those that the lane goes through, from 0.
    """

    v: int = field(default_factory=lambda: VERSION)  # a default of this kind is written, too
    suite: str
    task_id: str
    lane: str
    round: int
    sample: int
    experience: int
    place: int
    status: Literal["ok", "errored"]
    task: TaskInfo
    model: ModelIdentity
    config_digest: str
    started_at: str
    seconds: float
    error: EpisodeError | None = None
    score: float | None = None
    success: bool | None = None
    reward: Reward | None = None
    verdicts: tuple[Verdict, ...] = ()
    trajectory: Trajectory | None = None
    skills: SkillUse = SkillUse()
    memory: MemoryUse = MemoryUse()
    observation: Observation | None = None
    children: tuple[Child, ...] = ()
    review: Review | None = None
    metrics: dict[str, float] = {}
    phase: Phase = "learn"
    block: int = 0

    @property
    def key(self) -> str:
        """The key as one string; no part may hold a `|`."""
        return episode_key(self.suite, self.task_id, self.lane, self.round, self.sample)


def episode_key(suite: str, task_id: str, lane: str, round_: int, sample: int) -> str:
    """The string form of an episode's key."""
    return f"{suite}|{task_id}|{lane}|{round_}|{sample}"
