"""For any conversation: only what was sampled is trained, each token once, and under its own log-probability."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from fakes.episodes import conversation, episode, trajectory
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.envs.groups import build_groups
from hermes_lab.envs.trl import rollout_columns
from hermes_lab.training.select import TrainingConversation
from hermes_lab.training.tokens import IGNORED, tokenize
from hermes_lab.types import Generation, Message, Reward, TokenBranch


class Sampled(NamedTuple):
    """One model call: the prompt that the template made, and what was sampled."""

    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


def render(turns: list[tuple[str, str]]) -> bytes:
    """ChatML with a byte a token; a turn's text may hold the marks of the template itself."""
    return b"".join(f"<|im_start|>{role}\n{text}<|im_end|>\n".encode() for role, text in turns)


texts = st.one_of(st.text(max_size=8), st.sampled_from(["<|im_end|>", "<|im_start|>assistant\n", "<tool_call>"]))


@st.composite
def conversations(draw: st.DrawFn) -> list[Sampled]:
    """Replies and tool answers in turn. Now and then the middle is summarised, the last reply is rewritten by the
    template, or the reply is cut before its end of turn."""
    turns = [("system", draw(texts)), ("user", draw(texts))]
    calls: list[Sampled] = []
    for _ in range(draw(st.integers(1, 5))):
        prompt = render(turns) + b"<|im_start|>assistant\n"
        text = draw(texts)
        cut = draw(st.booleans())
        ids = tuple((text + ("" if cut else "<|im_end|>")).encode()) or (0,)
        logprobs = tuple(-draw(st.floats(0, 50)) for _ in ids)
        calls.append(Sampled(tuple(prompt), ids, logprobs))
        rewritten = draw(st.sampled_from(["no", "no", "stripped", "summarised"]))
        turns.append(("assistant", text.strip() if rewritten == "stripped" else text))
        turns.append((draw(st.sampled_from(["user", "tool"])), draw(texts)))
        if rewritten == "summarised":
            turns[1:-2] = [("user", draw(texts))]
    return calls


def trace_of(calls: list[Sampled]) -> tuple[TokenBranch, ...]:
    trace = TokenTrace()
    for call in calls:
        reply = Generation(Message("assistant"), "stop", prompt_token_ids=call.prompt, token_ids=call.ids)
        trace.add(Generation(reply.message, "stop", reply.usage, call.prompt, call.ids, call.logprobs))
    return trace.branches()


def starts(calls: list[Sampled]) -> list[int]:
    """The calls whose prompt does not extend all that stood before."""
    breaks = [n for n, (a, b) in enumerate(pairwise(calls), 1) if b.prompt[: len(a.prompt + a.ids)] != a.prompt + a.ids]
    return [0, *breaks]


def trained(branches: tuple[TokenBranch, ...]) -> Iterator[tuple[int, float]]:
    for branch in branches:
        yield from (pair for pair, on in zip(_pairs(branch), branch.mask, strict=True) if on)


def _pairs(branch: TokenBranch) -> Iterator[tuple[int, float]]:
    return zip(branch.token_ids, branch.logprobs, strict=True)


@given(conversations())
def test_every_sampled_token_is_trained_once_and_no_other(calls: list[Sampled]) -> None:
    branches = trace_of(calls)
    sampled = [pair for call in calls for pair in zip(call.ids, call.logprobs, strict=True)]
    assert list(trained(branches)) == sampled
    for branch in branches:
        assert len(branch.token_ids) == len(branch.mask) == len(branch.logprobs)
        assert set(branch.mask) <= {0, 1}
        assert all(logprob == 0.0 for logprob, on in zip(branch.logprobs, branch.mask, strict=True) if not on)


@given(conversations())
def test_a_branch_starts_exactly_where_the_prompt_stops_extending(calls: list[Sampled]) -> None:
    branches = trace_of(calls)
    firsts = starts(calls)
    assert len(branches) == len(firsts)
    ends = [*firsts[1:], len(calls)]
    for branch, first, end in zip(branches, firsts, ends, strict=True):
        assert branch.token_ids == calls[end - 1].prompt + calls[end - 1].ids
        assert branch.mask[: len(calls[first].prompt)] == (0,) * len(calls[first].prompt)
        at = [len(call.prompt) for call in calls[first:end]]
        on = {place + n for place, call in zip(at, calls[first:end], strict=True) for n in range(len(call.ids))}
        assert {place for place, one in enumerate(branch.mask) if one} == on


@given(conversations())
def test_a_group_and_its_columns_hold_what_was_sampled(calls: list[Sampled]) -> None:
    branches = trace_of(calls)
    done = trajectory(conversation("t"), branches=branches)
    (group,) = build_groups([episode("t", trajectory=done, reward=Reward(1.0, {"score": 1.0}))])
    for mask_T, logprobs_T in zip(group.masks, group.logprobs, strict=True):
        finite = [logprob is not None and math.isfinite(logprob) for logprob in logprobs_T]
        assert finite == [one == 1 for one in mask_T]
    columns = rollout_columns([group])
    assert {len(column) for column in columns.values()} == {len(branches)}
    for n, branch in enumerate(branches):
        prompt, completion = columns["prompt_ids"][n], columns["completion_ids"][n]
        assert tuple(prompt + completion) == branch.token_ids
        assert (0,) * len(prompt) + tuple(columns["env_mask"][n]) == branch.mask
        assert (0.0,) * len(prompt) + tuple(columns["logprobs"][n]) == branch.logprobs
        assert columns["env_mask"][n][0] == 1


@given(conversations(), st.data())
def test_labels_stand_on_the_replies_that_are_learnt_from_and_nowhere_else(
    calls: list[Sampled], data: st.DataObject
) -> None:
    branches = trace_of(calls)
    turns = tuple(range(len(calls)))
    learnt = data.draw(st.sets(st.sampled_from(turns)))
    selected = TrainingConversation("key", (), (), "hermes", tuple(sorted(learnt)), branches, turns)
    rows, refused = tokenize([selected], None, 1_000_000)[:2]
    assert not refused
    for row in rows:
        assert len(row.input_ids) == len(row.labels)
        assert all(label in (IGNORED, token) for label, token in zip(row.labels, row.input_ids, strict=True))
    labels = [label for row in rows for label in row.labels if label != IGNORED]
    assert labels == [token for turn in sorted(learnt) for token in calls[turn].ids]
