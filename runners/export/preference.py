"""`preference`: the best and the worst sample of a task, in TRL's conversational preference format."""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from hermes_lab.records import read_episodes
from hermes_lab.types import Episode, Trajectory
from runners.export.chat import chat, sent_tools
from runners.export.metadata import metadata
from runners.export.source import Source

_encoder = msgspec.json.Encoder(order="deterministic")
Messages = list[dict[str, Any]]


class _Sample(NamedTuple):
    """One scored sample. Among equal scores the one with the least place counts, whenever it finished."""

    score: float
    place: tuple[str, int, int]
    key: str


class _Samples(NamedTuple):
    """What is kept of a group while the log is read: not its conversations."""

    size: int
    best: _Sample
    worst: _Sample

    def add(self, sample: _Sample) -> "_Samples":
        """The group with one more sample."""
        best = min(self.best, sample, key=lambda s: (-s.score, s.place))
        worst = min(self.worst, sample, key=lambda s: (s.score, s.place))
        return _Samples(self.size + 1, best, worst)


def rows(source: Source) -> Iterator[dict[str, Any]]:
    """`{"prompt", "chosen", "rejected", "tools", "metadata"}`, at most one pair a prompt.

    Samples belong together where task, weights, library, configuration, tools and every byte of the prompt are equal.
    The log is read twice, so that only pairs whose second half is still to come are held.
    """
    groups: dict[str, _Samples] = {}
    for episode, trajectory in source.finished():
        if reason := _refusal(episode, trajectory):
            source.left_out[reason] += 1
            continue
        sample = _Sample(episode.score or 0.0, (episode.lane, episode.round, episode.sample), episode.key)
        name = _group(episode, trajectory)
        groups[name] = groups[name].add(sample) if name in groups else _Samples(1, sample, sample)
    pairs = list(_pairs(groups, source))
    yield from _join(pairs, source)


def _refusal(episode: Episode, trajectory: Trajectory) -> str | None:
    if episode.score is None:
        return "not scored"
    if not trajectory.steps:
        return "without a reply"
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
        _halves(trajectory)[0],
    )
    return hashlib.sha256(_encoder.encode(same)).hexdigest()


def _pairs(groups: dict[str, _Samples], source: Source) -> Iterator[tuple[str, str]]:
    """The keys of chosen and rejected; the rest is counted."""
    for group in groups.values():
        if group.size == 1:
            source.left_out["without another sample"] += 1
        elif group.best.score == group.worst.score:
            source.left_out["no better and no worse than the others"] += group.size
        else:
            if group.size > 2:
                source.left_out["neither best nor worst"] += group.size - 2
            yield group.best.key, group.worst.key


def _join(pairs: list[tuple[str, str]], source: Source) -> Iterator[dict[str, Any]]:
    partners = dict(pairs) | {rejected: chosen for chosen, rejected in pairs}
    chosen_keys = {chosen for chosen, _ in pairs}
    waiting: dict[str, Episode] = {}
    for episode in read_episodes(source.run):
        partner = partners.get(episode.key)
        if partner is None:
            continue
        if partner not in waiting:
            waiting[episode.key] = episode
        elif episode.key in chosen_keys:
            yield _row(episode, waiting.pop(partner))
        else:
            yield _row(waiting.pop(partner), episode)


def _row(chosen: Episode, rejected: Episode) -> dict[str, Any]:
    better, worse = chosen.trajectory, rejected.trajectory
    if better is None or worse is None:
        raise ValueError(f"{chosen.key}: changed while it was read")
    prompt, good = _halves(better)
    return {
        "prompt": prompt,
        "chosen": good,
        "rejected": _halves(worse)[1],
        "tools": sent_tools(better),
        "metadata": {"chosen": metadata(chosen, better), "rejected": metadata(rejected, worse)},
    }


def _halves(trajectory: Trajectory) -> tuple[Messages, Messages]:
    """What stands before the first reply, and all from it to the last one.

    Templates take a call's arguments as an object, where the wire has text.
    """
    replies = [index for index, message in enumerate(trajectory.messages) if message.role == "assistant"]
    messages = chat(trajectory)
    for message in messages:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = msgspec.json.decode(call["function"]["arguments"])
    return messages[: replies[0]], messages[replies[0] : replies[-1] + 1]
