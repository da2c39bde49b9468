"""The environment variables that a run reads: keys and secrets, which workers on other machines need, too."""

from hermes_lab.config.mcp import REFERENCE
from hermes_lab.config.schema import ModelConfig, RunConfig
from hermes_lab.web.services import key_variable


def secret_variables(config: RunConfig) -> tuple[str, ...]:
    """The environment variables that the configuration names or that a service has by default, whether set or not."""
    models = [config.model]
    if config.auxiliary:
        models.append(config.auxiliary)
    if config.judge:
        models.append(config.judge.model)
    names = [name for model in models for name in _of_model(model)]
    others = (key_variable(config.web), config.sandbox.daytona.api_key_env, *config.mcp.variables)
    return tuple(dict.fromkeys(name for name in (*names, *others) if name))


def _of_model(model: ModelConfig) -> list[str]:
    keys = [name.strip() for name in model.key_variable.split(",")]
    return keys + [name for value in model.headers.values() for name in REFERENCE.findall(value)]
