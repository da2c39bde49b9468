"""Says after the first groups of an environment that it will starve its trainer, and why."""

from collections.abc import Callable, Sequence

from hermes_lab.envs.advice import Settings, Value, advice, listed, measure
from hermes_lab.envs.atropos.config import EnvConfig
from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.signal import Signal, signal_of
from hermes_lab.types import Episode

FIRST = 8
"""Whole groups after which the environment is judged."""

Say = Callable[[str], None]


class Watch:
    """Follows the episodes of an environment until its first `FIRST` groups are whole."""

    def __init__(self, config: EnvConfig, say: Say, *, locked: bool = False) -> None:
        self._config = config
        self._settings = settings_of(config, locked=locked)
        self._say = say
        self._seen: list[Episode] = []
        self._open = config.env.group_size > 1  # otherwise there is nothing to compare

    def saw(self, episode: Episode) -> None:
        """Takes an episode; says a warning after the one that completes the last of the first groups."""
        if not self._open:
            return
        self._seen.append(episode)
        signal = signal_of(self._seen, self._config.env.group_size)
        if signal.groups < FIRST:
            return
        if signal.starves:
            self._say(warning(self._seen, signal, self._settings))
        self._open, self._seen = False, []


def warning(episodes: Sequence[Episode], signal: Signal, settings: Settings) -> str:
    """What was measured and what would raise the signal, in one line."""
    sampling = settings.run.model.sampling
    measured = measure(episodes, list(build_groups(episodes)))
    parts = "; ".join(f"{label}: {part.usable} of {part.groups}" for label, part in sorted(signal.parts.items()))
    return (
        f"warning: this environment will starve its trainer: {signal.rate} of its first groups have rewards that differ"
        f"{measured.equal()}, and no other group teaches anything ({parts}); "
        f"{measured.sentence(sampling.max_tokens, sampling.temperature)}. Try: {listed(advice(measured, settings))}"
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
        start="an adapter that was trained with SFT first: model.adapter=packaged, or `hermes-lab train sft`",
        medium="such as env.min_success=0.1 with env.max_success=0.9 (docs/atropos.md)",
    )
