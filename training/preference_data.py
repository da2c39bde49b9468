"""Pairs of token sequences for preference training. Refusals are counted by reason."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.records import read_episodes
from hermes_lab.training.completeness import unsound_turns
from hermes_lab.training.config import Gate
from hermes_lab.training.pairs import Pair, find_pairs, join_pairs
from hermes_lab.training.select import TrainingConversation, held_out_tasks, task_digest
from hermes_lab.training.tokens import RefusedError, Row, rows_of
from hermes_lab.types import Episode, Trajectory
from hermes_lab.types.episode import CHAT


class PairOfConversations(NamedTuple):
    """Two conversations with the same prompt; `chosen` is the better one."""

    chosen: TrainingConversation
    rejected: TrainingConversation

    @property
    def digest(self) -> str:
        """sha256 of the training content."""
        return _sha256(self.chosen.digest, self.rejected.digest)


class PairOfRows(NamedTuple):
    """Two sequences; labels cover exactly the sampled tokens."""

    chosen: Row
    rejected: Row


class SelectedPairs(NamedTuple):
    """The selected pairs, and refused episodes and pairs by reason."""

    pairs: list[PairOfConversations]
    refused: dict[str, int]

    @property
    def digest(self) -> str:
        """sha256 of the pairs, independent of order and folders."""
        return _sha256(*sorted(pair.digest for pair in self.pairs))

    def sentence(self) -> str:
        """The selection in one line."""
        return f"{len(self.pairs)} pairs selected"


def select_pairs(runs: Iterable[Path], gate: Gate) -> SelectedPairs:
    """The best and the worst sample of each prompt, if the best was accepted or, in a chat, kept after `/retry`.

    Held-out tasks are excluded as in `select_rows`. Samples of different runs are never paired.
    """
    runs = list(runs)
    held_out = held_out_tasks((episode for run in runs for episode in read_episodes(run)), gate)
    pairs: dict[str, PairOfConversations] = {}
    refused: Counter[str] = Counter()
    for run in runs:
        keys = find_pairs(_admitted(run, gate, held_out, refused), refused, consent=gate.consent)
        for episodes in join_pairs(keys, read_episodes(run)):
            if not _is_accepted(episodes.chosen):
                refused["pair without an accepted sample"] += 1
                continue
            pair = _conversations(episodes)
            if pairs.setdefault(pair.digest, pair) is not pair:
                refused["duplicate pair"] += 1
    return SelectedPairs([pairs[digest] for digest in sorted(pairs)], dict(sorted(refused.items())))


def _is_accepted(episode: Episode) -> bool:
    return episode.verdicts[-1].success if episode.verdicts else episode.suite == CHAT


def tokenize_pairs(
    pairs: Sequence[PairOfConversations], tokenizer: Any, max_tokens: int
) -> tuple[list[PairOfRows], dict[str, int]]:
    """Tokenised pairs, and refusals by reason. Nothing is truncated."""
    rows: list[PairOfRows] = []
    refused: Counter[str] = Counter()
    for pair in pairs:
        try:
            made = PairOfRows(_row(pair.chosen, tokenizer), _row(pair.rejected, tokenizer))
        except RefusedError as refusal:
            refused[f"pair {refusal}"] += 1
            continue
        if max(len(row.input_ids) for row in made) > max_tokens:
            refused[f"pair longer than {max_tokens} tokens"] += 1
        elif _prompt(made.chosen) != _prompt(made.rejected):
            refused["pair with different prompt tokens"] += 1
        else:
            rows.append(made)
    return rows, dict(sorted(refused.items()))


def _admitted(run: Path, gate: Gate, held_out: set[str], refused: Counter[str]) -> Iterator[tuple[Episode, Trajectory]]:
    for episode in read_episodes(run):
        if episode.status != "ok" or episode.trajectory is None:
            refused["errored"] += 1
        elif episode.task.split not in gate.splits or task_digest(episode) in held_out:
            refused["held out"] += 1
        else:
            yield episode, episode.trajectory


def _conversations(pair: Pair) -> PairOfConversations:
    return PairOfConversations(_conversation(pair.chosen), _conversation(pair.rejected))


def _conversation(episode: Episode) -> TrainingConversation:
    """The episode without its review, with every turn trained: DPO compares the likelihood of all turns.

    A truncated turn is trained only if its tokens are known; rendering it would add an end-of-turn token that was not
    sampled.
    """
    trajectory = episode.trajectory
    if trajectory is None:
        raise ValueError(f"{episode.key}: changed while it was read")
    cut = unsound_turns(trajectory.steps)
    return TrainingConversation(
        episode=episode.key,
        messages=trajectory.messages,
        tools=trajectory.tools,
        tool_format=trajectory.tool_format,
        trained=tuple(s.message for s in trajectory.steps if trajectory.branches or s.message not in cut),
        branches=trajectory.branches,
        sampled=tuple(step.message for step in trajectory.steps),
    )


def _row(conversation: TrainingConversation, tokenizer: Any) -> Row:
    rows = list(rows_of(conversation, tokenizer))
    if len(rows) != 1 or not any(label >= 0 for label in rows[0].labels):
        raise RefusedError("of several token sequences" if len(rows) > 1 else "without a token to train")
    return rows[0]


def _prompt(row: Row) -> list[int]:
    """The tokens before the first sampled one."""
    return row.input_ids[: next(at for at, label in enumerate(row.labels) if label >= 0)]


def _sha256(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
