"""TRL's GRPO trainer on our tasks: scored groups as columns, a `rollout_func`, an `environment_factory`."""

from hermes_lab.envs.trl.columns import rollout_columns
from hermes_lab.envs.trl.environment import environment_rows, make_environment
from hermes_lab.envs.trl.reviews import ReviewRolloutFunc, make_review_rollout_func, review_prompt_rows
from hermes_lab.envs.trl.rollout import RolloutFunc, episode_reward, make_rollout_func, prompt_rows

__all__ = [
    "ReviewRolloutFunc",
    "RolloutFunc",
    "environment_rows",
    "episode_reward",
    "make_environment",
    "make_review_rollout_func",
    "make_rollout_func",
    "prompt_rows",
    "review_prompt_rows",
    "rollout_columns",
]
