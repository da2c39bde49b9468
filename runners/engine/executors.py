"""Executors for rollouts: this process, several processes on this machine, or a Ray cluster. Planning, logging and
learning do not depend on the executor."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import Say
from hermes_lab.rollout import RolloutContext, RunEpisode, run_episode


@asynccontextmanager
async def open_executor(
    config: RunConfig, contexts: Sequence[RolloutContext], adapters: Sequence[str], say: Say
) -> AsyncIterator[RunEpisode]:
    """Yields the function that runs rollouts of `contexts`; `adapters` are the names their models were opened with.
    Raises `ConfigError` if the Ray cluster cannot be reached, and `WorkerError` if no worker starts."""
    if config.run.executor == "local":
        yield run_episode
        return
    if config.run.executor == "processes":
        from hermes_lab.runners.processes.pool import open_pool
    else:
        with need_ray("run.executor"):
            from hermes_lab.runners.ray.pool import open_pool
    async with open_pool(config, contexts, adapters, say) as elsewhere:
        yield elsewhere


@contextmanager
def need_ray(field: str) -> Iterator[None]:
    """Wraps an import of Ray: raises `ConfigError` with the name of `field` if Ray is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ConfigError(f"{field}: `ray` is not installed: pip install 'hermes-lab[ray]'") from None
