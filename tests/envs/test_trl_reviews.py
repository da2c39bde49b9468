"""Reviews as completions of a TRL `rollout_func`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.adapters import write_lora
from fakes.learning import worth
from fakes.learning_sampler import LearningSampler, narrow_reviews
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.trl import make_review_rollout_func, review_prompt_rows
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.types import Episode


def trainer() -> Any:
    """What a `rollout_func` looks at of TRL's trainer."""
    return SimpleNamespace(
        model=SimpleNamespace(peft_config={}, save_pretrained=lambda folder: write_lora(folder, "weights")),
        accelerator=SimpleNamespace(num_processes=1),
        args=SimpleNamespace(temperature=1.0, top_p=1.0),
        state=SimpleNamespace(global_step=0),
        processing_class=SimpleNamespace(eos_token_id=7),
    )


def config_of(url: str, *overrides: str) -> RunConfig:
    return load_config(
        [
            *("suite.name=ledger", "suite.options.ruled=1", "suite.options.plain=0", "suite.count=2"),
            *("learning.arms=[on]", "learning.worlds=2", f"model.base_url={url}", "model.name=fake"),
            *("model.sampling.temperature=1.0", "agent.tool_format=hermes", "agent.prompt=compact", *overrides),
        ]
    )


def test_completions_are_the_reviews_of_one_finished_episode(tmp_path: Path) -> None:
    seen: list[Episode] = []
    sampler = LearningSampler(3, worlds=range(2), writes=lambda number: number % 2 == 0)
    with running(FakeOpenAIServer(sampler)) as server:
        config = config_of(server.base_url)
        rollout = make_review_rollout_func(config, worth(), tmp_path / "adapters", seen=seen.append)
        prompts = [row["prompt"] for row in review_prompt_rows(config, worth()) for _ in range(2)]
        columns = rollout(prompts, trainer())
        rollout.close()
    assert sum(bool(episode.review) for episode in seen) == 2
    assert len(columns["reward"]) == 4
    for first in (0, 2):
        assert columns["prompt_ids"][first] == columns["prompt_ids"][first + 1]
        assert sorted(reward > 0.9 for reward in columns["reward"][first : first + 2]) == [False, True]
    for completion, mask, reward in zip(columns["completion_ids"], columns["env_mask"], columns["reward"], strict=True):
        said = bytes(token for token, on in zip(completion, mask, strict=True) if on).decode()
        assert ("skill_manage" in said) == (reward > 0.9)


def test_reviews_that_begin_with_different_tokens_are_no_completions(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(narrow_reviews(3, worlds=range(2)))) as server:
        config = config_of(server.base_url)
        rollout = make_review_rollout_func(config, worth(), tmp_path / "adapters")
        prompts = [row["prompt"] for row in review_prompt_rows(config, worth()) for _ in range(2)]
        with pytest.raises(HermesLabError, match="none of 4 rollouts can be trained on; the first: with a rewritten"):
            rollout(prompts, trainer())
        rollout.close()


def test_skills_that_a_learning_episode_does_not_begin_with_are_refused(tmp_path: Path) -> None:
    config = config_of("http://127.0.0.1:1/v1", "env.knowledge=mixed")
    with pytest.raises(ConfigError, match=r"env\.knowledge: is mixed; a learning episode begins with skills\.library"):
        make_review_rollout_func(config, worth(), tmp_path / "adapters")
    with pytest.raises(ConfigError, match=r"env\.knowledge: is mixed"):
        review_prompt_rows(config, worth())


def test_one_task_gives_the_one_group_that_trl_asks_for() -> None:
    with pytest.raises(ConfigError, match=r"for TRL a learning episode has one task, .*: give tasks=1"):
        review_prompt_rows(config_of("http://127.0.0.1:1/v1"), worth(tasks=2))
