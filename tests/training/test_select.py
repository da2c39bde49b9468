from pathlib import Path
from typing import get_args

import msgspec
import pytest
from fakes.episodes import CALL, RESULT, conversation, episode, trajectory, with_review, write_run

from hermes_lab.training.config import Gate
from hermes_lab.training.select import select_rows
from hermes_lab.types import Episode, EpisodeError, Message, Review, TaskInfo, TokenBranch, ToolCall, Verdict
from hermes_lab.types.trajectory import StopReason

STOP_REASONS = [reason for part in get_args(StopReason) for reason in get_args(part)]
REFUSALS = {
    "errored": episode("t", status="errored", trajectory=None, error=EpisodeError("model", "gone")),
    "held out": episode("t", task=TaskInfo("d", "heldout")),
    "not judged": episode("t", verdicts=()),
    "not accepted": episode("t", verdicts=(Verdict(0.0, False),)),
    "without a final answer": episode("t", trajectory=trajectory(conversation("t"), final_response=None)),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_each_refusal_is_counted_by_its_reason(tmp_path: Path, reason: str) -> None:
    selection = select_rows([write_run(tmp_path, REFUSALS[reason], episode("good"))])
    assert [row.episode.split("|")[1] for row in selection.rows] == ["good"]
    assert selection.refused == {reason: 1}


@pytest.mark.parametrize("stop", [reason for reason in STOP_REASONS if reason != "answered"])
def test_only_what_ended_with_an_answer_is_a_target_even_where_it_was_accepted(tmp_path: Path, stop: str) -> None:
    """After a budget there may be a final response all the same."""
    own = episode("t", trajectory=trajectory(conversation("t"), stop_reason=stop))
    selection = select_rows([write_run(tmp_path, own)])
    assert (selection.rows, selection.refused) == ([], {f"ended as {stop}": 1})


@pytest.mark.parametrize("word", ["content_filter", "refusal", "failed", "no_such_word"])
def test_a_reply_that_was_withheld_spoils_its_episode(tmp_path: Path, word: str) -> None:
    whole = trajectory(conversation("t"))
    steps = (msgspec.structs.replace(whole.steps[0], finish_reason=word), whole.steps[1])
    own = episode("t", trajectory=msgspec.structs.replace(whole, steps=steps))
    selection = select_rows([write_run(tmp_path, own)])
    assert selection.rows == []
    (reason,) = selection.refused
    assert reason.startswith("with a reply of finish reason ")


@pytest.mark.parametrize(
    ("field", "value"), [("stop_reason", "unparsed"), ("stop_reason", "empty"), ("finish_reason", "content_filter")]
)
def test_a_review_that_did_not_end_well_is_context_and_no_target(tmp_path: Path, field: str, value: str) -> None:
    own = with_review("t")
    assert own.review
    looked_back = own.review.trajectory
    assert looked_back
    if field == "finish_reason":
        value_of = {"steps": (msgspec.structs.replace(looked_back.steps[0], finish_reason=value),)}
    else:
        value_of = {field: value}
    spoilt = msgspec.structs.replace(own.review, trajectory=msgspec.structs.replace(looked_back, **value_of))
    (row,) = select_rows([write_run(tmp_path, msgspec.structs.replace(own, review=spoilt))]).rows
    assert (row.trained, len(row.messages)) == ((2, 4), 7)


def test_the_sentence_counts_everything(tmp_path: Path) -> None:
    run = write_run(tmp_path, REFUSALS["errored"], episode("u"), episode("v"), episode("v", sample=1))
    sentence = select_rows([run]).sentence()
    assert sentence == "2 of 4 episodes selected; refused: 1 duplicate, 1 errored"


def test_a_correction_after_a_rejection_is_accepted(tmp_path: Path) -> None:
    late = episode("t", verdicts=(Verdict(0.0, False), Verdict(1.0, True)), success=False)
    assert len(select_rows([write_run(tmp_path, late)]).rows) == 1


def test_equal_conversations_count_once_also_between_runs(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", episode("t"), episode("t", sample=1))
    second = write_run(tmp_path / "b", episode("t"), episode("u"))
    selection = select_rows([first, second])
    assert (len(selection.rows), selection.refused) == (2, {"duplicate": 2})


def test_a_task_of_a_judging_run_is_held_out_whatever_its_id_or_outcome(tmp_path: Path) -> None:
    data = write_run(tmp_path / "data", episode("t"), episode("u"))
    failed = episode("renamed", trajectory=trajectory(conversation("Do t")), verdicts=(Verdict(0.0, False),))
    judge = write_run(tmp_path / "judge", failed)
    selection = select_rows([data], Gate(held_out=(str(judge),)))
    assert ([row.episode.split("|")[1] for row in selection.rows], selection.refused) == (
        ["u"],
        {"held out": 1},
    )


def test_the_same_prompt_in_another_world_is_another_task(tmp_path: Path) -> None:
    data = write_run(tmp_path / "data", episode("t", task=TaskInfo("d", "train", 1)))
    judge = write_run(tmp_path / "judge", episode("t", task=TaskInfo("d", "train", 2)))
    assert len(select_rows([data], Gate(held_out=(str(judge),))).rows) == 1


def test_a_task_that_errored_in_a_held_out_run_is_held_out(tmp_path: Path) -> None:
    down = EpisodeError("model", "down")
    judged = write_run(tmp_path / "judged", episode("t", status="errored", error=down, trajectory=None, verdicts=()))
    own = [episode(name, trajectory=trajectory(conversation(name))) for name in ("t", "u")]
    found = select_rows([write_run(tmp_path / "run", *own)], Gate(held_out=(str(judged),)))
    assert ([row.episode for row in found.rows], found.refused) == ([own[1].key], {"held out": 1})


def test_a_row_goes_on_through_the_review(tmp_path: Path) -> None:
    (row,) = select_rows([write_run(tmp_path, with_review("t"))]).rows
    assert [m.content for m in row.messages[-2:]] == ["Review", "Nothing to save."]
    assert (row.trained, row.sampled) == ((2, 4, 6), (2, 4, 6))


def test_a_malformed_call_that_nobody_answered_is_not_trained(tmp_path: Path) -> None:
    done = conversation("t")
    broken = Message(role="assistant", content="<tool_call>", tool_calls=(ToolCall("c", "", error="broken"),))
    turns = (*done, Message(role="user", content="Review"), broken)
    own = episode("t", trajectory=trajectory(done), review=Review(trajectory(turns, since=len(done))))
    assert select_rows([write_run(tmp_path, own)]).rows[0].trained == (2, 4)


def test_a_malformed_call_is_not_trained_but_the_turns_around_it_are(tmp_path: Path) -> None:
    broken = ToolCall("call_0", "", error="invalid tool call", raw="{")
    refused = msgspec.structs.replace(RESULT, content='{"error": "invalid"}', ok=False, executed=False)
    good = conversation("t")
    turns = (
        *good[:4],
        Message(role="assistant", content="<tool_call>\n{\n</tool_call>", tool_calls=(broken,)),
        Message(role="user", content="error", results=(refused,)),
        *good[2:],
    )
    (row,) = select_rows([write_run(tmp_path, episode("t", trajectory=trajectory(turns)))]).rows
    assert row.trained == (2, 6, 8)


def test_a_call_refused_unexecuted_is_not_trained_but_one_that_failed_is(tmp_path: Path) -> None:
    failed = msgspec.structs.replace(RESULT, ok=False)
    unknown = msgspec.structs.replace(failed, executed=False)
    runs = [
        write_run(tmp_path / name, episode("t", trajectory=trajectory(conversation("t", result))))
        for name, result in {"failed": failed, "unknown": unknown}.items()
    ]
    assert [select_rows([run]).rows[0].trained for run in runs] == [(2, 4), (4,)]


def test_a_turn_cut_off_is_not_trained(tmp_path: Path) -> None:
    whole = trajectory(conversation("t"))
    steps = (msgspec.structs.replace(whole.steps[0], finish_reason="length"), whole.steps[1])
    run = write_run(tmp_path, episode("t", trajectory=msgspec.structs.replace(whole, steps=steps)))
    assert select_rows([run]).rows[0].trained == (4,)


def test_tokens_of_a_review_that_extend_the_episode_join_its_branch(tmp_path: Path) -> None:
    own = with_review("t")
    own = msgspec.structs.replace(
        own,
        trajectory=msgspec.structs.replace(
            own.trajectory, branches=(TokenBranch((1, 2, 3), (0, 1, 1), (0.0, -1.0, -2.0)),)
        ),
        review=msgspec.structs.replace(
            own.review,
            trajectory=msgspec.structs.replace(
                own.review.trajectory,
                branches=(TokenBranch((1, 2, 3, 4, 5), (0, 0, 0, 0, 1), (0.0, 0.0, 0.0, 0.0, -3.0)),),
            ),
        ),
    )
    (row,) = select_rows([write_run(tmp_path, own)]).rows
    assert row.branches == (TokenBranch((1, 2, 3, 4, 5), (0, 1, 1, 0, 1), (0.0, -1.0, -2.0, 0.0, -3.0)),)


def test_a_review_that_failed_is_no_demonstration(tmp_path: Path) -> None:
    own = with_review("t")
    failed = msgspec.structs.replace(own.review, error=EpisodeError("model", "the server is gone"))
    (row,) = select_rows([write_run(tmp_path, msgspec.structs.replace(own, review=failed))]).rows
    assert row.messages == own.trajectory.messages


def test_the_data_digest_is_of_the_rows_and_not_of_their_place(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", episode("t"), episode("u"))
    parts = [write_run(tmp_path / "u", episode("u")), write_run(tmp_path / "t", episode("t"))]
    more = write_run(tmp_path / "more", episode("t"), episode("u"), episode("v"))
    assert select_rows([one]).digest == select_rows(parts).digest
    assert select_rows([one]).digest != select_rows([more]).digest


def test_an_export_holds_what_the_model_saw(tmp_path: Path) -> None:
    (row,) = select_rows([write_run(tmp_path, episode("t"))]).rows
    exported = msgspec.json.decode(msgspec.json.encode(row.export()))
    assert exported["messages"][2] == {"role": "assistant", "content": CALL}
    assert (exported["tools"], exported["trained"]) == ([], [2, 4])
    assert exported["metadata"] == {"episode": "made-up|t|lane|0|0"}


def sampled(ids: tuple[int, ...], mask: tuple[int, ...] = (0, 1, 1)) -> Episode:
    branches = (TokenBranch(ids, mask, (0.0, -1.0, -1.0)),)
    return episode("t", trajectory=trajectory(conversation("t"), branches=branches))


def test_conversations_of_other_tokens_are_other_data(tmp_path: Path) -> None:
    made = [sampled((1, 2, 3)), sampled((1, 2, 999)), sampled((1, 2, 3), (0, 0, 1)), episode("t"), sampled((1, 2, 3))]
    runs = [write_run(tmp_path / str(n), each) for n, each in enumerate(made)]
    assert len({select_rows([run]).digest for run in runs}) == 4
    selection = select_rows(runs)
    assert (len(selection.rows), selection.refused) == (4, {"duplicate": 1})


def test_the_digest_of_data_without_token_ids_never_changes(tmp_path: Path) -> None:
    """Cards name it, that of the shipped adapter among them."""
    selection = select_rows([write_run(tmp_path, episode("t"))])
    assert selection.digest == "0fcf2c2c8c84cd72b7e0c839697dc471e20547d73223e9e101a5b0dd91eababa"
