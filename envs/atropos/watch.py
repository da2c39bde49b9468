"""Warns after the first groups of an environment if too few are usable, with the cause."""

from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.envs.advice import Settings, Value, advice, listed, measure, tips
from hermes_lab.envs.atropos.config import EnvConfig
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.learning.advice import review_causes
from hermes_lab.envs.learning.worth import mean_value
from hermes_lab.envs.signal import Rated, Signal, signal_of
from hermes_lab.models.weights import Say
from hermes_lab.types import Episode

FIRST = 8
"""Whole groups after which the environment is judged."""


class Explained(NamedTuple):
    """How the rollouts or reviews of groups went, and what would raise the signal."""

    sentence: str
    tips: list[str]


class Watch:
    """Follows an environment until its first `FIRST` groups are whole."""

    def __init__(self, config: EnvConfig, tally: Tally, say: Say, *, locked: bool = False) -> None:
        self._config = config
        self._tally = tally
        self._locked = locked
        self._say = say
        self._seen: list[Episode] = []
        self._groups: list[Rated] = []
        self._open = config.env.group_size > 1  # otherwise there is nothing to compare

    def saw(self, episode: Episode) -> None:
        """Takes an episode."""
        if self._open:
            self._seen.append(episode)

    def judged(self, group: Rated) -> None:
        """Takes a group; says a warning after the last of the first ones."""
        if not self._open:
            return
        self._groups.append(group)
        signal = signal_of(self._groups)
        if signal.groups < FIRST:
            return
        if signal.shown_few:
            found = explained(self._config, signal, self._seen, self._tally, locked=self._locked)
            self._say(warning(signal, found))
        self._open, self._seen, self._groups = False, [], []


def explained(
    config: EnvConfig, signal: Signal, episodes: Sequence[Episode], tally: Tally, *, locked: bool = False
) -> Explained:
    """What was measured, and advice for what is refused."""
    settings = settings_of(config, locked=locked)
    if config.env.objective != "solve":
        reviews = mean_value(tally.reviews)
        return Explained(reviews.sentence(), tips(signal.refused, lambda: review_causes([reviews], settings), settings))
    sampling, measured = config.model.sampling, measure(episodes, list(build_groups(episodes)))
    sentence = f"{measured.sentence(sampling.max_tokens, sampling.temperature)}{measured.equal()}"
    return Explained(sentence, tips(signal.refused, lambda: advice(measured, settings), settings))


def warning(signal: Signal, found: Explained) -> str:
    """The warning, in one line."""
    parts = "; ".join(f"{label}: {part.usable} of {part.groups}" for label, part in sorted(signal.parts.items()))
    return (
        f"warning: too few usable groups: {signal.rate} of the first groups can be trained on"
        f"{signal.reasons()} ({parts}); {found.sentence}. Try: {listed(found.tips)}"
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
