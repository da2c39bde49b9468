"""Greedy evaluation on a held-out split."""

from collections.abc import Sequence
from typing import Any

import anyio

from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.commit import package_version
from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.atropos.config import EnvConfig
from hermes_lab.envs.rollouts import Rollouts
from hermes_lab.errors import ConfigError
from hermes_lab.models.weights import Say
from hermes_lab.types import Episode


def greedy(config: EnvConfig) -> RunConfig:
    """The rollouts of an evaluation: one greedy sample for each of `env.eval_count` tasks of `env.eval_split`."""
    sampling = config.model.sampling.model_copy(update={"temperature": 0.0})
    suite = config.suite.model_copy(update={"split": config.env.eval_split, "count": config.env.eval_count})
    model = config.model.model_copy(update={"sampling": sampling})
    return config.rollouts.model_copy(update={"model": model, "suite": suite})


async def evaluate(rollouts: Rollouts, say: Say) -> tuple[dict[str, Any], list[Episode]]:
    """Runs the tasks of `greedy`. Returns a report for JSON, and the episodes.

    Errored rollouts are counted separately, not as failures. Raises `ConfigError` if the suite has no such split.
    """
    config = rollouts.context.config
    suite = config.suite
    if suite.split not in rollouts.context.suite.splits:
        known = ", ".join(rollouts.context.suite.splits)
        raise ConfigError(f"env.eval_split: this suite has no split {suite.split}; it has {known}")
    tasks = rollouts.tasks(split=suite.split, count=suite.count, seed=suite.seed, world=suite.world)
    episodes: list[Episode] = []

    async def run(index: int) -> None:
        episodes.extend(await rollouts.group(tasks[index], 1))
        if len(episodes) % 10 == 0:
            say(f"{len(episodes)}/{len(tasks)} tasks")

    async with anyio.create_task_group() as work:
        for index in range(len(tasks)):
            work.start_soon(run, index)
    episodes.sort(key=lambda episode: episode.task_id)
    judged = [episode for episode in episodes if episode.success is not None]
    rate = _rate(judged)
    labels = sorted({episode.skills.knowledge for episode in judged} - {""})
    rewards = [episode.reward.value for episode in judged if episode.reward]
    model = rollouts.context.model.identity
    report = {
        "suite": rollouts.context.suite.name,
        "split": suite.split,
        "world": suite.world,
        "seed": suite.seed,
        "model": model.name,
        "adapter": model.adapter,
        "adapter_digest": model.adapter_digest,
        "config_digest": config_digest(config),
        "lab": package_version(),
        "tasks": len(tasks),
        "errored": sum(episode.status == "errored" for episode in episodes),
        "success": rate.to_dict(),
        "mean_reward": sum(rewards) / len(rewards) if rewards else None,
        "by_knowledge": {label: _rate(judged, label).to_dict() for label in labels},
    }
    return report, episodes


def _rate(judged: Sequence[Episode], label: str = "") -> Rate:
    """The success rate of all episodes, or of those with that knowledge."""
    chosen = [bool(episode.success) for episode in judged if label in ("", episode.skills.knowledge)]
    return Rate(sum(chosen), len(chosen))


def line(report: dict[str, Any]) -> str:
    """The report in one line."""
    success = report["success"]
    text = f"{report['suite']} {report['split']}: {Rate(success['count'], success['of'])} solved"
    if report["mean_reward"] is not None:
        text += f", mean reward {report['mean_reward']:.3f}"
    for label, part in report["by_knowledge"].items():
        text += f"; {label}: {Rate(part['count'], part['of'])}"
    return text + (f"; {report['errored']} of {report['tasks']} rollouts errored" if report["errored"] else "")
