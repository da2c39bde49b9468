"""Held-out scores of an adapter, computed from run folders and stored next to its card."""

from collections import Counter
from pathlib import Path

import msgspec

from hermes_lab.analysis.stats.rates import Place, rate_over
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.manifest import read_manifest
from hermes_lab.models.cards import read_card
from hermes_lab.records import read_episodes, write_atomic
from hermes_lab.types import Episode

EVALUATIONS = "evaluations.jsonl"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one arm of a run: `solved` of `n` scored episodes, at the first submission.

    `arm` is "main" if the run has none. `low` and `high` are the 95 % Wilson interval, over worlds if there are enough
    (`hermes_lab.analysis.stats.rates`). `unscored` episodes ended without a verdict and are not in `n`. `config_digest`
    and `adapter_digest` are those of the run and of the adapter that served all of it.
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
    judged: dict[tuple[str, str, str], list[Episode]] = {}
    unscored: Counter[tuple[str, str, str]] = Counter()
    finished = 0
    for episode in read_episodes(run):
        finished += episode.status != "errored"  # errored episodes are retried
        if episode.model.adapter_digest != card.digest:
            by = episode.model.adapter or episode.model.name
            raise ConfigError(f"{run}: {episode.task_id} was served by {by}, not by {card.name} ({card.digest[:12]})")
        place = lane_key(episode.lane)
        at = (episode.suite, episode.task.split, place.arm if place else "main")
        scored = judged.setdefault(at, [])
        if episode.success is None:
            unscored[at] += 1
        else:
            scored.append(msgspec.structs.replace(episode, trajectory=None))  # conversations are large
    if finished < manifest.wanted:
        raise ConfigError(f"{run}: {manifest.wanted - finished} episodes are missing; finish it with --resume")
    if not any(judged.values()):
        raise ConfigError(f"{run}: no episode was scored")
    found = []
    for (suite, split, arm), scored in judged.items():
        rate = rate_over([bool(each.success) for each in scored], [place_of(each) for each in scored])
        low, high = rate.interval
        found.append(
            Evaluation(
                run=str(run),
                suite=suite,
                split=split,
                arm=arm,
                n=rate.trials,
                solved=rate.successes,
                low=low,
                high=high,
                unscored=unscored[suite, split, arm],
                config_digest=manifest.config_digest,
                adapter_digest=card.digest,
            )
        )
    return _add(folder, found)


def place_of(episode: Episode) -> Place:
    """The place of an episode in its run, for rates over dependent episodes."""
    world = episode.task.world
    return Place(world, (world, episode.lane), (world, episode.suite, episode.task_id))


def _add(folder: Path, new: list[Evaluation]) -> list[Evaluation]:
    known = read_evaluations(folder)
    there = [_located(evaluation) for evaluation in known]
    lines = [*known, *(evaluation for evaluation in new if _located(evaluation) not in there)]
    write_atomic(folder / EVALUATIONS, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return new


def _located(evaluation: Evaluation) -> Evaluation:
    return msgspec.structs.replace(evaluation, run=str(Path(evaluation.run).resolve()))
