"""Rejects changes to locked values, whether from a training configuration, a run configuration or the environment."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.section import Section
from hermes_lab.config.sources import load_config, load_section
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.errors import ConfigError
from hermes_lab.training.lock import (
    HOW_TO_CHANGE,
    RUN_FIELDS,
    CurriculumLock,
    GrpoLock,
    HardwareLock,
    LockedConfig,
    PreferenceLock,
    load_lock,
    locked_overrides,
    locked_value,
)
from hermes_lab.training.processes import count

_SECTIONS: dict[str, type[Section]] = {
    "grpo": GrpoLock,
    "preference": PreferenceLock,
    "curriculum": CurriculumLock,
    "reviews": ReviewWorth,
    "hardware": HardwareLock,
}
_PROCESSES = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_LAUNCHERS = {
    "ACCELERATE_USE_DEEPSPEED": "learning_rate",  # its file may set another optimiser and schedule
    "ACCELERATE_USE_FSDP": "batch_size",
    "ACCELERATE_USE_MEGATRON_LM": "batch_size",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "batch_size",
}
_LOCKED_AS = {
    "model.name": "base_model",
    "model.sampling.top_p": "grpo.temperature",  # top_p also changes the sampling distribution
    "suite.seed": "seed",
    "run.seed": "seed",
}
_SAMPLING = ("model.sampling.temperature", "model.sampling.top_p", "run.samples")
"""Fields that an evaluation may choose."""
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "top_k": (None, -1, 0),
    "min_p": (None, 0),
    "seed": (None,),  # a fixed one may make all rollouts of a task equal
    "stop": ((),),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
}
"""Fields of `model.sampling` beside the locked ones, with the values that leave the sampling distribution alone."""
_HARMLESS = ("cache_salt", "chat_template_kwargs", "metadata", "priority", "user")
"""Fields of `model.extra_body` that do not change how tokens are sampled. `chat_template_kwargs` changes the prompt,
which no lock holds, and which is trained on as it was sampled from."""
_FALSE = ("", "0", "false", "no", "n", "off", "f")


class Given(Section):
    """Accepts any field, to see what a source sets."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def by(cls, source: str) -> dict[str, Any]:
        """The fields of one YAML file or override."""
        return dict(load_section(cls, [source]).model_extra or {})


def locked_fields(given: Mapping[str, Any]) -> list[str]:
    """The locked fields that a training's configuration tries to set, e.g. `learning_rate` or `grpo.temperature`.

    Checks the top level, `lock` and the lock's sections, and section fields given without their section.
    """
    given = dict(given)
    if isinstance(given.get("lock"), Mapping):
        given |= given.pop("lock")
    found: list[str] = []
    for name, value in given.items():
        if name in _SECTIONS and isinstance(value, Mapping):
            known = _SECTIONS[name].model_fields
            found += [f"{name}.{part}" for part in value if part in known] or [name]
        elif name in LockedConfig.model_fields:
            found.append(name)
        else:
            found += [f"{section}.{name}" for section, schema in _SECTIONS.items() if name in schema.model_fields]
    return found


def refusal(field: str, lock: str) -> str:
    """The error message: the field, its locked value if `lock` is given, and the remedy."""
    locked = load_lock(Path(lock)) if lock else None
    value = f" at {_shown(locked, field)} by {lock}" if locked else ""
    return f"{field} is locked{value}; {HOW_TO_CHANGE}"


def refuse_environment(locked: LockedConfig, *, divided: bool = False) -> None:
    """Raises `ConfigError` if an environment variable would make a library override locked values.

    Our arguments take precedence over most of the libraries' variables; these are the exceptions. `divided` says that
    the training divides the locked batch among the processes of a launcher, so these do not change it.
    """
    launched = divided and count() > 1
    for name in _PROCESSES:
        if os.environ.get(name, "1").strip() not in ("", "0", "1") and not (launched and name == "WORLD_SIZE"):
            raise _by_environment(name, "batch_size", locked)
    if os.environ.get("LOCAL_RANK", "-1").strip() not in ("", "-1", "0") and not launched:
        raise _by_environment("LOCAL_RANK", "batch_size", locked)
    for name, field in _LAUNCHERS.items():
        if os.environ.get(name, "").lower() not in _FALSE:
            raise _by_environment(name, field, locked)
    if locked.use_wandb and os.environ.get("WANDB_DISABLED", "").lower() not in _FALSE:
        raise _by_environment("WANDB_DISABLED", "use_wandb", locked)
    if locked.use_wandb and os.environ.get("WANDB_MODE") == "disabled":
        raise _by_environment("WANDB_MODE", "use_wandb", locked)


