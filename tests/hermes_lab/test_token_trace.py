"""Token traces hold what the sampler returned, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.agent.tokens import TokenTrace
from hermes_lab.types import Generation, Message

ids = st.lists(st.integers(0, 99), min_size=1, max_size=5)


def reply(prompt: list[int], sampled: list[int]) -> Generation:
    return Generation(
        Message("assistant", ""),
        prompt_token_ids=tuple(prompt),
        token_ids=tuple(sampled),
        logprobs=tuple(-float(i) for i in range(len(sampled))),
    )


@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=4))
def test_prompts_that_extend_make_one_branch_with_only_sampled_tokens_unmasked(
    turns: list[tuple[list[int], list[int]]],
) -> None:
    trace, prompt, sampled_all = TokenTrace(), [], []
    for added, sampled in turns:
        prompt = prompt + added
        trace.add(reply(prompt, sampled))
        prompt = prompt + sampled
        sampled_all += sampled
    (branch,) = trace.branches()
    assert list(branch.token_ids) == prompt
    assert [t for t, m in zip(branch.token_ids, branch.mask, strict=True) if m] == sampled_all
    assert all(lp == 0.0 for lp, m in zip(branch.logprobs, branch.mask, strict=True) if not m)


def test_a_prompt_that_rewrites_history_begins_a_branch() -> None:
    trace = TokenTrace()
    trace.add(reply([1, 2], [3]))
    trace.add(reply([1, 9, 3, 4], [5]))
    first, second = trace.branches()
    assert first.token_ids == (1, 2, 3)
    assert second.token_ids == (1, 9, 3, 4, 5)
    assert second.mask == (0, 0, 0, 0, 1)


def test_replies_without_ids_leave_no_tokens() -> None:
    trace = TokenTrace()
    trace.add(Generation(Message("assistant", "hi")))
    assert trace.branches() == ()
