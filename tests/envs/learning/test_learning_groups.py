"""Groups of reviews: exact masks, and what is refused."""

import dataclasses
from typing import Any

import pytest
from fakes.episodes import conversation, record, trajectory
from fakes.learning import learn, worth
from fakes.learning_sampler import narrow_reviews
from fakes.openai_server import FakeOpenAIServer
from fakes.review_values import review_value
from fakes.reviewers import honest, reviewers, silent
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.envs.groups import one_sequence_each, read_groups, validate_group, write_groups
from hermes_lab.envs.learning.groups import learning_groups, review_group
from hermes_lab.envs.learning.knowledge import digest_of
from hermes_lab.envs.learning.lanes import LearningLane
from hermes_lab.envs.learning.run import LaneOutcome, Reviewed
from hermes_lab.envs.learning.worth import mean_value, reviews_of, values_of
from hermes_lab.envs.trl import rollout_columns
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.training.group_filter import Rules, filter_groups
from hermes_lab.types import (
    Compression,
    EpisodeError,
    Generation,
    MemoryUse,
    Message,
    ModelIdentity,
    Review,
    Reward,
    SkillUse,
    SkillWrite,
    Task,
    TokenBranch,
)

PAID = worth(followups=1, repeats=2)
MODEL = ModelIdentity("vllm", "m", adapter="a", adapter_digest="digest")


def skill_write(name: str) -> SkillWrite:
    text = skill_format.render(name, "When it is needed.", "Do it so.")
    return SkillWrite("create", name, text, "review", "e", "m", "")


def review_of(tokens: tuple[int, ...], *writes: SkillWrite) -> Review:
    branch = TokenBranch((1, 2, 3, *tokens), (0, 0, 0, *[1] * len(tokens)), (0.0, 0.0, 0.0, *[-0.5] * len(tokens)))
    return Review(trajectory(conversation("Review"), branches=(branch,)), writes=writes)


def finished(**changed: Any) -> LaneOutcome:
    """Two reviews of an episode, of which the second writes a skill; the follow-ups are solved with it alone."""
    start = Knowledge()
    after = Knowledge(Library().after(skill_write("way")))
    work = record(
        suite="s",
        task_id="work",
        lane="on-r0-w0",
        model=MODEL,
        trajectory=trajectory(conversation("Do it")),
        skills=SkillUse(snapshot=start.library.snapshot),
        review=review_of((7, 8)),
        forks=(review_of((9,), skill_write("way")),),
    )
    tasks = tuple(Task(id=name, suite="s", prompt=name) for name in ("work", "follow"))
    outcome = LaneOutcome(LearningLane("on-r0-w0", "on", tasks[:1], tasks[1:], start))
    outcome.libraries = {digest_of(start): 0, digest_of(after): 1}
    outcome.reviewed = [Reviewed(outcome.lane, 0, work, start, (start, after))]
    for number, library in enumerate((start, after)):
        for sample in range(2):
            one = record(
                suite="s",
                task_id="follow",
                lane="on-r0-w0",
                round=number,
                sample=sample,
                model=MODEL,
                success=bool(number),
                score=float(number),
                reward=Reward(float(number)),
                skills=SkillUse(snapshot=library.library.snapshot),
                trajectory=trajectory(
                    conversation("Follow"), branches=(TokenBranch((1, 5 + sample), (0, 1), (0.0, -0.5)),)
                ),
                phase="heldout",
            )
            if (number, sample) == (1, 1):
                one = replace(one, **changed)
            outcome.followups[one.key] = one
    return outcome


def refused(outcome: LaneOutcome) -> dict[str, int]:
    found = learning_groups([outcome], PAID)
    assert not [group for group in found.groups if group.kind == "review"]
    assert not found.values
    return found.refused


