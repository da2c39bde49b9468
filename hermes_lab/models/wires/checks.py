"""Checks that the native formats (`anthropic`, `responses`) share: of what is configured, and of how a reply ended."""

from collections.abc import Collection

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.finish import Ending, ending_of
from hermes_lab.models.refusals import Failed


def refuse_fields(config: ModelConfig, api: str, missing: Collection[str]) -> None:
    """Raises `ConfigError` where a field is set that the API does not have: one of the sampling fields `missing`, or
    token ids."""
    for name in missing:
        if getattr(config.sampling, name) not in (None, ()):
            raise ConfigError(f"model.sampling.{name}: {api} does not have it; leave it out")
    if config.token_ids:
        raise ConfigError(f"model.token_ids: {api} gives no token ids; set it to false")


def sound_ending(field: str, word: object, listed: Collection[str]) -> Ending:
    """How a reply ended, by the `word` in its `field`; `listed` is `model.finish_reasons`. Raises `Failed` where the
    server gave up, and `ModelError` where nobody knows the word."""
    ending = ending_of(word, listed)
    if ending == "failed":
        raise Failed(f"the server ended the reply with {field} {word!r}")
    if ending == "unknown" and word is None:
        raise ModelError(
            f"the reply has no {field}, so it may be incomplete; "
            "if complete replies of this endpoint have none, list `null` in model.finish_reasons"
        )
    if ending == "unknown":
        raise ModelError(
            f"the reply has the {field} {str(word)[:80]!r}, so it may be incomplete; "
            "if it stands for a complete reply, list it in model.finish_reasons"
        )
    return ending
