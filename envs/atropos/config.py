"""The configuration of an Atropos environment, in addition to that of its rollouts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from hermes_lab.config.schema import EnvironmentConfig, RunConfig
from hermes_lab.config.sources import load_section
from hermes_lab.config.units import Unit
from hermes_lab.config.window import above_min_success
from hermes_lab.envs.learning.config import Objective, ReviewWorth, check_learning
from hermes_lab.errors import ConfigError
from hermes_lab.rewards import earned_share
from hermes_lab.types import Reward

ENOUGH = 16
"""Rollouts of a kind of tasks after which its success rate counts as known."""


class EnvSection(EnvironmentConfig):
    """An environment of an Atropos server, and how its groups are made."""

    name: Annotated[str, Field(min_length=1)] = "hermes-lab"
    """The environment's name; the server appends a number."""
    group_size: Annotated[int, Field(ge=1)] = 4
    """Rollouts of one task, scored against each other. The trainer's batch size must be a multiple of it."""
    max_token_length: Annotated[int, Field(gt=0), Unit("tokens")] = 4096
    """Most tokens of a sequence; a group with a longer one is refused, never truncated."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """The weight among the server's environments."""
    min_batch_allocation: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of every batch that must come from this environment, if any."""
    max_batches_offpolicy: Annotated[int, Field(ge=0)] = 3
    """Most batches queued on the server. With more, training is further off-policy. 0 counts as 1, since an empty
    queue would never be fed."""
    drop_equal_scores: bool = True
    """Leave out groups whose rewards are all equal: their advantages are 0."""
    min_success: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Leave out kinds of tasks (family, and what the skills know) whose rollouts earned less than this share of what
    solving can earn, until their groups leave the last `memory_groups`. `objective: solve` only."""
    max_success: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Leave out kinds of tasks whose rollouts earned more than this share. `objective: solve` only."""
    memory_groups: Annotated[int, Field(ge=1)] = 64
    """Number of latest groups that the shares are measured of; at least 16 rollouts of a kind are needed."""
    refills: Annotated[int, Field(ge=0)] = 4
    """Most replacements for a group's errored rollouts; a group that is still incomplete is dropped."""
    objective: Objective = "solve"
    """What the groups are: rollouts of a task (`solve`), reviews of a finished episode (`review`), or both from the
    same learning episodes. `review` and `both` need `env.reviews` and `learning.arms=[on]`."""
    reviews: ReviewWorth | None = None
    """Learning episodes, with `env.group_size` reviews of each finished task."""
    messages: bool = True
    """Also send the conversations, which are most of the data."""
    steps: Annotated[int, Field(ge=0)] = 0
    """Stop at this step of the trainer; 0: at the trainer's own number of steps, if any."""
    trainer_seconds: Annotated[float, Field(gt=0), Unit("seconds")] = 3600.0
    """Seconds to wait for the trainer to start."""
    retry_seconds: Annotated[float, Field(ge=0), Unit("seconds")] = 60.0
    """Seconds to retry a server that does not answer."""
    eval_split: str = "heldout"
    """The split for `env evaluate`."""
    eval_count: Annotated[int, Field(ge=0)] = 100
    """Tasks to evaluate; 0 is all of a finite suite."""

    @property
    def has_window(self) -> bool:
        """Whether kinds of tasks are left out by what they earn."""
        return (self.min_success, self.max_success) != (0.0, 1.0)

    _window = field_validator("max_success")(above_min_success)


class EnvConfig(RunConfig):
    """A run's configuration, of which `suite`, `model`, `agent` and `sandbox` are used, plus the section `env`."""

    env: EnvSection = EnvSection()
    """The environment."""

    @property
    def rollouts(self) -> RunConfig:
        """The part that determines rollouts, and so their configuration digest."""
        shared = {name: getattr(self, name) for name in RunConfig.model_fields}
        return RunConfig(**shared | {"env": EnvironmentConfig(knowledge=self.env.knowledge)})


def load_env_config(sources: Sequence[str]) -> EnvConfig:
    """YAML files and `key=value` overrides, merged left to right. Raises `ConfigError` for a mistake."""
    return load_section(EnvConfig, sources)


def check_sampling(config: EnvConfig) -> None:
    """Raises `ConfigError` if the model cannot produce groups for training."""
    if config.model.provider in ("scripted", "replay"):
        raise ConfigError(
            f"model.provider: {config.model.provider} returns no token ids; use vllm, or openai with the URL of a vLLM"
        )
    if config.suite.split == config.env.eval_split:
        raise ConfigError(f"suite.split: {config.suite.split} is the split of `env evaluate`; train on another one")
    if not config.model.token_ids:
        raise ConfigError("model.token_ids: must be true, to train on the sampled tokens")
    if config.env.has_window and earned_share(config.reward, Reward(0.0)) is None:
        raise ConfigError("env.min_success: no term of reward is earned by solving; set reward.score or leave it out")
    if config.env.has_window and (most := config.env.memory_groups * config.env.group_size) < ENOUGH:
        raise ConfigError(
            f"env.memory_groups: the last {config.env.memory_groups} groups of {config.env.group_size} are {most} "
            f"rollouts, and the rate of a kind needs {ENOUGH}, so env.min_success and env.max_success would leave "
            f"nothing out; give at least {-(-ENOUGH // config.env.group_size)}"
        )
    _check_reviews(config)
    if config.env.group_size > 1 and config.model.sampling.temperature == 0:
        raise ConfigError("model.sampling.temperature: 0 makes all rollouts of a group equal; use 1.0")


def _check_reviews(config: EnvConfig) -> None:
    env = config.env
    if env.objective == "solve":
        return
    if env.reviews is None:
        raise ConfigError(
            f"env.reviews: objective={env.objective} needs it: {', '.join(ReviewWorth.model_fields)} "
            "(docs/learning-episodes.md)"
        )
    check_learning(config)
    for name in ("min_success", "max_success", "memory_groups", "refills"):
        value = getattr(env, name)
        if value != EnvSection.model_fields[name].default:
            raise ConfigError(
                f"env.{name}: has no effect with objective={env.objective}, where tasks are not chosen and a failed "
                f"rollout is tried once more; remove it (it is {value:g})"
            )
    if env.objective == "both" and env.reviews.repeats != env.group_size:
        raise ConfigError(
            f"env.reviews.repeats: is {env.reviews.repeats}, and env.group_size {env.group_size}; with objective=both "
            "the repeats of a follow-up are a group, so they must be equal"
        )


def new_file(path: Path) -> Path:
    """The path of a new file; creates its folder. Raises `ConfigError` if the file exists."""
    if path.exists():
        raise ConfigError(f"{path}: exists; give another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