def locked_run_config(sources: Sequence[str], locked: LockedConfig, lock: str) -> RunConfig:
    """The configuration of a run that samples for GRPO: `load_config` with the values of `locked`.

    `locked` has the values of the file `lock` at the start of the training, even if the file has changed since.

    Raises `ConfigError` if a source sets one of these fields to another value.
    """
    seeds = {"suite.seed": locked.seed, "run.seed": locked.seed}
    run = _locked_config(sources, lock, _locked_run_values(locked) | seeds)
    refuse_other_sampling(run, lock)
    return run


def locked_evaluation_config(sources: Sequence[str], locked: LockedConfig, lock: str) -> RunConfig:
    """The same for a GRPO evaluation run. Nothing is trained on it, so it may choose its seeds, samples and sampling,
    except for the maximum length of a reply."""
    decided = {name: value for name, value in _locked_run_values(locked).items() if name not in _SAMPLING}
    return _locked_config(sources, lock, decided)


def refuse_server_options(run: RunConfig, lock: str) -> None:
    """Raises `ConfigError` if a run passes options to the server, which could replace the locked model or sampling."""
    if run.model.server.args:
        raise ConfigError(f"model.server.args {list(run.model.server.args)}: {refusal('base_model', lock)}")


def refuse_other_sampling(run: RunConfig, lock: str) -> None:
    """Raises `ConfigError` if rollouts would be sampled from another distribution than the locked temperature gives."""
    where, locked = "model.sampling", refusal("grpo.temperature", lock)
    for name, neutral in _NEUTRAL.items():
        if (value := getattr(run.model.sampling, name)) not in neutral:
            raise ConfigError(f"{where}.{name} {value!r}: it changes how rollouts are sampled: {locked}")
    if others := sorted(set(run.model.extra_body) - set(_HARMLESS)):
        raise ConfigError(
            f"model.extra_body: {others[0]} may change how rollouts are sampled: {locked}. Beside a lock it may have "
            f"{', '.join(_HARMLESS)}"
        )


def refuse_other_values(
    sources: Sequence[str], lock: str, decided: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> None:
    """Raises `ConfigError` if a source sets one of a run's fields to another value than the locked one.

    `names` maps run fields to locked fields, in addition to `RUN_FIELDS`.
    """
    names = RUN_FIELDS | _LOCKED_AS | dict(names or {})
    for source in sources:
        given = Given.by(source)
        for name, value in decided.items():
            if (found := _at(given, name)) is not None and found != value:
                where = source if source.startswith(f"{name}=") else f"{source}: {name} {found!r}"
                raise ConfigError(f"{where}: {refusal(names[name], lock)}")


def _locked_run_values(locked: LockedConfig) -> dict[str, Any]:
    return locked_overrides(locked) | {"model.name": locked.base_model}


def _locked_config(sources: Sequence[str], lock: str, decided: Mapping[str, Any]) -> RunConfig:
    refuse_other_values(sources, lock, decided)
    # Quote strings, so that a name that looks like a number stays a string.
    texts = {name: json.dumps(value) if isinstance(value, str) else value for name, value in decided.items()}
    # The locked server is an endpoint; settings of the sources for another provider are ignored.
    run = load_config([*sources, "model.provider=openai", *(f"{name}={text}" for name, text in texts.items())])
    refuse_server_options(run, lock)
    return run


def _at(given: Mapping[str, Any], name: str) -> Any:
    value: Any = given
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _by_environment(variable: str, field: str, locked: LockedConfig) -> ConfigError:
    value = os.environ[variable]
    return ConfigError(
        f"environment variable {variable}={value}: it would change {field}, which is locked at "
        f"{_shown(locked, field)}; unset it, or {HOW_TO_CHANGE}"
    )


def _shown(locked: LockedConfig, field: str) -> str:
    try:
        value = locked_value(locked, field)
    except ConfigError:
        return "nothing (there is no such section)"
    return repr(value.model_dump() if isinstance(value, Section) else value)
