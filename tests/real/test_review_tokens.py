"""Groups of reviews hold what vLLM sampled: every reply is trained in its own row, after the prompt that it had."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import pytest
from fakes.episodes import conversation, record, trajectory
from fakes.review_values import review_value
from hypothesis import strategies as st
from test_sampled_tokens import TEXT, Reply, about, drawn, relay, trained_runs

from hermes_lab.agent.loop import result_messages
from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.config.schema import ModelConfig, SamplingConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.groups import read_groups
from hermes_lab.envs.learning.config import ReviewWorth
from hermes_lab.envs.learning.groups import review_group
from hermes_lab.envs.learning.lanes import Draw, LearningLane
from hermes_lab.envs.learning.records import LearningPlan
from hermes_lab.envs.learning.run import Reviewed
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.remote import open_endpoints
from hermes_lab.protocols import ModelClient
from hermes_lab.records import read_episodes
from hermes_lab.runners.environments.learning import learn
from hermes_lab.types import Message, ModelIdentity, Review, ScoredGroup, TokenBranch, ToolResult

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
        for made in (episode.trajectory, *(review.trajectory for review in reviews)):
            for branch in made.branches if made else ():
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


class Plan(NamedTuple):
    """How a finished conversation and its reviews go on: what tools answer in the work and in each review."""

    system: str
    prompt: str
    work: list[str]
    reviews: list[list[str]]
    temperature: float
    max_tokens: int
    rewritten: bool
    """Whether the history changes before the last turn of the reviews, which begins another sequence."""


def plans(*, rewritten: bool) -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        system=TEXT,
        prompt=TEXT,
        work=st.lists(TEXT, max_size=2),
        reviews=st.lists(st.lists(TEXT, min_size=int(rewritten), max_size=2), min_size=2, max_size=3),
        temperature=st.sampled_from([0.7, 1.0, 1.8]),
        max_tokens=st.sampled_from([1, 6, 24]),
        rewritten=st.just(rewritten),
    )


async def turns(
    client: ModelClient, messages: list[Message], answers: list[str], *, rewritten: bool = False
) -> tuple[TokenBranch, ...]:
    """Samples a turn, one more after each answer of a tool, and appends them."""
    trace = TokenTrace()
    for turn in range(len(answers) + 1):
        if turn and turn == len(answers) and rewritten:
            messages[1] = Message("user", "What was said before was summarised.")
        reply = await client.generate(messages, ())
        trace.add(reply)
        messages.append(reply.message)
        if turn < len(answers):
            messages += result_messages([ToolResult("c", "ls", answers[turn])], "hermes")
    return trace.branches()


class Sampled(NamedTuple):
    """What the relay saw of one reply."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


async def reviewed(url: str, plan: Plan) -> tuple[ScoredGroup, list[list[Sampled]]]:
    """The group of reviews of one conversation with the served model, and the replies of each review."""
    replies: list[Reply] = []
    logprobs: list[list[float]] = []
    sampling = SamplingConfig(max_tokens=plan.max_tokens, temperature=plan.temperature)
    reviews, seen = [], []
    async with relay(url, replies, logprobs) as between:
        config = ModelConfig(base_url=between, token_ids=True, sampling=sampling)
        async with open_endpoints(config, [""], tool_format="hermes", concurrency=1) as (client,):
            work = [Message("system", plan.system), Message("user", plan.prompt)]
            branches = await turns(client, work, plan.work)
            for answers in plan.reviews:
                begun = len(replies)
                fork = [*work, Message("user", "Review: what did you learn?")]
                own = await turns(client, fork, answers, rewritten=plan.rewritten)
                reviews.append(Review(trajectory(conversation("Review"), branches=own)))
                seen.append(
                    [
                        Sampled(tuple(reply.prompt), tuple(reply.sampled), tuple(found))
                        for reply, found in zip(replies[begun:], logprobs[begun:], strict=True)
                    ]
                )
    episode = record(
        suite="s",
        model=ModelIdentity("vllm", "packaged", adapter="a", adapter_digest="d"),
        trajectory=trajectory(conversation("Do it"), branches=branches),
        review=reviews[0],
        forks=tuple(reviews[1:]),
    )
    lane = LearningLane("lane", "on", (), (), Knowledge())
    values = [review_value(episode.key, fork, "d") for fork in range(len(reviews))]
    return review_group(Reviewed(lane, 0, episode, Knowledge(), ()), values), seen


async def all_reviewed(url: str, plans: Sequence[Plan]) -> list[tuple[ScoredGroup, list[list[Sampled]]]]:
    found = {}

    async def keep(number: int) -> None:
        found[number] = await reviewed(url, plans[number])

    async with anyio.create_task_group() as tasks:
        for number in range(len(plans)):
            tasks.start_soon(keep, number)
    return [found[number] for number in range(len(plans))]


def sampled_in(group: ScoredGroup, fork: int) -> list[Sampled]:
    """Each run of trained tokens of a review, with all that stands before it and its log-probabilities."""
    found = []
    for sample, ids_T, mask_T, logprobs_T in zip(
        group.samples, group.token_ids, group.masks, group.logprobs, strict=True
    ):
        for prompt, tokens in runs(ids_T, mask_T) if sample == fork else ():
            own = logprobs_T[len(prompt) : len(prompt) + len(tokens)]
            found.append(Sampled(prompt, tokens, tuple(each for each in own if each is not None)))
    return found


def test_every_row_of_a_review_is_what_vllm_sampled_in_it(vllm_url: str) -> None:
    """Whatever the conversation holds: tokens, prompts and log-probabilities, also of reviews with several turns and a
    rewritten prompt."""
    several = rewritten = 0
    # How many of each kind there are is not left to chance.
    chosen = drawn(plans(rewritten=False), 15) + drawn(plans(rewritten=True), 10)
    for plan, (group, seen) in zip(chosen, anyio.run(all_reviewed, vllm_url, chosen), strict=True):
        with about(plan):
            for fork, (own, answers) in enumerate(zip(seen, plan.reviews, strict=True)):
                assert len(own) == len(answers) + 1
                assert sampled_in(group, fork) == own
                several += len(own) > 1
                rewritten += group.samples.count(fork) > 1
    assert several >= 10
    assert rewritten >= 5
