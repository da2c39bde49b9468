"""One line of the episode log."""

from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct, field

from hermes_lab.types.memory import MemoryUse, MemoryWrite
from hermes_lab.types.message import Message, Usage
from hermes_lab.types.skill import SkillWrite
from hermes_lab.types.task import Reward, Verdict
from hermes_lab.types.trajectory import Trajectory

VERSION = 1
"""The version of newly written records. Added fields have defaults; only a change of meaning raises it."""

CHAT = "chat"
"""The suite of the turns of chats (`hermes_lab.chat.turns`)."""
TURN_AT = "message"
"""In the metadata of such a turn: the index of its user message."""
TYPED = "typed"
"""In the metadata of a turn without a conversation: the user's message."""
Phase = Literal["learn", "heldout"]
T = TypeVar("T")


class EpisodeError(Struct, frozen=True, omit_defaults=True):
    """Why an episode has no score. `kind` names what failed: model, sandbox, program, verifier, judge, worker, store,
    mcp or internal."""

    kind: str
    message: str
    detail: str = ""


class ModelIdentity(Struct, frozen=True, omit_defaults=True):
    """The weights that answered. `adapter_digest` is the sha256 of the adapter loaded by the server."""

    provider: str
    name: str
    base_url: str = ""
    adapter: str = ""
    adapter_digest: str = ""

    @property
    def policy(self) -> str:
        """Identifies the weights: the adapter's digest, or else the model's name."""
        return self.adapter_digest or self.adapter or self.name


class Vote(Struct, frozen=True, omit_defaults=True):
    """One reply of a judge. `grade` is C (correct) or I (incorrect); a vote without one has an `error`.

    `reply` is the whole text, with any reasoning in it; `reasoning` came in a field of its own. `cost` is at
    `judge.model.price`; `retries` counts failed tries.
    """

    prompt: str
    reply: str = ""
    reasoning: str = ""
    grade: Literal["", "C", "I"] = ""
    error: str = ""
    usage: Usage = Usage()
    cost: float = 0.0
    seconds: float = 0.0
    retries: int = 0


class Judgement(Struct, frozen=True, omit_defaults=True):
    """What a model as a judge said about one submission, counted from 1. `passed` is None if a vote has no grade."""

    submission: int
    model: ModelIdentity
    passed: bool | None = None
    votes: tuple[Vote, ...] = ()


class KeptWorkspace(Struct, frozen=True, omit_defaults=True):
    """The workspace as it stood at one submission: `file` in the run's folder `workspaces`, named by its sha256.

    `problem` says why it was not kept.
    """

    file: str = ""
    size: int = 0
    problem: str = ""


class Rescored(Struct, frozen=True, omit_defaults=True):
    """How `hermes-lab rescore` judged an episode of another run. `score` and `success` are those of that run.

    `verifier` is the digest of the new verifier, `lab` the version of this package that applied it. `problem` says why
    it could not be applied; such an episode has no score. `problem_later` says why submissions after the first have no
    new verdict.
    """

    verifier: str
    score: float | None = None
    success: bool | None = None
    problem: str = ""
    problem_later: str = ""
    lab: str = ""


class TaskInfo(Struct, frozen=True, omit_defaults=True):
    """The part of a task that analysis needs, without its files and answer key."""

    domain: str
    split: str
    world: int = 0
    triggers: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


class SkillTrace(Struct, frozen=True, omit_defaults=True):
    """How far a skill got in an episode: eligible -> listed -> loaded -> followed. The outcome is that of the episode.

    `eligible`: the skill is relevant to the task, judged by `by`: `trigger` (the task's hidden rules against those the
    skill was learned from) or `similarity` of texts; None if neither applies, as for the emptied skills of the placebo
    arm. `loaded`: by the agent or one of its children; calling a compiled skill's tool counts. `followed`: a call made
    after loading, in the same conversation, matches a line of the skill, or calls its tool; None if the skill has
    neither. `adherence` is the share of its lines that were followed, or 1 if its tool was called.
    """

    name: str
    eligible: bool | None = None
    by: Literal["", "trigger", "similarity"] = ""
    listed: bool = False
    loaded: bool = False
    followed: bool | None = None
    adherence: float | None = None


class SkillUse(Struct, frozen=True, omit_defaults=True):
    """The skill library of an episode: its frozen snapshot, and which skills were listed in the prompt, loaded and
    written.

    `loaded` includes loads by child agents. `traces` has one entry, by name, for every skill that was loaded or
    eligible, and for listed skills of unknown eligibility, limited to the 20 most similar to the task. A listed skill
    without an entry was therefore not eligible, unless 20 others are unknown. `knowledge` says what the library knows
    of the task's hidden rules, where an environment chose it (`env.knowledge`), such as `lane, 0 of 1 rules known`.
    """

    snapshot: str = ""
    listed: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    writes: tuple[SkillWrite, ...] = ()
    traces: tuple[SkillTrace, ...] = ()
    knowledge: str = ""


class Observation(Struct, frozen=True, omit_defaults=True):
    """How much an episode is worth learning from (`hermes_lab.skills.learning.observe`).

    `value` = .4 success + .2 (three or more different tools) + .2 recovered + .2 generalisable. `worth`: it passed the
    thresholds in `skills`, so a skill should be written.
    """

    value: float
    success: bool
    tools: int
    recovered: bool
    generalisable: bool
    messages: int
    worth: bool


class Review(Struct, frozen=True, omit_defaults=True):
    """The review after an episode, accounted separately.

    `trajectory.messages` continue those of the episode, which are not repeated. A failed review has an `error` and the
    trajectory until then; its writes are dropped, and the episode is unaffected.
    """

    trajectory: Trajectory | None = None
    writes: tuple[SkillWrite, ...] = ()
    seconds: float = 0.0
    memory: tuple[MemoryWrite, ...] = ()
    error: EpisodeError | None = None


