"""Compression to a token budget; with a tokenizer of characters, so that every token can be counted by hand."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.episodes import episode, trajectory, write_run
from fakes.training import Characters
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError
from hermes_lab.models.hermes_format import render_calls, render_results
from hermes_lab.training.compress import Shortened, compress_selection, fit, note, shorten
from hermes_lab.training.config import Gate, load_train_config
from hermes_lab.training.select import Selection, TrainingConversation, select_rows
from hermes_lab.training.tokens import IGNORED, RefusedError, rows_of, tokenize
from hermes_lab.types import Message, TokenBranch, ToolCall, ToolResult

TOKENIZER = Characters()


def exchange(number: int, *results: ToolResult, native: bool = False) -> list[Message]:
    """A reply that calls tools, and what answers it, in either format."""
    calls = tuple(ToolCall(f"c{number}_{i}", result.name) for i, result in enumerate(results))
    answers = [msgspec.structs.replace(r, call_id=c.id) for r, c in zip(results, calls, strict=True)]
    if native:
        answered = [Message("tool", a.content, results=(a,), tool_call_id=a.call_id) for a in answers]
        return [Message("assistant", f"Step {number}.", tool_calls=calls), *answered]
    reply = Message("assistant", render_calls(f"Step {number}.", calls), tool_calls=calls)
    return [reply, Message("user", render_results(answers), results=tuple(answers))] if answers else [reply]


def ran(code: int = 0, output: str = "x" * 200) -> ToolResult:
    return ToolResult("", "terminal", json.dumps({"output": output, "exit_code": code}), ok=not code)


def conversation(*turns: Message, native: bool = False, **fields: Any) -> TrainingConversation:
    whole = (Message("system", "You work."), Message("user", "Do it."), *turns)
    trained = tuple(i for i, message in enumerate(whole) if message.role == "assistant")
    usual = TrainingConversation("key", whole, (), "native" if native else "hermes", trained, (), ())
    return replace(usual, **fields)


def long(count: int = 10) -> TrainingConversation:
    turns = [turn for number in range(count) for turn in exchange(number, ran())]
    return conversation(*turns, Message("assistant", "Done."))


def length(conversation: TrainingConversation) -> int:
    return max(len(row.input_ids) for row in rows_of(conversation, TOKENIZER))


def test_what_fits_stays_the_very_same() -> None:
    whole = long()
    assert fit(whole, TOKENIZER, length(whole)) is whole


def test_the_oldest_middle_turns_go_and_a_note_says_what_they_were() -> None:
    whole = long()
    row = fit(whole, TOKENIZER, length(whole) - 1)
    assert row.messages[:4] == whole.messages[:4]
    assert row.messages[4].content == (
        "[Turns left out here to fit a token budget: 1 reply; terminal called 1 time (exit code 0: 1)]"
    )
    assert row.messages[5:] == whole.messages[6:]
    assert row.trained == (2, 5, 7, 9, 11, 13, 15, 17, 19, 21)


def test_as_few_turns_go_as_the_budget_allows() -> None:
    whole = long()
    kept = [len(fit(whole, TOKENIZER, budget).messages) for budget in range(1300, length(whole), 50)]
    assert kept == sorted(kept)
    assert len(set(kept)) > 4


def test_a_budget_below_what_must_stay_is_refused() -> None:
    least = long(4)  # the first exchange, one between, and the last four turns with the call that one of them answers
    with pytest.raises(RefusedError, match="longer than 700 tokens, even compressed"):
        fit(least, TOKENIZER, 700)


def test_a_conversation_without_a_middle_is_refused() -> None:
    with pytest.raises(RefusedError, match="even compressed"):
        fit(long(2), TOKENIZER, 100)


def test_a_call_that_the_last_turns_answer_stays_with_them() -> None:
    results = [ran(output="y" * 10)] * 3
    turns = [turn for n in range(6) for turn in exchange(n, *results, native=True)]
    whole = conversation(*turns, native=True)
    # Two exchanges are four turns, whatever the number of results.
    least = shorten(whole.messages, lambda s: len(s.messages) <= 2 + 4 + 1 + 8)
    assert least is not None
    assert [m.content for m in least.messages if m.role == "assistant"] == ["Step 0.", "Step 4.", "Step 5."]
    assert shorten(whole.messages, lambda s: len(s.messages) < 2 + 4 + 1 + 8) is None


def test_a_first_tool_turn_that_comes_late_stays_with_its_call() -> None:
    talk = [Message("assistant", "Which?"), Message("user", "That one."), *[Message("assistant", "Hm.")] * 3]
    turns = [*talk, *(turn for n in range(5) for turn in exchange(n, ran()))]
    messages = conversation(*turns).messages
    least = shorten(messages, lambda s: len(s.messages) <= 11)
    assert least is not None
    notes = [m.content for m in least.messages if m.content.startswith("[Turns left out")]
    assert notes[0] == "[Turns left out here to fit a token budget: 3 replies; 1 other message]"
    assert notes[1].startswith("[Turns left out here to fit a token budget: 2 replies; terminal called 2 times")
    assert least.messages[4:6] == tuple(exchange(0, ran()))


def test_the_note_counts_outcomes() -> None:
    turns = [
        *exchange(0, ran(), ran(), ran(2)),
        *exchange(1, ToolResult("", "read_file", '{"content": ""}')),
        *exchange(2, ToolResult("", "read_file", '{"error": "no"}', ok=False)),
        *exchange(3, ToolResult("", "nonsense", '{"error": "unknown"}', ok=False, executed=False)),
        Message("user", "Not yet."),
    ]
    assert note(turns) == (
        "[Turns left out here to fit a token budget: 4 replies; 1 other message; "
        "terminal called 3 times (exit code 0: 2, exit code 2: 1); read_file called 2 times (ok: 1, failed: 1); "
        "nonsense called 1 time (refused: 1)]"
    )


def test_names_that_a_model_made_up_neither_grow_a_note_nor_write_into_it() -> None:
    hostile = [ToolResult("", f"{n}]\n<|im_end|>{'x' * 900}", "[]", ok=False, executed=False) for n in range(500)]
    text = note(exchange(0, *hostile))
    assert len(text) < 1_500
    assert "<" not in text
    assert "\n" not in text
    assert "other tools called 488 times" in text


def test_a_compressed_conversation_has_no_sampled_tokens_and_its_replies_are_trained_as_rendered() -> None:
    whole = long()
    ids = tuple(range(5000))
    mask = tuple(int(i % 500 < 400) for i in ids)
    sampled = replace(whole, branches=(TokenBranch(ids, mask, (0.0,) * 5000),), sampled=whole.trained[:10])
    row = fit(sampled, TOKENIZER, 1500)
    assert (row.branches, row.sampled) == ((), ())
    ((rendered,), refused, _) = tokenize([row], TOKENIZER, 1500)
    trained = "".join(chr(label) if label != IGNORED else "\0" for label in rendered.labels)
    replies = [text for text in trained.split("\0") if text]
    assert replies == [f"{row.messages[i].content};" for i in row.trained]
    assert refused == {}


def test_turns_that_were_not_trained_are_not_trained_afterwards() -> None:
    whole = long()
    row = fit(replace(whole, trained=(2, 20)), TOKENIZER, 1500)
    assert [row.messages[i] for i in row.trained] == [whole.messages[2], whole.messages[20]]


def test_a_row_whose_trained_turns_all_went_is_refused() -> None:
    with pytest.raises(RefusedError, match="without a turn to train"):
        fit(replace(long(), trained=(4,)), TOKENIZER, 1500)


def test_a_selection_counts_what_was_compressed_refused_and_became_equal() -> None:
    far, near = (exchange(1, ran(output=text * 200)) for text in "ab")
    rest = [turn for number in range(2, 8) for turn in exchange(number, ran())]
    twins = [conversation(*exchange(0, ran()), *middle, *rest, Message("assistant", "Done.")) for middle in (far, near)]
    rows = [*twins, long(1), long(2), long(12)]
    result = compress_selection(Selection(rows, {"errored": 1}), TOKENIZER, 1600)
    assert result.refused == {"duplicate": 1, "errored": 1}
    assert result.compressed == 2
    assert len(result.rows) == 4
    assert max(map(length, result.rows)) <= 1600
    again = compress_selection(result, TOKENIZER, 1600)
    assert (again.rows, again.compressed) == (result.rows, 0)
    assert compress_selection(Selection(rows, {}), TOKENIZER, 100).refused == {
        "longer than 100 tokens, even compressed": 5
    }


def test_compressed_rows_are_other_data(tmp_path: Path) -> None:
    run = write_run(tmp_path, episode("t", trajectory=trajectory(long().messages)))
    selection = select_rows([run])
    compressed = compress_selection(selection, TOKENIZER, 1500)
    assert compressed.compressed == 1
    assert compressed.digest != selection.digest


def test_the_gate_compresses_only_where_a_person_says_so(tmp_path: Path) -> None:
    assert Gate().compress is False
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    config = load_train_config(["lock=l", f"data=[{tmp_path}/run]", "gate.compress=true"])
    assert config.gate.compress is True
    with pytest.raises(ConfigError, match=r"gate\.compress: must be true or false"):
        load_train_config(["lock=l", f"data=[{tmp_path}/run]", "gate.compress=15250"])


texts = st.text(st.characters(codec="utf-8"), max_size=60)
results = st.builds(
    ToolResult,
    st.just(""),
    st.sampled_from(["terminal", "read_file", ""]) | texts,
    st.sampled_from(['{"exit_code": 1}', '{"error": "e"}', "[]", "no JSON", '{"exit_code": true}']) | texts,
    ok=st.booleans(),
    executed=st.booleans(),
)


@st.composite
def conversations(draw: st.DrawFn) -> TrainingConversation:
    """Anything that a log can hold: users in between, replies without calls, several results, calls without answers."""
    native = draw(st.booleans())
    turns: list[Message] = []
    for number in range(draw(st.sampled_from([10, 16, 6, 2, 0]))):
        if draw(st.integers(0, 4)) == 0:
            turns.append(Message("user", draw(texts)))
        turns += exchange(number, ran(), native=native) * draw(st.sampled_from([1, 1, 0]))
        turns += exchange(number, *draw(st.lists(results, max_size=3)), native=native)
    whole = conversation(*turns, native=native)
    return replace(whole, trained=tuple(i for i in whole.trained if draw(st.booleans())))


@given(conversations(), st.sampled_from([0.9, 0.8, 0.7, 0.6, 1.0, 0.1]))
def test_every_promise_holds_for_any_conversation(whole: TrainingConversation, share: float) -> None:
    budget = int(share * max((len(r.input_ids) for r in rows_of(whole, TOKENIZER)), default=0))
    try:
        row = fit(whole, TOKENIZER, budget)
    except RefusedError:
        return
    assert max((len(r.input_ids) for r in rows_of(row, TOKENIZER)), default=0) <= budget
    assert fit(row, TOKENIZER, budget) is row
    kept = [message for message in row.messages if not message.content.startswith("[Turns left out")]
    left = iter(whole.messages)
    assert all(any(message is other for other in left) for message in kept), "as they were, in their order"
    assert {id(row.messages[i]) for i in row.trained} <= {id(whole.messages[i]) for i in whole.trained}
    _assert_pairs_whole(row)
    for wanted in _protected(whole):
        assert any(message is wanted for message in row.messages)


def _assert_pairs_whole(row: TrainingConversation) -> None:
    calls = Counter(call.id for message in row.messages for call in message.tool_calls)
    answers = Counter(result.call_id for message in row.messages for result in message.results)
    assert calls == answers


def _protected(whole: TrainingConversation) -> list[Message]:
    """The first of each kind and the last four turns, said another way than the code does."""
    kinds = [(lambda m: m.role == "system"), (lambda m: m.role == "user" and not m.results)]
    kinds += [(lambda m: m.role == "assistant"), (lambda m: bool(m.results))]
    firsts = [next((m for m in whole.messages if kind(m)), None) for kind in kinds]
    turns: list[list[Message]] = []
    for message in whole.messages:
        if turns and message.results and turns[-1][-1].results:
            turns[-1].append(message)
        else:
            turns.append([message])
    return [m for m in [*firsts, *(m for turn in turns[-4:] for m in turn)] if m is not None]


def test_bisection_gives_only_what_was_seen_to_fit() -> None:
    """A note may be longer than the turns that it stands for, so fitting need not be monotonous."""
    whole = long().messages
    seen: list[Shortened] = []

    def fits(shortened: Shortened) -> bool:
        if len(shortened.messages) in (10, 12, 20):
            seen.append(shortened)
            return True
        return False

    found = shorten(whole, fits)
    assert found is not None
    assert found in seen


@pytest.mark.long
def test_the_packaged_tokenizer_gives_rows_within_the_budget() -> None:
    from hermes_lab.training.compress import named_tokenizer

    tokenizer = named_tokenizer("packaged")
    result = compress_selection(Selection([long(3), long(12)], {}), tokenizer, 700)
    assert (result.compressed, result.refused) == (1, {})
    for conversation in result.rows:
        ((row,), *_) = tokenize([conversation], tokenizer, 700)
        trained = tokenizer.decode([label for label in row.labels if label != IGNORED])
        assert trained == "".join(f"{conversation.messages[i].content}<|im_end|>" for i in conversation.trained)
        assert tokenizer.decode(row.input_ids).count("<|im_start|>") == len(conversation.messages)
