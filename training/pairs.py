"""Preference pairs for training and export: the best and the worst sample of each prompt."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from hermes_lab.chat.sharing import withheld
from hermes_lab.models.wires.chat import wire
from hermes_lab.training.completeness import is_whole, spoilt, unfinished
from hermes_lab.types import Episode, Trajectory

_encoder = msgspec.json.Encoder(order="deterministic")


class Pair(NamedTuple):
    """Two episodes of one task, the chosen one with the higher score."""

    chosen: Episode
    rejected: Episode


class _Sample(NamedTuple):
    """One scored sample. `place` breaks ties, independently of the order in which samples finished."""

    score: float
    place: tuple[str, int, int]
    key: str
    sound: bool
    """Whether it may be chosen: it ended with an answer and no reply was truncated."""


class _Samples(NamedTuple):
    """The state of a group while reading the log, without conversations."""

    size: int
    best: _Sample | None
    """The best sample that may be chosen."""
    worst: _Sample
    top: float
    """The best score of all."""

    def add(self, sample: _Sample) -> "_Samples":
        """The group with one more sample."""
        sound = [each for each in (self.best, sample) if each and each.sound]
        best = min(sound, key=lambda s: (-s.score, s.place)) if sound else None
        worst = min(self.worst, sample, key=lambda s: (s.score, s.place))
        return _Samples(self.size + 1, best, worst, max(self.top, sample.score))


def find_pairs(
    finished: Iterable[tuple[Episode, Trajectory]], left_out: Counter[str], *, consent: bool = False
) -> list[tuple[str, str]]:
    """Keys of (chosen, rejected), at most one pair per prompt. Episodes without a pair are counted by reason.

    Samples are grouped by task, weights, library, configuration, tools and the exact prompt. A sample without a final
    answer or with a truncated reply is never chosen. Turns of chats are left out as `withheld` says.
    """
    groups: dict[str, _Samples] = {}
    for episode, trajectory in finished:
        if reason := _refusal(episode, trajectory) or withheld(episode, consent=consent):
            left_out[reason] += 1
            continue
        sound = unfinished(trajectory) is None and is_whole(trajectory)
        sample = _Sample(episode.score or 0.0, (episode.lane, episode.round, episode.sample), episode.key, sound)
        name = _group(episode, trajectory)
        known = groups.get(name)
        groups[name] = known.add(sample) if known else _Samples(1, sample if sound else None, sample, sample.score)
    return list(_pairs(groups, left_out))


def join_pairs(keys: Iterable[tuple[str, str]], episodes: Iterable[Episode]) -> Iterator[Pair]:
    """Yields each pair as soon as both episodes are read. Keeps only episodes whose partner is still to come."""
    pairs = list(keys)
    partners = dict(pairs) | {rejected: chosen for chosen, rejected in pairs}
    chosen_keys = {chosen for chosen, _ in pairs}
    waiting: dict[str, Episode] = {}
    for episode in episodes:
        partner = partners.get(episode.key)
        if partner is None:
            continue
        if partner not in waiting:
            waiting[episode.key] = episode
        elif episode.key in chosen_keys:
            yield Pair(episode, waiting.pop(partner))
        else:
            yield Pair(waiting.pop(partner), episode)


def first_reply(trajectory: Trajectory) -> int:
    """The index of the model's first reply in this episode; everything before it is the prompt.

    In a chat, earlier turns are part of the prompt; a program may begin with assistant messages of its own.
    """
    return trajectory.steps[0].message


def _refusal(episode: Episode, trajectory: Trajectory) -> str | None:
    if episode.score is None:
        return "not scored"
    if not trajectory.steps:
        return "without a reply"
    if reason := spoilt(trajectory):
        return reason
    if trajectory.compressions:
        return "compressed on the way"
    if trajectory.tool_format == "native" and any(call.error for m in trajectory.messages for call in m.tool_calls):
        return "with a malformed call, whose own text no template writes"
    return None


def _group(episode: Episode, trajectory: Trajectory) -> str:
    same = (
        episode.suite,
        episode.task_id,
        episode.task.world,
        episode.model,
        episode.skills.snapshot,
        episode.config_digest,
        trajectory.tool_format,
        trajectory.tools,
        wire(trajectory.messages[: first_reply(trajectory)], trajectory.tool_format),
    )
    return hashlib.sha256(_encoder.encode(same)).hexdigest()


def _pairs(groups: dict[str, _Samples], left_out: Counter[str]) -> Iterator[tuple[str, str]]:
    for group in groups.values():
        if group.size == 1:
            left_out["without another sample"] += 1
        elif group.top == group.worst.score:
            left_out["no better and no worse than the others"] += group.size
        elif group.best is None or group.best.score == group.worst.score:
            left_out["without a better sample that ended with an answer"] += group.size
        else:
            if group.size > 2:
                left_out["neither best nor worst"] += group.size - 2
            yield group.best.key, group.worst.key
