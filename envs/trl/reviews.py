"""A `rollout_func` for TRL's GRPO trainer whose completions are reviews of finished episodes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.knowledge import start_library
from hermes_lab.envs.learning.config import ReviewWorth, check_learning
from hermes_lab.envs.learning.lanes import Draw, LearningLane, draw_lanes
from hermes_lab.envs.learning.run import LaneOutcome, LearningRun
from hermes_lab.envs.learning.worth import Refused, reviews_of, values_of
from hermes_lab.envs.refusals import ERRORED
from hermes_lab.envs.rollouts import Rollouts
from hermes_lab.envs.trl.rollout import RolloutFunc, Sampled, check_server, ignore, prompt_row
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.lane import LaneKey, lane_name
from hermes_lab.models.weights import Say, silent
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.types import Episode, Task


def make_review_rollout_func(
    config: RunConfig,
    worth: ReviewWorth,
    adapters: Path,
    *,
    library: Library | None = None,
    seen: Callable[[Episode], None] = ignore,
    say: Say = silent,
) -> "ReviewRolloutFunc":
    """A `rollout_func` over `suite.count` learning episodes in `learning.worlds` worlds, on the vLLM at
    `config.model.base_url`.

    They begin with `library`, by default `skills.library`. The trainer's `num_generations` is the number of reviews of
    a finished episode. Raises `ConfigError` as `make_rollout_func`, and if a learning episode has several tasks: TRL
    asks for one group at a time.
    """
    check_server(config)
    return ReviewRolloutFunc(config, worth, adapters, start_library(config, library), seen, say)


def review_prompt_rows(config: RunConfig, worth: ReviewWorth) -> list[dict[str, Any]]:
    """One row per learning episode, for `datasets.Dataset.from_list`."""
    return [prompt_row(lane.tasks[0]) for lane in _lanes(config, worth, Library())]


def _lanes(config: RunConfig, worth: ReviewWorth, library: Library) -> list[LearningLane]:
    check_learning(config)
    if worth.tasks != 1:
        raise ConfigError(
            f"worth.tasks: is {worth.tasks}; for TRL a learning episode has one task, since it gives one group: give "
            "tasks=1"
        )
    suite = config.suite
    draw = Draw(suite.split, suite.seed, suite.world, config.learning.worlds, suite.count)
    return draw_lanes(load_suite(suite, config.sandbox), config, worth, draw, Knowledge(library))


class ReviewRolloutFunc(RolloutFunc):
    """Maps the prompts of a step to reviews and their values. The work, its reviews and the follow-ups are all by the
    trainer's weights."""

    def __init__(
        self,
        config: RunConfig,
        worth: ReviewWorth,
        adapters: Path,
        library: Library,
        seen: Callable[[Episode], None],
        say: Say,
    ) -> None:
        self._worth = worth
        self._lanes = {lane.tasks[0].id: lane for lane in _lanes(config, worth, library)}
        super().__init__(config, adapters, None, seen, say)

    def _draw(self, config: RunConfig) -> dict[str, Task]:
        del config
        return {name: lane.tasks[0] for name, lane in self._lanes.items()}

    async def _group(self, rollouts: Rollouts, task: Task, size: int, step: int) -> LaneOutcome:
        """Runs a learning episode with `size` reviews."""
        lane = self._lanes[task.id]
        lane = replace(lane, name=lane_name(LaneKey(lane.arm, step, lane.world), with_weights=False))
        run = LearningRun(
            rollouts.run,
            self._worth,
            rollouts.context.config.memory,
            forks=size,
            keep=self._keep,
        )
        (outcome,) = await run.run([lane])
        return outcome

    def _completions(self, rolled: LaneOutcome, size: int) -> list[Sampled]:
        """The reviews of one finished episode."""
        if not rolled.reviewed:
            return [Sampled(None, None, ERRORED)] * size
        (reviewed,) = rolled.reviewed
        values = values_of(rolled, reviewed, self._worth)
        if isinstance(values, Refused):
            return [Sampled(None, None, values.reason)] * size
        made = []
        for value, review in zip(values, reviews_of(reviewed.work), strict=True):
            branches = review.trajectory.branches if review.trajectory else ()
            if not branches:
                raise ConfigError(f"{value.episode}: a review has no token ids; model.base_url must be a vLLM")
            several = "its prompt was rewritten, so it has several sequences" if branches[1:] else ""
            made.append(Sampled(None if several else branches[0], value.reward.value, several))
        return made

    async def _keep(self, episode: Episode) -> None:
        self._seen(episode)