def test_a_group_has_the_reviews_of_one_episode_and_their_tokens_alone() -> None:
    found = learning_groups([finished()], PAID)
    assert [(group.kind, group.task_id, group.samples) for group in found.groups] == [
        ("review", "work", (0, 1)),
        ("solve", "follow", (0, 1)),
        ("solve", "follow", (0, 1)),
    ]
    reviews, before, after = found.groups
    assert reviews.masks == ((0, 0, 0, 1, 1), (0, 0, 0, 1))
    assert reviews.episodes == ("s|work|on-r0-w0|0|0",) * 2
    assert reviews.rewards[0] == 0.0
    assert 0.9 < reviews.rewards[1] < 1.0
    assert reviews.advantages[0] < 0 < reviews.advantages[1]
    assert (before.snapshot, after.snapshot) == tuple(
        each.library.snapshot for each in (finished().reviewed[0].before, finished().reviewed[0].after[1])
    )
    assert [value.rollouts for value in found.values] == [0, 2]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": replace(MODEL, adapter_digest="another")}, "of several policies"),
        ({"config_digest": "another"}, "of several policies"),
        ({"skills": SkillUse(snapshot="another")}, "of another library"),
        ({"memory": MemoryUse(snapshot="another")}, "of another library"),
        ({"success": None}, "without a scored rollout"),
    ],
)
def test_unequal_policies_and_libraries_are_refused(changed: dict[str, Any], reason: str) -> None:
    assert refused(finished(**changed)) == {reason: 1}


def test_a_missing_rollout_refuses_the_group_and_is_counted() -> None:
    outcome = finished()
    outcome.followups.popitem()
    assert refused(outcome) == {"with errored rollouts": 1}
    outcome = finished()
    outcome.reviewed = []  # its work errored
    assert refused(outcome) == {"with errored rollouts": 1}


def test_a_failed_review_refuses_the_group() -> None:
    outcome = finished()
    (reviewed,) = outcome.reviewed
    assert reviewed.work.review is not None
    failed = replace(reviewed.work.review, error=EpisodeError("model", "gone"))
    work = replace(reviewed.work, review=failed)
    outcome.reviewed = [Reviewed(outcome.lane, 0, work, reviewed.before, (None, reviewed.after[1]))]
    assert refused(outcome) == {"with errored rollouts": 1}


def test_work_without_an_answer_has_no_review_and_is_counted() -> None:
    outcome = finished()
    (reviewed,) = outcome.reviewed
    work = replace(reviewed.work, review=None, forks=())
    outcome.reviewed = [Reviewed(outcome.lane, 0, work, reviewed.before, ())]
    assert refused(outcome) == {"without a review": 1}


@pytest.mark.parametrize("fork", [0, 1])
def test_a_review_whose_prompt_was_rewritten_refuses_the_group(fork: int) -> None:
    """Even if the forks begin alike: later sequences continue summaries that differ."""
    outcome = finished()
    (reviewed,) = outcome.reviewed
    reviews = list(reviews_of(reviewed.work))
    begun = reviews[fork].trajectory
    assert begun is not None
    reviews[fork] = replace(reviews[fork], trajectory=replace(begun, compressions=(Compression(5, 2, 4, 100),)))
    work = replace(reviewed.work, review=reviews[0], forks=(reviews[1],))
    outcome.reviewed = [dataclasses.replace(reviewed, work=work)]
    assert refused(outcome) == {"with a rewritten prompt": 1}


def test_reviews_of_work_that_was_compressed_are_a_group() -> None:
    outcome = finished()
    (reviewed,) = outcome.reviewed
    done = (Compression(5, 2, 4, 100),)
    reviews = [
        replace(each, trajectory=replace(each.trajectory, compressions=done))
        for each in reviews_of(reviewed.work)
        if each.trajectory
    ]
    assert reviewed.work.trajectory is not None
    whole = replace(reviewed.work.trajectory, compressions=done)
    work = replace(reviewed.work, trajectory=whole, review=reviews[0], forks=(reviews[1],))
    outcome.reviewed = [dataclasses.replace(reviewed, work=work)]
    group = learning_groups([outcome], PAID).groups[0]
    assert (group.kind, group.samples) == ("review", (0, 1))


async def test_a_context_that_fills_up_in_the_review_refuses_the_group() -> None:
    """Each review then continues a summary of its own. The run goes on, and the group is counted."""
    async with FakeOpenAIServer(narrow_reviews(2), models=["fake"]) as server:
        overrides = [
            *("model.provider=openai", "model.name=fake", f"model.base_url={server.base_url}", "model.token_ids=true"),
            *("agent.tool_format=hermes", "model.options={}"),
        ]
        ran = await learn(None, worth(), *overrides, forks=2)
    (work,) = [episode for episode in ran.episodes if episode.review]
    assert len({review.trajectory.branches[0].token_ids for review in reviews_of(work) if review.trajectory}) == 2
    found = learning_groups(ran.outcomes, worth())
    assert (found.groups, found.values, found.refused) == ([], [], {"with a rewritten prompt": 1})


