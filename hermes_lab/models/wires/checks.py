"""Checks shared by the native formats (`anthropic`, `responses`): of the configuration, and of how a reply ended."""

from collections.abc import Collection

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.finish import Ending, ending_of
from hermes_lab.models.refusals import Failed


def refuse_fields(config: ModelConfig, api: str, missing: Collection[str]) -> None:
    """Raises `ConfigError` if a field is set that the API does not support: a sampling field in `missing`, or token
    ids."""
    for name in missing:
        if getattr(config.sampling, name) not in (None, ()):
            raise ConfigError(f"model.sampling.{name}: not supported by {api}; remove it")
    if config.token_ids:
        raise ConfigError(f"model.token_ids: not supported by {api}; set it to false")


def sound_ending(field: str, word: object, listed: Collection[str]) -> Ending:
    """How a reply ended, by the `word` in its `field`; `listed` is `model.finish_reasons`.

    Raises `Failed` if the server gave up, and `ModelError` if the word is unknown.
    """
    ending = ending_of(word, listed)
    if ending == "failed":
        raise Failed(f"the server ended the reply with {field} {word!r}")
    if ending == "unknown" and word is None:
        raise ModelError(
            f"the reply has no {field}, so it may be incomplete; "
            "if this endpoint's complete replies have none, list `null` in model.finish_reasons"
        )
    if ending == "unknown":
        raise ModelError(
            f"the reply has the {field} {str(word)[:80]!r}, so it may be incomplete; "
            "if it means a complete reply, list it in model.finish_reasons"
        )
    return ending
