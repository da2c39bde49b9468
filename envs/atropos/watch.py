"""Warns after the first groups of an environment if too few are usable, with the cause."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hermes_lab.envs.advice import Settings, Value, advice, listed, measure, tips
from hermes_lab.envs.atropos.config import EnvConfig
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.learning.advice import review_causes
from hermes_lab.envs.learning.worth import mean_value
from hermes_lab.envs.signal import REVIEWS, Rated, Signal, signal_of
from hermes_lab.models.weights import Say
from hermes_lab.types import Episode

LOOKS = (8, 16, 32, 64)
"""Whole groups of a kind after which they are judged, until there is a warning."""
NONE = 16
"""Groups of a kind, whole or not, after which it is said that none was sent."""
MOST = 256
"""Groups after which an environment is not followed any more, so that its memory does not grow."""


class Explained(NamedTuple):
    """The groups of one kind: their signal, how the rollouts or reviews went, and what would raise the signal."""

    kind: str
    signal: Signal
    sentence: str
    tips: list[str]


class Watch:
    """Follows the groups of an environment, reviews and rollouts apart, and warns once of each kind."""

    def __init__(self, config: EnvConfig, tally: Tally, say: Say, *, locked: bool = False) -> None:
        self._config = config
        self._tally = tally
        self._locked = locked
        self._say = say
        self._seen: list[Episode] = []
        self._groups: list[Rated] = []
        self._closed: set[str] = set()
        self._kinds = 2 if config.env.objective == "both" else 1
        self._open = config.env.group_size > 1  # otherwise there is nothing to compare

    def saw(self, episode: Episode) -> None:
        """Takes an episode."""
        if self._open:
            self._seen.append(episode)

    def judged(self, group: Rated) -> None:
        """Takes a group; says a warning if too few of its kind can be trained on."""
        if not self._open:
            return
        self._groups.append(group)
        kind = kind_of(group)
        if kind not in self._closed:
            self._look(kind)
        if len(self._groups) >= MOST or len(self._closed) == self._kinds:
            self._open, self._seen, self._groups = False, [], []

    def _look(self, kind: str) -> None:
        groups = [each for each in self._groups if kind_of(each) == kind]
        signal = signal_of(groups)
        few = signal.groups in LOOKS and signal.shown_few
        if few or (len(groups) == NONE and all(each.refused for each in groups)):
            why = None if few else Counter(each.refused for each in groups)
            found = explained(self._config, kind, groups, self._seen, self._tally, locked=self._locked, refused=why)
            self._say(warning(found) if few else nothing_sent(groups, found))
            self._closed.add(kind)
        elif signal.groups >= LOOKS[-1]:
            self._closed.add(kind)


def kind_of(group: Rated) -> str:
    """`reviews` or `rollouts`."""
    return REVIEWS if group.label == REVIEWS else "rollouts"


def explained(
    config: EnvConfig,
    kind: str,
    groups: Sequence[Rated],
    episodes: Sequence[Episode],
    tally: Tally,
    *,
    locked: bool = False,
    refused: Mapping[str, int] | None = None,
) -> Explained:
    """What was measured of the groups of a kind, and advice for what is `refused`, by default of the whole groups."""
    settings, signal = settings_of(config, locked=locked), signal_of(groups)
    refused = signal.refused if refused is None else refused
    if kind == REVIEWS:
        reviews = mean_value(tally.reviews)
        return Explained(
            kind, signal, reviews.sentence(), tips(refused, lambda: review_causes([reviews], settings), settings)
        )
    if config.env.objective != "solve":
        episodes = [each for each in episodes if each.phase == "heldout"]
    sampling, measured = config.model.sampling, measure(episodes, list(build_groups(episodes)))
    sentence = f"{measured.sentence(sampling.max_tokens, sampling.temperature)}{measured.equal()}"
    return Explained(kind, signal, sentence, tips(refused, lambda: advice(measured, settings), settings))


def warning(found: Explained) -> str:
    """The warning, in one line."""
    signal = found.signal
    parts = "; ".join(f"{label}: {part.usable} of {part.groups}" for label, part in sorted(signal.parts.items()))
    return (
        f"warning: too few usable groups: {signal.rate} of the first groups can be trained on"
        f"{signal.reasons()} ({parts}); {found.sentence}. Try: {listed(found.tips)}"
    )


def nothing_sent(groups: Sequence[Rated], found: Explained) -> str:
    """The warning where no group was sent, in one line."""
    reasons = ", ".join(f"{why} {count}" for why, count in Counter(each.refused for each in groups).most_common())
    return (
        f"warning: none of the first {len(groups)} groups was sent: {reasons}; {found.sentence}. "
        f"Try: {listed(found.tips)}"
    )


def settings_of(config: EnvConfig, *, locked: bool = False) -> Settings:
    """What advice names for an environment; `locked`: with a lock file, which sets some of the values."""
    sampling, where = config.model.sampling, " in a new lock" if locked else ""

    def value(field: str, in_lock: str, now: float | None) -> Value:
        return Value(f"grpo.{in_lock}" if locked else field, now, where)

    return Settings(
        config.rollouts,
        value("env.group_size", "group_size", config.env.group_size),
        value("model.sampling.temperature", "temperature", sampling.temperature),
        value("model.sampling.max_tokens", "max_reply_tokens", sampling.max_tokens),
        value("agent.max_seconds", "worker_timeout", config.agent.max_seconds),
        Value("max_token_length" if locked else "env.max_token_length", config.env.max_token_length, where),
        start="an adapter that was trained with SFT first: model.adapter=packaged, or `hermes-lab train sft`",
        medium=""
        if config.env.has_window
        else "such as env.min_success=0.1 with env.max_success=0.9 (docs/atropos.md)",
        paid="reviews" if locked else "env.reviews",
    )
