"""What an environment is told besides the configuration of its rollouts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hermes_lab.config.schema import RunConfig, Section
from hermes_lab.config.sources import load_section
from hermes_lab.errors import ConfigError


class EnvSection(Section):
    """One environment of an Atropos server, and how its groups are made."""

    name: Annotated[str, Field(min_length=1)] = "hermes-lab"
    """What the server calls it; the server adds a number."""
    group_size: Annotated[int, Field(ge=1)] = 4
    """Rollouts of one task, scored against each other. The trainer's batch size must be a multiple of it."""
    max_token_length: Annotated[int, Field(gt=0)] = 4096
    """Tokens of one sequence; a group with a longer one is refused, never cut."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Among the server's environments."""
    min_batch_allocation: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of every batch that must come from this environment, if any."""
    max_batches_offpolicy: Annotated[int, Field(ge=0)] = 3
    """Batches that may wait at the server. The more, the older the policy of what is trained on. 0
    counts as 1: a queue that may hold nothing is never fed."""
    drop_equal_scores: bool = True
    """Leave out groups whose rewards are all equal: their advantages are 0."""
    refills: Annotated[int, Field(ge=0)] = 4
    """Further rollouts for those of a group that the infrastructure stopped; a group that is still short is dropped."""
    messages: bool = True
    """Send the conversations, too; they are most of what is sent."""
    steps: Annotated[int, Field(ge=0)] = 0
    """End at this step of the trainer; 0: at the step that the trainer named, if it named any."""
    trainer_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """How long to wait until the trainer has started."""
    retry_seconds: Annotated[float, Field(ge=0)] = 60.0
    """How long a server that does not answer is asked again."""
    eval_split: str = "heldout"
    """The split that `env evaluate` is about."""
    eval_count: Annotated[int, Field(ge=0)] = 100
    """Its tasks; 0 is all of a finite suite."""


class EnvConfig(RunConfig):
    """The configuration of a run, of which `suite`, `model`, `agent` and `sandbox` count, and the section `env`."""

    env: EnvSection = EnvSection()
    """The environment."""

    @property
    def rollouts(self) -> RunConfig:
        """The part that decides the rollouts: what their configuration digest is of."""
        return RunConfig(**{name: getattr(self, name) for name in RunConfig.model_fields})


def load_env_config(sources: Sequence[str]) -> EnvConfig:
    """YAML files and `key=value` overrides, merged left to right. Raises `ConfigError` for a mistake."""
    return load_section(EnvConfig, sources)


def check_sampling(config: EnvConfig) -> None:
    """Raises `ConfigError` where the model cannot give groups to train on."""
    if config.model.provider in ("scripted", "replay"):
        raise ConfigError(
            f"model.provider: {config.model.provider} samples no tokens; use vllm, or openai with the URL of a vLLM"
        )
    if config.suite.split == config.env.eval_split:
        raise ConfigError(f"suite.split: {config.suite.split} is what `env evaluate` judges by; train on another one")
    if not config.model.token_ids:
        raise ConfigError("model.token_ids: must be true, so that the tokens are those that were sampled")
    if config.env.group_size > 1 and config.model.sampling.temperature == 0:
        raise ConfigError("model.sampling.temperature: 0 makes every rollout of a group the same; give 1.0")


def new_file(path: Path) -> Path:
    """The path of a file to write, in a folder that is there. Raises `ConfigError` where the file is, too."""
    if path.exists():
        raise ConfigError(f"{path}: exists; give another file")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
