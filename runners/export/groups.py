"""`groups`: the rollouts of one task under one policy, scored against each other, with their token ids."""

from collections.abc import Iterator

from hermes_lab.runners.export.source import Source
from hermes_lab.types import Episode, ScoredGroup


def rows(source: Source) -> Iterator[ScoredGroup]:
    """One row per group. Its members may be anywhere in the log, so the whole log is read first."""
    from hermes_lab.envs.groups import build_groups

    yield from build_groups(_scored(source))


def _scored(source: Source) -> Iterator[Episode]:
    for episode, trajectory in source.finished():
        if episode.reward is None:
            source.left_out["not scored"] += 1
        elif not trajectory.steps:
            source.left_out["without a reply"] += 1
        else:
            yield episode
