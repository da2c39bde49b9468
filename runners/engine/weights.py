"""The adapters that the lanes of a run use."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.runners.engine.plan import Command


def weights_of(command: Command, config: RunConfig) -> tuple[str, ...]:
    """The adapters of a run, "" for none. A lane's `weights` is an index into them."""
    return (config.learning.adapters if command != "run" else ()) or (config.model.adapter,)


def weights_digest(adapters: Sequence[str]) -> str:
    """The weights digest in `run.json`: of one adapter's folder, or combined over several. "" for adapters that are
    only known by their name on a server."""
    digests = [_digest_of(adapter) for adapter in adapters]
    if len(digests) == 1 or not any(digests):
        return digests[0]
    return hashlib.sha256("/".join(digests).encode()).hexdigest()


@contextmanager
def wrap_adapter_errors(command: Command, config: RunConfig) -> Iterator[None]:
    """Corrects the field name in errors about an adapter: it may come from `learning.adapters`."""
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
