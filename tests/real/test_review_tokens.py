"""Groups of reviews hold what vLLM sampled: every reply is trained in its own row, after the prompt that it had."""

from collections import Counter
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from test_sampled_tokens import Reply, relay, trained_runs

from hermes_lab.config.sources import load_config
from hermes_lab.envs.groups import read_groups
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.lanes import Draw
from hermes_lab.envs.learning.records import LearningPlan
from hermes_lab.records import read_episodes
from hermes_lab.runners.environments.learning import learn

pytestmark = [
    pytest.mark.real,
    pytest.mark.filterwarnings("default"),  # of the libraries under test
]


def runs(ids: tuple[int, ...], mask: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    found = trained_runs(list(ids), [bool(on) for on in mask])
    return [(tuple(reply.prompt), tuple(reply.sampled)) for reply in found]


async def test_the_masks_of_reviews_are_what_vllm_sampled_in_them(vllm_url: str, tmp_path: Path) -> None:
    worth = ReviewWorth(tasks=1, followups=1, repeats=2, listed_cost=0.001, body_cost=0.0001)
    plan = LearningPlan(worth, Draw("train", 0, 0, 2, 2), 3)
    replies: list[Reply] = []
    async with relay(vllm_url, replies) as between:
        config = load_config(
            [
                *("suite.name=ledger", "suite.options.ruled=1", "suite.options.plain=0", "learning.arms=[on]"),
                *(f"model.base_url={between}", "model.name=packaged", "model.adapter=packaged", "model.token_ids=true"),
                *(
                    "model.sampling.temperature=1.0",
                    "model.sampling.max_tokens=160",
                    "agent.tool_format=hermes",
                    "agent.prompt=compact",
                ),
                *("agent.toolsets=[terminal, skill_view, skill_manage]", "agent.max_iterations=3"),
            ]
        )
        await anyio.to_thread.run_sync(partial(learn, config, plan, tmp_path / "run", print))
    sampled = Counter((tuple(reply.prompt), tuple(reply.sampled)) for reply in replies)
    episodes = list(read_episodes(tmp_path / "run"))
    rows: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for episode in episodes:
        reviews = [*([episode.review] if episode.review else []), *episode.forks]
        for trajectory in (episode.trajectory, *(review.trajectory for review in reviews)):
            for branch in trajectory.branches if trajectory else ():
                rows.update(runs(branch.token_ids, branch.mask))
    assert rows == sampled
    groups = [group for group in read_groups(tmp_path / "run" / "groups.jsonl") if group.kind == "review"]
    assert groups
    works = {episode.key: episode for episode in episodes if episode.review}
    for group in groups:
        work = works[group.episodes[0]]
        assert work.trajectory is not None
        of_the_work = {run for branch in work.trajectory.branches for run in runs(branch.token_ids, branch.mask)}
        own = [run for ids, mask in zip(group.token_ids, group.masks, strict=True) for run in runs(ids, mask)]
        assert of_the_work.isdisjoint(own)
        assert all(sampled[run] for run in own)
        reviews = [work.review, *work.forks]
        steps = sum(len(review.trajectory.steps) for review in reviews if review and review.trajectory)
        assert len(own) == steps
