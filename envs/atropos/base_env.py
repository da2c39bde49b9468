r"""`HermesLabAtroposEnv`: task suites as an atroposlib `BaseEnv`.

    python -m hermes_lab.envs.atropos.base_env process --env.hermes_lab "suite.name=ledger" --env.total_steps 8 \
        --env.data_path_to_save_groups groups.jsonl --openai.base_url http://127.0.0.1:8001/v1

Its `serve`, `process` and `evaluate` are atroposlib's own; `hermes-lab env` does the same without atroposlib. The
sequences are the sampler's: atroposlib's `tokenize_for_trainer` marks nothing to train under transformers 5.
"""

import asyncio
import logging
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import msgspec

from hermes_lab import configs
from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.atropos.config import EnvConfig, load_env_config
from hermes_lab.envs.atropos.evaluate import evaluate, greedy
from hermes_lab.envs.atropos.source import GroupSource, Item
from hermes_lab.envs.atropos.tally import Tally
from hermes_lab.envs.atropos.watch import Watch
from hermes_lab.envs.rollouts import Rollouts, open_rollouts
from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import resolve, silent
from hermes_lab.types import Episode

try:
    from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig
    from pydantic import Field
except ImportError as error:
    raise ConfigError(
        f"hermes_lab.envs.atropos.base_env: needs atroposlib ({error}); pip install 'hermes-lab[atropos]'"
    ) from None

CONFIG = Path(configs.__file__).parent / "env" / "atropos.yaml"


class HermesLabAtroposConfig(BaseEnvConfig):  # type: ignore[misc]
    """atroposlib's fields, plus the rollout configuration."""

    hermes_lab: str = Field(default="", description="YAML files and key=value overrides of Hermes Lab, with spaces")


class HermesLabAtroposEnv(BaseEnv):  # type: ignore[misc]
    """Tasks of a suite as items, and their rollouts as groups, using the batch runner's rollouts.

    `env.group_size`, `env.max_token_length`, `env.max_num_workers`, `env.ensure_scores_are_not_same` and the first
    `openai` server are set by atroposlib; everything else by Hermes Lab's configuration.
    """

    name: ClassVar[str] = "hermes-lab"
    env_config_cls: ClassVar[type] = HermesLabAtroposConfig

    def __init__(self, config: HermesLabAtroposConfig, server_configs: Any, **options: Any) -> None:
        if config.tokenizer_name == "packaged":  # only used to show rollouts in wandb
            config = config.model_copy(update={"tokenizer_name": str(resolve("packaged", silent))})
        super().__init__(config, server_configs, **options)
        self._tally = Tally()
        self._metrics: dict[str, float] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._source: GroupSource
        self._items: Iterator[Item]

    @classmethod
    def config_init(cls) -> tuple[HermesLabAtroposConfig, list[APIServerConfig]]:
        """The packaged model on a local vLLM. The name must not be null, which the server rejects."""
        config = HermesLabAtroposConfig(
            tokenizer_name="packaged", wandb_name=cls.name, use_wandb=False, group_size=4, include_messages=True
        )
        return config, [APIServerConfig(model_name="packaged", base_url="http://127.0.0.1:8001/v1", api_key="none")]

    async def setup(self) -> None:
        """Connects to the model."""
        self._config = self._combined()
        if self._config.env.objective != "solve":
            raise ConfigError("env.objective: atroposlib's loop makes one group per task; use `hermes-lab env serve`")
        rollouts = await self._open(self._config.rollouts)
        watch = Watch(self._config, self._tally, logging.getLogger(__name__).warning)
        self._tally.judged = watch.judged

        async def keep(episode: Episode) -> None:
            watch.saw(episode)

        self._source = GroupSource(self._config, rollouts, self._tally, keep)
        self._items = self._source.items()

    async def get_next_item(self) -> Item:
        """The next task and the epoch of the suite."""
        return next(self._items)

    async def collect_trajectories(self, item: Item) -> tuple[dict[str, Any] | None, list[Item]]:
        """The group of a task, or None if it is refused; the backlog is always empty."""
        self._source.size = self.config.group_size  # `process` sets it late
        if self.max_token_len > 0:
            self._source.longest = min(self.config.max_token_length, self.max_token_len)
        made = await self._source.make(item)
        if made is None:
            return None, []
        self._tally.sent([made.group])
        # atroposlib unpacks a dictionary of lists by its own keys.
        return msgspec.to_builtins(made.data), []

    async def evaluate(self, *args: Any, **kwargs: Any) -> None:
        """Evaluates the held-out split greedily; logged with the next `wandb_log`, and saved by atroposlib if
        configured."""
        del args, kwargs
        started = time.time()
        rollouts = await self._open(greedy(self._config))
        report, _ = await evaluate(rollouts, silent)
        success = report["success"]
        self._metrics = {
            "eval/success": success["rate"] or 0.0,
            "eval/success_low": success["low"],
            "eval/success_high": success["high"],
            "eval/errored": float(report["errored"]),
        }
        await self.evaluate_log(
            self._metrics,
            model_name=report["adapter"] or report["model"],
            start_time=started,
            end_time=time.time(),
            generation_parameters={"temperature": 0.0},
        )

    async def wandb_log(self, wandb_metrics: dict[str, Any] | None = None) -> None:
        """Adds counts and the last evaluation."""
        counts = {f"train/refused/{reason}": count for reason, count in self._tally.refused.items()}
        mine = {"train/groups": self._tally.groups, "train/errored": self._tally.errored, **counts, **self._metrics}
        self._metrics = {}
        await super().wandb_log((wandb_metrics or {}) | mine)

    def _combined(self) -> EnvConfig:
        theirs, server = self.config, self.server.servers[0].config
        return load_env_config(
            [
                str(CONFIG),
                *shlex.split(theirs.hermes_lab),
                "model.provider=openai",
                "model.token_ids=true",
                f"model.base_url={server.base_url}",
                f"model.name={server.model_name}",
                f"env.group_size={theirs.group_size}",
                f"env.max_token_length={theirs.max_token_length}",
                f"env.drop_equal_scores={'true' if theirs.ensure_scores_are_not_same else 'false'}",
                f"env.messages={'true' if theirs.include_messages else 'false'}",
            ]
        )

    async def _open(self, config: RunConfig) -> Rollouts:
        """Opens the rollouts in a task of their own: they must be closed in the task that opened them, and atroposlib
        cancels every task at its end."""
        opened: asyncio.Future[Rollouts] = asyncio.get_running_loop().create_future()

        async def keep() -> None:
            try:
                async with open_rollouts(config, log=Path(mkdtemp()) / "server.log", say=silent) as rollouts:
                    opened.set_result(rollouts)
                    await asyncio.Event().wait()
            except Exception as error:
                if opened.done():
                    raise
                opened.set_exception(error)

        self._keepers.append(asyncio.create_task(keep()))
        return await opened


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        HermesLabAtroposEnv.cli()
