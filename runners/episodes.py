"""The numbers of a run's episodes, the same in every command that prints or takes one.

An episode's number is its place in `hermes-lab show`: by lane, round and task, whatever finished first. The numbers of
a run that still goes on change; keys never do.
"""

from pathlib import Path

from hermes_lab.errors import ConfigError
from hermes_lab.records import read_episodes
from hermes_lab.types import Episode

Place = tuple[str, int, tuple[float, ...]]


def place_of(episode: Episode) -> Place:
    """Sorts episodes as `show` lists them; held-out ones follow the others of their round."""
    return episode.lane, episode.round, (episode.phase == "heldout", episode.place, episode.sample)


def find_episode(run: Path, wanted: str, lane: str = "") -> Episode:
    """The episode with that key, number or task id, in a lane whose name starts with `lane`.

    Raises `ConfigError` if there is none, if it is in another lane, if several lanes or samples have that task, and if
    one episode has that number and another one that task.
    """
    listed = sorted((place_of(episode), episode.key, episode.task_id) for episode in read_episodes(run))
    found = [number for number, (_, key, _) in enumerate(listed) if key == wanted]
    if not found:
        found = [number for number, (_, _, task) in enumerate(listed) if task == wanted]
        if wanted.isdecimal() and (number := int(wanted)) < len(listed):
            if found and found != [number]:
                raise ConfigError(
                    f"--episode: {wanted} is the number of {listed[number][1]} and the task of {listed[found[0]][1]}; "
                    "give the key"
                )
            found = [number]
    if not listed:
        raise ConfigError(f"--episode: {run} has no episodes yet")
    if not found:
        raise ConfigError(
            f"--episode: {run} has no episode {wanted!r}; give its key, its task, or its number: 0 to {len(listed) - 1}"
        )
    inside = [number for number in found if listed[number][0][0].startswith(lane)]
    told = ", ".join(f"{number} ({listed[number][0][0]})" for number in (inside or found)[:8])
    if not inside:
        raise ConfigError(f"--episode: {wanted} is in no lane that starts with {lane!r}; it is number {told}")
    if len(inside) > 1:
        raise ConfigError(f"--episode: {wanted} was run {len(inside)} times; give one of the numbers {told}")
    return next(episode for episode in read_episodes(run) if episode.key == listed[inside[0]][1])
