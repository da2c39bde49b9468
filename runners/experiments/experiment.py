"""The lanes of an experiment: arms x replicates x worlds x weights, and the tasks of each."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from typing import NamedTuple

from hermes_lab.config.schema import LearningConfig, RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.lane import LaneKey, lane_name
from hermes_lab.protocols import Suite
from hermes_lab.runners.engine.lanes import initial_library
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.weights import weights_of
from hermes_lab.runners.experiments.orders import order_of
from hermes_lab.skills.library import Library
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.types import Task


class _Schedule(NamedTuple):
    """What the lanes of one replicate and world have in common, whatever their arm and weights."""

    worlds: Sequence[int]
    rounds: Sequence[Sequence[Task]]
    heldout: Sequence[Sequence[Task]]


def plan_learn(config: RunConfig, suite: Suite, library: Library) -> list[Lane]:
    """A lane for each arm, replicate, world and weights; those that have skills begin with `library`.

    All lanes of a replicate and world get the same tasks in the same order, and the same held-out tasks at the same
    checks, so that they can be compared task by task. Raises `ConfigError` for what is no experiment.
    """
    check_experiment(config)
    learning = config.learning
    weights, checks = range(len(weights_of("learn", config))), _checks(learning)
    load = cache(partial(_load, config, suite))
    library_of = cache(lambda arm, world: initial_library(arm, library, suite, split=config.suite.split, world=world))
    lanes: list[Lane] = []
    for replicate, world in product(range(learning.replicates), range(learning.worlds)):
        schedule = _schedule(config, suite, load, replicate, world)
        for arm, each in product(learning.arms, weights):
            known = _known([library_of(arm, one) for one in schedule.worlds]) if arm == "oracle" else ()
            lane = Lane(
                name=lane_name(LaneKey(arm, replicate, world, each), with_weights=len(weights) > 1),
                arm=arm,
                library=known[0] if known else library_of(arm, 0),
                samples=1,
                rounds=schedule.rounds,
                blocks=learning.blocks,
                weights=each,
                heldout=schedule.heldout,
                checks=checks,
                known=known,
            )
            lanes.append(lane)
    return lanes


def check_experiment(config: RunConfig) -> None:
    """Raises `ConfigError` for fields that contradict each other, or an experiment."""
    learning, model = config.learning, config.model
    if config.run.samples != 1:
        raise ConfigError("run.samples: an experiment takes 1; for more rollouts raise learning.replicates")
    if config.suite.count:
        raise ConfigError("suite.count: an experiment takes its tasks from learning.rounds, round_size and worlds")
    if learning.rounds % learning.blocks:
        raise ConfigError(
            f"learning.rounds: {learning.rounds} rounds cannot be shared among {learning.blocks} blocks; give a "
            f"multiple of {learning.blocks}"
        )
    if not learning.adapters:
        return
    if model.adapter:
        raise ConfigError("model.adapter: give the weights there or in learning.adapters, not in both")
    if model.provider in ("scripted", "replay") and any(learning.adapters):
        raise ConfigError(f"learning.adapters: provider `{model.provider}` has no weights that an adapter could change")
    if model.merge and len(learning.adapters) > 1:
        raise ConfigError("model.merge: a server holds one set of merged weights; with learning.adapters leave it out")


def _checks(learning: LearningConfig) -> frozenset[int]:
    """The rounds before which the held-out tasks are run; `learning.rounds` is after the last one.

    Each border between two blocks has one, whatever `every` says: transfer is what changes from border to border.
    """
    if not learning.heldout.tasks:
        return frozenset()
    every = learning.heldout.every or learning.rounds
    boundaries = range(0, learning.rounds, learning.rounds // learning.blocks)
    return frozenset((*range(0, learning.rounds, every), *boundaries, learning.rounds))


def _schedule(
    config: RunConfig, suite: Suite, load: Callable[[int, int], list[Task]], replicate: int, world: int
) -> _Schedule:
    """The tasks of a replicate and world, each world's in its block, in the order that `learning.order` says."""
    learning, seed = config.learning, _seed(config, replicate)
    first = config.suite.world + world * learning.blocks
    if first + learning.blocks > 1 and load(seed, 0)[0] == load(seed, 1)[0]:
        raise ConfigError(f"learning.worlds: {suite.name} has no worlds, all have the same tasks; use 1, in 1 block")
    arrange = partial(order_of, learning.order, replicate=replicate, replicates=learning.replicates)
    worlds = [first + block for block in arrange(learning.blocks, seed=(config.suite.seed, "blocks", world))]
    training: list[Task] = []
    heldout = []
    for each in worlds:
        tasks, count = load(seed, each), _training_count(learning)
        if learning.order != "drawn" and len({task.metadata.get("epoch") for task in tasks}) > 1:
            raise ConfigError(
                f"learning.order: {suite.name} drifts at a task; only in the order `drawn` it is one point"
            )
        training += [tasks[place] for place in arrange(count, seed=(config.suite.seed, each))]
        heldout.append(tasks[count:])
    size = learning.round_size
    rounds = [training[place : place + size] for place in range(0, len(training), size)]
    return _Schedule(worlds, rounds, heldout if learning.heldout.tasks else [])


def _load(config: RunConfig, suite: Suite, seed: int, world: int) -> list[Task]:
    """A world's tasks: those to learn from, then the held-out ones."""
    training, heldout = _training_count(config.learning), config.learning.heldout.tasks
    try:
        with wrap_suite_errors(suite.name):
            return suite.load(split=config.suite.split, count=training + heldout, seed=seed, world=world)
    except ConfigError as error:
        if not heldout or not str(error).startswith("suite.count"):
            raise
        raise ConfigError(
            f"learning.heldout.tasks: {training} tasks to learn from and {heldout} held-out ones are too many: {error}"
        ) from None


def _training_count(learning: LearningConfig) -> int:
    """Tasks of one world that a lane learns from."""
    return learning.rounds // learning.blocks * learning.round_size


def _seed(config: RunConfig, replicate: int) -> int:
    """Draws a replicate's tasks; where only their order differs, those of all."""
    drawn = replicate if config.learning.order == "drawn" else 0
    return int.from_bytes(hashlib.sha256(f"{config.suite.seed}/{drawn}".encode()).digest()[:4], "big")


def _known(rules: Sequence[Library]) -> list[Library]:
    """What an oracle knows in each block: the rules of all its worlds. Where places of two worlds have the same name,
    those of the world that it is in."""
    return [Library({n: s for each in (*rules, now) for n, s in each.skills.items()}.values()) for now in rules]
