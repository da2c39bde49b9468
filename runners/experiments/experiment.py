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
from hermes_lab.returned import load_tasks
from hermes_lab.runners.engine.lanes import initial_library
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.engine.weights import weights_of
from hermes_lab.runners.experiments.orders import order_of
from hermes_lab.skills.library import Library
from hermes_lab.tasks.registry import wrap_suite_errors
from hermes_lab.text.counted import counted
from hermes_lab.types import Task


class _Schedule(NamedTuple):
    """The tasks shared by all lanes of one replicate and world, in every arm and with all weights."""

    worlds: Sequence[int]
    rounds: Sequence[Sequence[Task]]
    heldout: Sequence[Sequence[Task]]


def plan_learn(config: RunConfig, suite: Suite, library: Library) -> list[Lane]:
    """Plans a lane for each arm, replicate, world and weights; lanes with skills start with `library`.

    All lanes of a replicate and world get the same tasks in the same order, and the same held-out tasks at the same
    checks, so that they can be compared task by task. Raises `ConfigError` for an invalid experiment.
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
    """Raises `ConfigError` for fields that contradict each other or that experiments do not support."""
    learning, model = config.learning, config.model
    if config.run.samples != 1:
        raise ConfigError("run.samples: must be 1 in an experiment; for more rollouts raise learning.replicates")
    if config.suite.count:
        raise ConfigError("suite.count: not used by experiments; set learning.rounds, round_size and worlds")
    if learning.rounds % learning.blocks:
        raise ConfigError(
            f"learning.rounds: {learning.rounds} rounds cannot be divided into {learning.blocks} blocks; use a "
            f"multiple of {learning.blocks}"
        )
    if not learning.adapters:
        return
    if model.adapter:
        raise ConfigError("model.adapter: set either model.adapter or learning.adapters, not both")
    if model.provider in ("scripted", "replay") and any(learning.adapters):
        raise ConfigError(f"learning.adapters: provider `{model.provider}` has no weights to adapt")
    if model.merge and len(learning.adapters) > 1:
        raise ConfigError("model.merge: a server holds one set of merged weights; set it to false for several adapters")


def _checks(learning: LearningConfig) -> frozenset[int]:
    """The rounds before which the held-out tasks are run; `learning.rounds` means after the last one.

    There is always a check between two blocks, regardless of `every`: transfer is the change between those checks.
    """
    if not learning.heldout.tasks:
        return frozenset()
    every = learning.heldout.every or learning.rounds
    boundaries = range(0, learning.rounds, learning.rounds // learning.blocks)
    return frozenset((*range(0, learning.rounds, every), *boundaries, learning.rounds))


def _schedule(
    config: RunConfig, suite: Suite, load: Callable[[int, int], list[Task]], replicate: int, world: int
) -> _Schedule:
    """The tasks of a replicate and world: one block per world, ordered by `learning.order`."""
    learning, seed = config.learning, _seed(config, replicate)
    first = config.suite.world + world * learning.blocks
    if first + learning.blocks > 1 and load(seed, 0)[0] == load(seed, 1)[0]:
        raise ConfigError(f"learning.worlds: all worlds of {suite.name} have the same tasks; use 1 world and 1 block")
    arrange = partial(order_of, learning.order, replicate=replicate, replicates=learning.replicates)
    worlds = [first + block for block in arrange(learning.blocks, seed=(config.suite.seed, "blocks", world))]
    training: list[Task] = []
    heldout = []
    for each in worlds:
        tasks, count = load(seed, each), _training_count(learning)
        if learning.order != "drawn" and len({task.metadata.get("epoch") for task in tasks}) > 1:
            raise ConfigError(f"learning.order: {suite.name} drifts at a given task, which needs the order `drawn`")
        training += [tasks[place] for place in arrange(count, seed=(config.suite.seed, each))]
        heldout.append(tasks[count:])
    size = learning.round_size
    rounds = [training[place : place + size] for place in range(0, len(training), size)]
    return _Schedule(worlds, rounds, heldout if learning.heldout.tasks else [])


def _load(config: RunConfig, suite: Suite, seed: int, world: int) -> list[Task]:
    """A world's tasks: the training tasks, then the held-out ones."""
    training, heldout = _training_count(config.learning), config.learning.heldout.tasks
    try:
        with wrap_suite_errors(suite):
            return load_tasks(suite, split=config.suite.split, count=training + heldout, seed=seed, world=world)
    except ConfigError as error:
        if error.field != "suite.count":
            raise
        needed = f"{counted(training, 'training task')} and {counted(heldout, 'held-out task')}"
        raise ConfigError(
            f"learning: {needed} are needed in each world (learning.rounds, learning.round_size, "
            f"learning.heldout.tasks): {error.message}"
        ) from None


def _training_count(learning: LearningConfig) -> int:
    """Training tasks per world of a lane."""
    return learning.rounds // learning.blocks * learning.round_size


def _seed(config: RunConfig, replicate: int) -> int:
    """The seed of a replicate's tasks; the same for all replicates if they differ only in order."""
    drawn = replicate if config.learning.order == "drawn" else 0
    return int.from_bytes(hashlib.sha256(f"{config.suite.seed}/{drawn}".encode()).digest()[:4], "big")


def _known(rules: Sequence[Library]) -> list[Library]:
    """An oracle's library in each block: the rules of all its worlds. If two worlds have a skill of the same name, that
    of the current world is used."""
    return [Library({n: s for each in (*rules, now) for n, s in each.skills.items()}.values()) for now in rules]