def test_reviews_of_different_conversations_are_no_group() -> None:
    (group, *_) = learning_groups([finished()], PAID).groups
    validate_group(group)
    other = replace(group, token_ids=(group.token_ids[0], (1, 2, 4, 9)))
    with pytest.raises(ConfigError, match="begin with different tokens"):
        validate_group(other)
    other = replace(group, episodes=(group.episodes[0], "s|work|on-r0-w0|0|1"))
    with pytest.raises(ConfigError, match="reviews of different episodes"):
        validate_group(other)
    with pytest.raises(ConfigError, match="by task and sample"):
        validate_group(replace(group, kind="solve"))


def test_a_file_keeps_the_kind_and_older_files_are_of_rollouts(tmp_path: Any) -> None:
    groups = learning_groups([finished()], PAID).groups
    write_groups(groups, tmp_path / "groups.jsonl")
    assert read_groups(tmp_path / "groups.jsonl") == groups
    lines = (tmp_path / "groups.jsonl").read_text().splitlines()
    assert ['"kind"' in line for line in lines] == [True, False, False]


def test_a_review_that_was_cut_is_told_from_one_that_had_nothing_to_save() -> None:
    outcome = finished()
    (reviewed,) = outcome.reviewed
    first = reviewed.work.review
    assert first is not None
    assert first.trajectory is not None
    cut = replace(first, trajectory=replace(first.trajectory, stop_reason="length"))
    outcome.reviewed = [dataclasses.replace(reviewed, work=replace(reviewed.work, review=cut))]
    values = learning_groups([outcome], PAID).values
    assert [value.ended for value in values] == ["length", "answered"]
    assert mean_value(values).sentence().endswith("0 % -> 100 % of follow-ups solved, 1 cut at the token limit")


def test_of_a_review_whose_own_replies_were_retokenised_the_first_sequence_is_kept(tmp_path: Any) -> None:
    """It begins with the tokens of the others, so the group is valid where it is written and trained on."""
    outcome = finished()
    (reviewed,) = outcome.reviewed
    (fork,) = reviewed.work.forks
    assert fork.trajectory is not None
    later = TokenBranch((1, 2, 3, 19, 4, 5, 6, 7), (0, 0, 0, 0, 0, 1, 1, 1), (0.0,) * 5 + (-0.5,) * 3)
    fork = replace(fork, trajectory=replace(fork.trajectory, branches=(*fork.trajectory.branches, later)))
    outcome.reviewed = [dataclasses.replace(reviewed, work=replace(reviewed.work, forks=(fork,)))]
    (group, *_) = learning_groups([outcome], PAID).groups
    assert group.samples == (0, 1, 1)
    rules = Rules(2, 100, [group.policy], [group.split])
    gated = filter_groups([group], rules)
    assert gated.left_out == 1
    assert gated.groups[0].token_ids == ((1, 2, 3, 7, 8), (1, 2, 3, 9))
    write_groups(gated.groups, tmp_path / "groups.jsonl")
    assert read_groups(tmp_path / "groups.jsonl") == gated.groups


token_ids = st.lists(st.integers(0, 50), min_size=1, max_size=6)


@st.composite
def forked(draw: st.DrawFn) -> tuple[list[int], list[list[tuple[list[int], list[int]]]]]:
    """The tokens before the reviews, and for each review its replies: what came before each, and what it sampled."""
    before = draw(token_ids)
    turn = st.tuples(token_ids, token_ids)
    return before, draw(st.lists(st.lists(turn, min_size=1, max_size=4), min_size=2, max_size=4))


@given(forked())
def test_every_token_that_a_review_sampled_is_trained_and_no_other(
    case: tuple[list[int], list[list[tuple[list[int], list[int]]]]],
) -> None:
    before, turns = case
    reviews = []
    for replies in turns:
        trace, so_far = TokenTrace(), list(before)
        for number, (between, sampled) in enumerate(replies):
            so_far += between if number else []
            logprobs = tuple(-float(token) / 64 for token in sampled)
            trace.add(
                Generation(
                    Message("assistant", ""),
                    token_ids=tuple(sampled),
                    logprobs=logprobs,
                    prompt_token_ids=tuple(so_far),
                )
            )
            so_far += sampled
        reviews.append(Review(trajectory(conversation("Review"), branches=trace.branches())))
    work = record(
        suite="s",
        model=MODEL,
        trajectory=trajectory(conversation("Do it"), branches=(TokenBranch((1, 2), (0, 1), (0.0, -1.0)),)),
        review=reviews[0],
        forks=tuple(reviews[1:]),
    )
    lane = LearningLane("lane", "on", (), (), Knowledge())
    values = [review_value(work.key, fork, "digest") for fork in range(len(reviews))]
    group = review_group(Reviewed(lane, 0, work, Knowledge(), ()), values)
    columns = rollout_columns([group])
    for place, replies in enumerate(turns):
        expected_ids, expected_mask = list(before), [0] * len(before)
        for number, (between, sampled) in enumerate(replies):
            gap = between if number else []
            expected_ids += gap + sampled
            expected_mask += [0] * len(gap) + [1] * len(sampled)
        assert list(group.token_ids[place]) == expected_ids
        assert list(group.masks[place]) == expected_mask
        assert columns["prompt_ids"][place] == before
        assert columns["env_mask"][place] == expected_mask[len(before) :]
        for token, on, logprob in zip(expected_ids, expected_mask, group.logprobs[place], strict=True):
            assert logprob == (-token / 64 if on else None)
    assert one_sequence_each(group) == group


