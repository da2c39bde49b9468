"""Makes the rollouts of learning episodes: the work, its reviews, and the follow-ups that measure them.

What is left to do is a pure function of the finished episodes, so a run that was killed continues from its log.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from hermes_lab.config.schema import MemoryConfig
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.knowledge import after_review, after_work, digest_of, emptied
from hermes_lab.envs.learning.lanes import LearningLane
from hermes_lab.knowledge import Knowledge
from hermes_lab.rollout import RolloutSpec
from hermes_lab.types import Episode

TRIES = 2
"""Attempts at a rollout that fails on infrastructure."""

Roll = Callable[[RolloutSpec, Knowledge], Awaitable[Episode]]
"""Runs one rollout."""
Keep = Callable[[Episode], Awaitable[None]]
"""Records an episode durably."""
SaveKnowledge = Callable[[Knowledge], None]
"""Writes a library down before an episode starts from it."""


@dataclass(frozen=True)
class Reviewed:
    """A finished episode of a lane and its reviews.

    `before` is the knowledge with what the agent wrote while it worked, `after` that after each review; None for a
    review that failed.
    """

    lane: LearningLane
    round: int
    work: Episode
    before: Knowledge
    after: tuple[Knowledge | None, ...]

    @property
    def next(self) -> Knowledge:
        """What the next task of the lane starts with: the library after the first review."""
        return self.after[0] or self.before if self.after else self.before

    @property
    def changed(self) -> list[Knowledge]:
        """The libraries that must be measured: none if no review changed anything."""
        after = [each for each in self.after if each and digest_of(each) != digest_of(self.before)]
        return [self.before, *after] if after else []


@dataclass
class LaneOutcome:
    """What happened in one learning episode.

    `libraries` numbers the measured libraries by digest, in the order in which the reviews made them; the number is the
    `round` of their follow-ups. `followups` are the episodes by key, without those that failed on infrastructure, whose
    messages are in `errors`.
    """

    lane: LearningLane
    reviewed: list[Reviewed] = field(default_factory=list)
    libraries: dict[str, int] = field(default_factory=dict)
    followups: dict[str, Episode] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def knowledge(self) -> Knowledge:
        """What the lane ends with: what the first reviews wrote."""
        return self.reviewed[-1].next if self.reviewed else self.lane.start


def followup_specs(lane: LearningLane, worth: ReviewWorth, number: int, experience: int) -> list[RolloutSpec]:
    """The follow-ups of one library; `experience` is the number of tasks that were reviewed for it."""
    return [
        RolloutSpec(task, lane.name, number, sample, experience, place, "never", "heldout")
        for place, task in enumerate(lane.followups)
        for sample in range(worth.repeats)
    ]


Ended = Callable[[LaneOutcome], None]
"""Called when all rollouts of a learning episode have finished."""


class LearningRun:
    """Runs learning episodes with `forks` reviews of each finished task.

    `done` are the finished episodes of earlier starts by key. `roll` limits how many rollouts run at once.
    """

    def __init__(
        self,
        roll: Roll,
        worth: ReviewWorth,
        memory: MemoryConfig,
        *,
        forks: int,
        keep: Keep | None = None,
        save: SaveKnowledge | None = None,
        done: Mapping[str, Episode] | None = None,
        ended: Ended | None = None,
    ) -> None:
        self._roll = roll
        self._worth = worth
        self._memory = memory
        self._forks = forks
        self._keep = keep
        self._save = save
        self._done = done or {}
        self._ended = ended

    async def run(self, lanes: Sequence[LearningLane]) -> list[LaneOutcome]:
        """Runs the missing episodes of all lanes and returns everything."""
        outcomes = [LaneOutcome(lane) for lane in lanes]
        async with anyio.create_task_group() as group:
            for outcome in outcomes:
                group.start_soon(self._run_lane, outcome)
        return outcomes

    async def _run_lane(self, outcome: LaneOutcome) -> None:
        await self._make(outcome)
        if self._ended:
            self._ended(outcome)

    async def _make(self, outcome: LaneOutcome) -> None:
        lane, knowledge = outcome.lane, outcome.lane.start
        async with anyio.create_task_group() as followups:
            for round_, task in enumerate(lane.tasks):
                spec = RolloutSpec(task, lane.name, round_, 0, round_, 0, "always", reviews=self._forks)
                work = await self._episode(spec, knowledge)
                if work.error:
                    outcome.errors.append(work.error.message)
                    return  # later tasks would start from an incomplete library
                reviewed = self._reviewed(lane, round_, work, knowledge)
                outcome.reviewed.append(reviewed)
                for number, library in enumerate(reviewed.changed):
                    if digest_of(library) not in outcome.libraries:
                        experience = round_ + bool(number)
                        followups.start_soon(
                            self._measure, outcome, self._numbered(outcome, library), library, experience
                        )
                knowledge = reviewed.next

    def _numbered(self, outcome: LaneOutcome, library: Knowledge) -> int:
        return outcome.libraries.setdefault(digest_of(library), len(outcome.libraries))

    def _reviewed(self, lane: LearningLane, round_: int, work: Episode, start: Knowledge) -> Reviewed:
        before = after_work(start, work, self._memory)
        reviews = [*([work.review] if work.review else []), *work.forks]
        after = [None if review.error else after_review(before, review, self._memory) for review in reviews]
        if lane.arm == "placebo":
            before, after = emptied(before), [each and emptied(each) for each in after]
        return Reviewed(lane, round_, work, before, tuple(after))

    async def _measure(self, outcome: LaneOutcome, number: int, library: Knowledge, experience: int) -> None:
        async def follow(spec: RolloutSpec) -> None:
            episode = await self._episode(spec, library)
            if episode.error:
                outcome.errors.append(episode.error.message)
            else:
                outcome.followups[spec.key] = episode

        async with anyio.create_task_group() as group:
            for spec in followup_specs(outcome.lane, self._worth, number, experience):
                group.start_soon(follow, spec)

    async def _episode(self, spec: RolloutSpec, knowledge: Knowledge) -> Episode:
        """The episode of earlier starts, or a new one, tried again if it fails on infrastructure."""
        if spec.key in self._done:
            return self._done[spec.key]
        if self._save:
            self._save(knowledge)
        for _ in range(TRIES):
            episode = await self._roll(spec, knowledge)
            if self._keep:
                await self._keep(episode)
            if episode.status == "ok":
                break
        return episode
