"""TRL's GRPO trainer on the lab's tasks: scored groups as its columns, a `rollout_func`, an `environment_factory`."""

from envs.trl.columns import rollout_columns
from envs.trl.environment import environment_rows, make_environment
from envs.trl.rollout import RolloutFunc, episode_reward, make_rollout_func, prompt_rows

__all__ = [
    "RolloutFunc",
    "environment_rows",
    "episode_reward",
    "make_environment",
    "make_rollout_func",
    "prompt_rows",
    "rollout_columns",
]
