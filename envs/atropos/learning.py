"""An endless source of groups from learning episodes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from hermes_lab.envs.atropos.config import EnvConfig, EnvSection
from hermes_lab.envs.atropos.groups import Conversation, Refused, conversation, fitting, posted, scored_data
from hermes_lab.envs.atropos.messages import ScoredData
from hermes_lab.envs.atropos.source import GIVE_UP, Keep, Made, NothingWorks
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.learning.groups import LearningGroups, learning_groups
from hermes_lab.envs.learning.lanes import Draw, LearningLane, draw_lanes
from hermes_lab.envs.learning.run import LaneOutcome, LearningRun
from hermes_lab.envs.learning.worth import ReviewValue, reviews_of
from hermes_lab.envs.refusals import FAILED
from hermes_lab.envs.rollouts import Rollouts
from hermes_lab.envs.signal import rate_group, rate_missing
from hermes_lab.knowledge import Knowledge
from hermes_lab.lane import LaneKey, lane_name
from hermes_lab.models.wires.chat import wire
from hermes_lab.skills.library import Library
from hermes_lab.types import Episode, GroupKind, Review, ScoredGroup


class LearningSource:
    """Makes the groups of learning episodes that start from `library`, and passes every episode to `keep`."""

    def __init__(self, config: EnvConfig, rollouts: Rollouts, tally: Tally, keep: Keep, library: Library) -> None:
        assert config.env.reviews is not None
        self.size = config.env.group_size
        self.longest = config.env.max_token_length
        self._config = config
        self._worth = config.env.reviews
        self._kinds = kinds_of(config.env)
        self._rollouts = rollouts
        self._tally = tally
        self._keep_episode = keep
        self._start = Knowledge(library)
        self._without = 0

    @property
    def at_once(self) -> int:
        """Concurrent learning episodes needed to keep `run.concurrency` rollouts busy."""
        return max(1, -(-self._config.run.concurrency // (self._worth.followups * self._worth.repeats)))

    def items(self) -> Iterator[LearningLane]:
        """Endless: a learning episode in each of `learning.worlds` worlds, then in the next ones, or the same if the
        suite is finite."""
        suite, worlds = self._config.suite, self._config.learning.worlds
        for epoch in count():
            draw = Draw(suite.split, suite.seed + epoch, suite.world + epoch * worlds, worlds, worlds)
            lanes = draw_lanes(self._rollouts.context.suite, self._config, self._worth, draw, self._start)
            for world, lane in enumerate(lanes, draw.first_world):  # the tasks of a finite suite have one world
                yield replace(lane, name=lane_name(LaneKey(lane.arm, epoch, world), with_weights=False))

    async def make_all(self, lane: LearningLane) -> list[Made]:
        """The groups of a learning episode that are not refused; refusals are counted. Raises `NothingWorks`."""
        run = LearningRun(
            self._rollouts.run,
            self._worth,
            self._config.memory,
            forks=self.size,
            keep=self._keep,
        )
        (outcome,) = await run.run([lane])
        self._without = 0 if outcome.reviewed else self._without + 1
        if self._without >= GIVE_UP:
            raise NothingWorks(f"the work of the last {GIVE_UP} learning episodes errored: {self._tally.last_error}")
        found = learning_groups([outcome], self._worth, self._kinds)
        return made_groups(found, rollouts_of(outcome), self._config.env, self.longest, self._tally)

    async def _keep(self, episode: Episode) -> None:
        self._tally.saw([episode])
        await self._keep_episode(episode)


def rollouts_of(outcome: LaneOutcome) -> dict[str, Episode]:
    """The work and the follow-ups of a learning episode by key, without those that errored."""
    return {**outcome.followups, **{reviewed.work.key: reviewed.work for reviewed in outcome.reviewed}}


def kinds_of(env: EnvSection) -> tuple[GroupKind, ...]:
    """The kinds of groups of learning episodes that the environment sends."""
    return ("review",) if env.objective == "review" else ("review", "solve")


def made_groups(
    found: LearningGroups, episodes: Mapping[str, Episode], env: EnvSection, longest: int, tally: Tally
) -> list[Made]:
    """The groups of `env.objective` in both formats. Those that are refused are counted, and so are all reviews."""
    tally.reviews += found.values
    for missing in rate_missing(found.refused):
        tally.judge(missing)
    values = {(value.episode, value.fork): value for value in found.values}
    made = []
    for group in found.groups:
        if group.kind not in kinds_of(env):
            continue
        fitted = fitting(group, env, longest)
        if isinstance(fitted, ScoredGroup) and len(fitted.episodes) < env.group_size:
            fitted = Refused(FAILED)
        tally.judge(rate_group(group, episodes, fitted.reason if isinstance(fitted, Refused) else ""))
        if isinstance(fitted, ScoredGroup):
            made.append(Made(fitted, _data(fitted, episodes, values, messages=env.messages)))
    return made


def _data(
    group: ScoredGroup,
    episodes: Mapping[str, Episode],
    values: Mapping[tuple[str, int], ReviewValue],
    *,
    messages: bool,
) -> ScoredData:
    members = [episodes[key] for key in group.episodes]
    if group.kind == "solve":
        return scored_data(group, members, messages=messages)
    reviews = [reviews_of(work)[fork] for work, fork in zip(members, group.samples, strict=True)]
    own = [values[key] for key in zip(group.episodes, group.samples, strict=True)]
    return posted(
        group,
        list(map(_told, own, reviews)),
        list(map(_continued, members, reviews)) if messages else None,
    )


def _told(value: ReviewValue, review: Review) -> dict[str, Any]:
    return {
        "episode": value.episode,
        "review": value.fork,
        "policy": value.policy,
        "stop_reason": review.trajectory.stop_reason if review.trajectory else "",
        "terms": dict(value.reward.terms),
        "library": value.after,
    }


def _continued(work: Episode, review: Review) -> Conversation:
    """The turns of the work and of the review."""
    own = review.trajectory
    return (*conversation(work), *(wire(own.messages, own.tool_format) if own else ()))
