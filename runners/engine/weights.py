"""Which weights the lanes of a run use."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.runners.engine.plan import Command


def weights_of(command: Command, config: RunConfig) -> tuple[str, ...]:
    """The adapters of a run, "" being none; a lane's `weights` is a place among them."""
    return (config.learning.adapters if command != "run" else ()) or (config.model.adapter,)


def weights_digest(adapters: Sequence[str]) -> str:
    """What `run.json` knows of the weights: the digest of an adapter's folder, or one over those of several. Of an
    adapter that only has a name at a server nothing is known yet."""
    digests = [_digest_of(adapter) for adapter in adapters]
    if len(digests) == 1 or not any(digests):
        return digests[0]
    return hashlib.sha256("/".join(digests).encode()).hexdigest()


@contextmanager
def wrap_adapter_errors(command: Command, config: RunConfig) -> Iterator[None]:
    """What is wrong with an adapter is said of the field that names it."""
    try:
        yield
    except ConfigError as error:
        if command == "run" or not config.learning.adapters:
            raise
        raise ConfigError(str(error).replace("model.adapter:", "learning.adapters:", 1)) from None


def _digest_of(adapter: str) -> str:
    if not adapter:
        return ""
    from hermes_lab.models.adapters import adapter_folder, identify

    folder = adapter_folder(adapter)
    return identify(folder)[1].digest if folder else ""