class Child(Struct, frozen=True, omit_defaults=True):
    """The work of a child agent: its whole conversation, of which the parent saw only the final answer.

    `depth` is 1 for a child of the episode's agent.
    """

    goal: str
    depth: int
    trajectory: Trajectory | None = None
    seconds: float = 0.0
    error: EpisodeError | None = None
    children: tuple["Child", ...] = ()


class ProgramUse(Struct, frozen=True, omit_defaults=True):
    """The program that worked instead of the lab's own loop (`agent.program`).

    `digest` is the sha256 of its installation. `requests` counts its requests for a reply, including those of reviews
    and side requests such as titles; `refused` those that did not fit the model's context;
    `rejected` those with something else that the endpoint does not accept. `lost` is the number of parts, such as
    images, that the record cannot hold (the most in one request). `unread` names what the program wrote to its skills
    or notes that cannot be carried to the next episode, and why. `state_before` and `state_after` are archives of its
    own memory, in the run's folder `homes` (`agent.carry_state`). `prompt` is the task's prompt: in the
    conversation it may stand among texts of the program.
    """

    name: str
    version: str
    digest: str
    requests: int = 0
    refused: int = 0
    rejected: int = 0
    lost: int = 0
    unread: tuple[str, ...] = ()
    state_before: str = ""
    state_after: str = ""
    prompt: str = ""

    @property
    def shown(self) -> str:
        """`hermes 0.19.0`."""
        return f"{self.name} {self.version}".rstrip()


class EpisodeKey(Struct, frozen=True, kw_only=True):
    """What identifies the record of an episode: a later record with the same key supersedes an earlier one.

    Views of a record, which decode only some of its fields, are based on this too.
    """

    v: int = field(default_factory=lambda: VERSION)  # a default factory, so that the value is always written
    suite: str
    task_id: str
    lane: str
    round: int
    sample: int

    @property
    def key(self) -> str:
        """The key as a string; its parts must not contain `|`."""
        return episode_key(self.suite, self.task_id, self.lane, self.round, self.sample)


class EpisodeResult(EpisodeKey, Generic[T], frozen=True, kw_only=True, omit_defaults=True):
    """The fields between the key and the conversation; `T` is how much of the task is read."""

    experience: int
    place: int
    status: Literal["ok", "errored"]
    task: T
    model: ModelIdentity
    config_digest: str
    started_at: str
    seconds: float
    error: EpisodeError | None = None
    score: float | None = None
    success: bool | None = None


class Episode(EpisodeResult[TaskInfo], frozen=True, kw_only=True, omit_defaults=True):
    """One rollout of one task.

    An episode with status `errored` was stopped by an infrastructure failure: it has no score, does not count as an
    attempt, and is run again on resume. `experience` is the number of tasks that the lane had finished when this
    episode's skill snapshot was frozen: the n of a learning curve. `place` is the index within its round, which fixes
    the order of merging. `seconds` is wall-clock time without the review. `phase` says whether the task is learned from
    or held out; held-out tasks run with the same frozen snapshot, are never reviewed, and add nothing to the library.
    `block` is the index, from 0, of the task's world among those that the lane visits. `judgements` are by a model as a
    judge, whose tokens and cost are counted nowhere else; `workspaces` has one entry per submission, with
    `run.keep_workspaces`. `forks` are further reviews of the same finished conversation as `review`, from
    which nothing is learned (`hermes_lab.envs.learning`). `program` is None for the lab's own loop. `mcp` has the
    digest of each MCP server's tools. `lab` is the version of this package that ran the episode, with its commit
    (`hermes_lab.commit.package_version`): a run may be resumed by another one than `run.json` names. It is empty in
    records from before it was recorded.
    """

    reward: Reward | None = None
    verdicts: tuple[Verdict, ...] = ()
    trajectory: Trajectory | None = None
    skills: SkillUse = SkillUse()
    memory: MemoryUse = MemoryUse()
    observation: Observation | None = None
    children: tuple[Child, ...] = ()
    review: Review | None = None
    metrics: dict[str, int | float] = {}
    phase: Phase = "learn"
    block: int = 0
    judgements: tuple[Judgement, ...] = ()
    workspaces: tuple[KeptWorkspace, ...] = ()
    rescored: Rescored | None = None
    program: ProgramUse | None = None
    mcp: dict[str, str] = {}
    forks: tuple[Review, ...] = ()
    lab: str = ""

    @property
    def prompt(self) -> str:
        """The task's prompt, or that of a chat's turn; a skill that it names may have expanded it. "" without a
        conversation."""
        if self.program and self.program.prompt:
            return self.program.prompt
        if self.trajectory is None and self.suite == CHAT:
            return str(self.task.metadata.get(TYPED, ""))
        messages = self.trajectory.messages[self.begins :] if self.trajectory else ()
        return next((message.content for message in messages if message.role == "user"), "")

    @property
    def begins(self) -> int:
        """The index of the message with which a chat's turn begins; what stands before it are earlier turns."""
        return int(self.task.metadata.get(TURN_AT, 0)) if self.suite == CHAT else 0

    def tells(self, message: Message, verdict: Verdict) -> bool:
        """Whether the message gives the agent the verdict's feedback. Programs may add texts of their own."""
        if message.role != "user" or not verdict.feedback:
            return False
        return verdict.feedback in message.content if self.program else message.content == verdict.feedback


def episode_key(suite: str, task_id: str, lane: str, round_: int, sample: int) -> str:
    """The string form of an episode's key."""
    return f"{suite}|{task_id}|{lane}|{round_}|{sample}"
