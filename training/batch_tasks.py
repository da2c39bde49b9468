"""The tasks of a batch of rollouts."""

from collections.abc import Sequence
from itertools import product

from hermes_lab.config.schema import Arm
from hermes_lab.protocols import Suite
from hermes_lab.returned import load_tasks
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.training.grpo_config import Batch
from hermes_lab.types import Task


def batch_arms(batch: Batch) -> tuple[Arm, ...]:
    """Its arms; one with a fixed library where `env.knowledge` chooses the skills of each task."""
    return ("frozen",) if batch.config.env.knowledge != "none" else batch.config.learning.arms


def batch_tasks(batch: Batch, suite: Suite) -> list[tuple[int, Arm, Sequence[Task]]]:
    """World, arm and tasks: the batch's tasks, divided among arms and worlds as evenly as possible."""
    config = batch.config
    places = list(product(range(config.learning.worlds), batch_arms(batch)))[: batch.tasks]
    counts = [batch.tasks // len(places) + (n < batch.tasks % len(places)) for n in range(len(places))]
    found: list[tuple[int, Arm, Sequence[Task]]] = []
    for (world, arm), count in zip(places, counts, strict=True):
        number = batch.first_world + world
        with wrap_suite_errors(suite):
            tasks = load_tasks(suite, split=config.suite.split, count=count, seed=config.suite.seed, world=number)
        found.append((number, arm, tasks))
    return found
