"""What a GRPO training on reviews will sample, and how precisely it measures a review."""

import math

from hermes_lab.envs.learning.lanes import draw_lanes
from hermes_lab.envs.learning.variance import followups_needed, value_variance
from hermes_lab.knowledge import Knowledge
from hermes_lab.tasks.registry import load_suite, wrap_suite_errors
from hermes_lab.text.counted import counted
from hermes_lab.training.grpo_config import Batch, GrpoConfig, reviews_lock
from hermes_lab.training.lock import GrpoLock, LockedConfig
from hermes_lab.training.plan import Row

_WITHOUT, _WITH = 0.2, 0.5
"""Success rates for an example."""


def review_rows(config: GrpoConfig, locked: LockedConfig, grpo: GrpoLock, batch: Batch) -> list[Row]:
    """The lines of a plan about learning episodes. Raises `ConfigError` if their tasks cannot be drawn."""
    worth = batch.reviews
    assert worth is not None
    suite = load_suite(batch.config.suite, batch.config.sandbox)
    with wrap_suite_errors(suite):
        draw_lanes(suite, batch.config, worth, batch.draw, Knowledge())
    rounds = locked.total_steps // grpo.steps_per_round
    size = worth.followups * worth.repeats
    fewest, most = batch.tasks * worth.tasks, batch.tasks * (worth.tasks + _libraries(worth.tasks, grpo) * size)
    deviation = math.sqrt(value_variance(_WITH, _WITHOUT, worth.followups, worth.repeats))
    tasks = "a task" if worth.tasks == 1 else f"{worth.tasks} tasks one after the other, each"
    often = "once" if worth.repeats == 1 else f"{worth.repeats} times"
    example = f"{100 * _WITHOUT:.0f} % -> {100 * _WITH:.0f} %"
    return [
        (
            "rounds",
            f"{rounds}, each {counted(batch.tasks, 'learning episode')}: {tasks} with "
            f"{counted(grpo.group_size, 'review')} at temperature {grpo.temperature:g}, so "
            f"{counted(grpo.groups_per_round, 'group')} of reviews; then {counted(grpo.steps_per_round, 'step')} on "
            f"the usable groups{' and on those of follow-ups' if config.objective == 'both' else ''}: "
            f"{counted(locked.total_steps, 'step')}",
        ),
        (
            "follow-ups",
            f"{worth.followups} tasks of the same world, {often} with each library that reviews made: "
            f"{fewest:,} rollouts a round if no review writes anything, at most {most:,}, {rounds * most:,} in all",
        ),
        (
            "reward",
            f"change of success - {worth.listed_cost:g} a listed token - {worth.body_cost:g} a token of text; its "
            f"standard deviation is {deviation:.2f} where skills change {example}, which "
            f"{followups_needed(_WITH, _WITHOUT)} follow-ups of one library show with power .8 (here {size})",
        ),
        ("usable", "not measured; how many groups differ depends on what the reviews write: add --probe N"),
    ]


def most_groups(config: GrpoConfig, locked: LockedConfig, grpo: GrpoLock) -> int:
    """Groups of a step, at most."""
    worth = reviews_lock(config, locked)
    if worth is None or config.objective != "both":
        return grpo.groups_per_round
    episodes = grpo.groups_per_round // worth.tasks
    return grpo.groups_per_round + episodes * worth.followups * _libraries(worth.tasks, grpo)


def _libraries(tasks: int, grpo: GrpoLock) -> int:
    """Different libraries of a learning episode, at most: for each task the one after the work, and one of each
    review."""
    return tasks * (1 + grpo.group_size)
