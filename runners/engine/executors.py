"""Where rollouts run: in this process, in several of this machine, or on a Ray cluster. Everything else of a run is the
same."""

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
    """What runs the rollouts of `contexts`, whose models were opened under `adapters`, for the time of the block.
    Raises `ConfigError` where there is no such cluster, and `WorkerError` where no worker comes up."""
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
    """Around an import: raises `ConfigError` that names `field` where Ray is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ConfigError(f"{field}: `ray` is not installed: pip install 'hermes-lab[ray]'") from None