async def test_every_review_starts_from_the_same_conversation_and_library() -> None:
    ran = await learn(reviewers(honest, silent), worth(), forks=4)
    (work,) = [episode for episode in ran.episodes if episode.review]
    reviews = [work.review, *work.forks]
    assert [bool(review and review.writes) for review in reviews] == [True, False, True, False]
    requests = {review.trajectory.messages[0].content for review in reviews if review and review.trajectory}
    assert len(requests) == 1
    for review in (reviews[0], reviews[2]):
        assert review is not None
        assert [write.snapshot for write in review.writes] == [work.skills.snapshot]
    before, *after = ran.outcomes[0].libraries
    assert len(after) == 1  # equal libraries are measured once
    followups = [episode for episode in ran.episodes if not episode.review]
    assert sorted(episode.round for episode in followups) == [0, 0, 1, 1]
    assert {before} == {digest_of(ran.outcomes[0].lane.start)}


async def test_the_next_task_starts_with_what_the_first_review_wrote() -> None:
    paid = worth(tasks=3)
    ran = await learn(reviewers(silent, honest), paid, "suite.options.ruled=2", forks=2)
    assert len({reviewed.before.library.snapshot for reviewed in ran.outcomes[0].reviewed}) == 1
    ran = await learn(reviewers(honest, silent), paid, "suite.options.ruled=2", forks=2)
    first, second, third = ran.outcomes[0].reviewed
    assert first.after[0] is not None
    assert first.after[0].library.skills
    assert second.work.skills.snapshot == first.after[0].library.snapshot
    assert second.after[0] is not None
    assert third.work.skills.snapshot == second.after[0].library.snapshot
    assert not isinstance(values_of(ran.outcomes[0], second, paid), str)


async def test_reviews_at_a_server_are_trained_on_what_it_sampled() -> None:
    """Tokens of the fake server are bytes, so masked tokens read as the replies."""
    said = iter(range(1000))

    def answer(body: dict[str, Any]) -> str:
        last = body["messages"][-1]["content"]
        return f"Nothing to save, review {next(said)}." if "Review:" in last else f"Done, rollout {next(said)}."

    async with FakeOpenAIServer(answer, models=["fake"]) as server:
        overrides = [
            *("model.provider=openai", "model.name=fake", f"model.base_url={server.base_url}", "model.token_ids=true"),
            *("agent.tool_format=hermes", "model.options={}"),
        ]
        ran = await learn(None, worth(), *overrides, forks=3)
    found = learning_groups(ran.outcomes, worth())
    (group,) = [each for each in found.groups if each.kind == "review"]
    (work,) = [episode for episode in ran.episodes if episode.review]
    texts = []
    for ids_T, mask_T in zip(group.token_ids, group.masks, strict=True):
        texts.append(bytes(token for token, on in zip(ids_T, mask_T, strict=True) if on).decode())
    reviews = [work.review, *work.forks]
    assert texts == [f"{review.trajectory.final_response}\0" for review in reviews if review and review.trajectory]
    assert all(text.startswith("Nothing to save, review") for text in texts)
    assert len(set(texts)) == 3
    assert group.rewards == (0.0, 0.0, 0.0)


async def test_a_reader_from_before_there_were_kinds_refuses_a_group_of_reviews() -> None:
    """So groups of reviews need no version of their own."""
    outcome = finished()
    found = values_of(outcome, outcome.reviewed[0], PAID)
    assert isinstance(found, list)
    group = review_group(outcome.reviewed[0], found)
    with pytest.raises(ConfigError, match="is of episode"):
        validate_group(replace(group, kind="solve"))
