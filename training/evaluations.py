"""Held-out scores of an adapter, computed from run folders and stored next to its card."""

from pathlib import Path

import msgspec

from hermes_lab.analysis.stats.intervals import wilson
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.manifest import read_manifest
from hermes_lab.models.cards import read_card
from hermes_lab.records import read_episodes, write_atomic

EVALUATIONS = "evaluations.jsonl"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one arm of a run: `solved` of `n` scored episodes, at the first submission.

    `arm` is "main" if the run has none. `low` and `high` are the 95 % Wilson interval. `unscored` episodes ended
    without a verdict and are not in `n`. `config_digest` and `adapter_digest` are those of the run and of the adapter
    that served all of it.
    """

    v: int = 1
    run: str
    suite: str
    split: str
    arm: str = "main"
    n: int
    solved: int
    low: float
    high: float
    unscored: int
    config_digest: str
    adapter_digest: str

    def sentence(self) -> str:
        """The score in one line."""
        unscored = f", {self.unscored} unscored" if self.unscored else ""
        arm = "" if self.arm == "main" else f", arm {self.arm}"
        if not self.n:
            return f"{self.suite} {self.split}{arm}: not measured{unscored}; {self.run}"
        rate = f"{100 * self.solved / self.n:.1f} % ({100 * self.low:.1f}-{100 * self.high:.1f} %)"
        return f"{self.suite} {self.split}{arm}: {self.solved} of {self.n} solved, {rate}{unscored}; {self.run}"


def read_evaluations(folder: Path) -> list[Evaluation]:
    """The scores of an adapter, in the order they were added."""
    path = folder / EVALUATIONS
    if not path.is_file():
        return []
    try:
        return [msgspec.json.decode(line, type=Evaluation) for line in path.read_bytes().splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not the scores of an adapter: {error}") from None


def score(folder: Path, run: Path) -> list[Evaluation]:
    """Adds the scores of a finished run, one per suite, split and arm; adding a run twice has no effect.

    Raises `ConfigError` if the run is incomplete (errored episodes included), has no scored episode, or was not
    entirely served by this adapter.
    """
    card, manifest = read_card(folder), read_manifest(run)
    counts: dict[tuple[str, str, str], list[int]] = {}
    finished = 0
    for episode in read_episodes(run):
        finished += episode.status != "errored"  # errored episodes are retried
        if episode.model.adapter_digest != card.digest:
            by = episode.model.adapter or episode.model.name
            raise ConfigError(f"{run}: {episode.task_id} was served by {by}, not by {card.name} ({card.digest[:12]})")
        place = lane_key(episode.lane)
        at = (episode.suite, episode.task.split, place.arm if place else "main")
        count = counts.setdefault(at, [0, 0, 0])
        if episode.success is None:
            count[2] += 1
        else:
            count[0] += 1
            count[1] += int(episode.success)
    if finished < manifest.wanted:
        raise ConfigError(f"{run}: {manifest.wanted - finished} episodes are missing; finish it with --resume")
    if not any(n for n, _, _ in counts.values()):
        raise ConfigError(f"{run}: no episode was scored")
    return _add(folder, [_evaluation(run, manifest.config_digest, card.digest, at, *c) for at, c in counts.items()])


def _evaluation(
    run: Path, config_digest: str, adapter_digest: str, at: tuple[str, str, str], n: int, solved: int, unscored: int
) -> Evaluation:
    suite, split, arm = at
    low, high = wilson(solved, n)
    return Evaluation(
        run=str(run),
        suite=suite,
        split=split,
        arm=arm,
        n=n,
        solved=solved,
        low=low,
        high=high,
        unscored=unscored,
        config_digest=config_digest,
        adapter_digest=adapter_digest,
    )


def _add(folder: Path, new: list[Evaluation]) -> list[Evaluation]:
    known = read_evaluations(folder)
    there = [_located(evaluation) for evaluation in known]
    lines = [*known, *(evaluation for evaluation in new if _located(evaluation) not in there)]
    write_atomic(folder / EVALUATIONS, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return new


def _located(evaluation: Evaluation) -> Evaluation:
    return msgspec.structs.replace(evaluation, run=str(Path(evaluation.run).resolve()))
