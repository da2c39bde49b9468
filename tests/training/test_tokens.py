"""Token ids and labels; with a tokenizer of characters, so that every id can be read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.episodes import CALL, conversation, episode, trajectory, with_review, write_run
from fakes.training import Characters

from hermes_lab.errors import ConfigError
from hermes_lab.training.select import TrainingConversation, select_rows
from hermes_lab.training.tokens import IGNORED, Row, tokenize
from hermes_lab.types import Episode, TokenBranch, ToolCall


class OfCommands(Characters):
    """Shows the command of a call; the template may forget the first two messages."""

    def __init__(self, *, forgets: bool = False) -> None:
        self.forgets = forgets

    def shown(self, messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        return messages[2:] if self.forgets and len(messages) > 3 else messages

    def turn(self, message: dict[str, Any]) -> str:
        calls = [call["function"]["arguments"]["command"] for call in message.get("tool_calls", ())]
        return f"[{message['role']}]{message['content']}{''.join(calls)};\n"


def select(tmp_path: Path, *episodes: Episode) -> list[TrainingConversation]:
    return select_rows([write_run(tmp_path, *episodes)]).rows


def text(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


def spans(row: Row) -> list[str]:
    """The trained text, a span each."""
    marked = "".join(chr(label) if label != IGNORED else "\0" for label in row.labels)
    return [span for span in marked.split("\0") if span]


def test_the_loss_is_on_the_replies_and_their_ends_alone(tmp_path: Path) -> None:
    ((row,), refused) = tokenize(select(tmp_path, episode("t")), OfCommands(), 10_000)
    assert text(row.input_ids) == (
        f"[system]You use tools.;\n[user]Do t;\n[assistant]{CALL};\n"
        '[user]<tool_response>\n{"output": "a.csv"}\n</tool_response>;\n[assistant]Done: Do t.;'
    )
    assert spans(row) == [f"{CALL};", "Done: Do t.;"]
    assert refused == {}


def test_labels_are_the_ids_of_their_own_positions(tmp_path: Path) -> None:
    ((row,), _) = tokenize(select(tmp_path, with_review("t")), OfCommands(), 10_000)
    assert len(row.labels) == len(row.input_ids)
    assert all(label in (IGNORED, token) for token, label in zip(row.input_ids, row.labels, strict=True))
    assert spans(row)[-1] == "Nothing to save.;"


def test_a_turn_that_is_not_trained_stays_in_the_context(tmp_path: Path) -> None:
    whole = trajectory(conversation("t"))
    steps = (msgspec.structs.replace(whole.steps[0], finish_reason="length"), whole.steps[1])
    own = episode("t", trajectory=msgspec.structs.replace(whole, steps=steps))
    ((row,), _) = tokenize(select(tmp_path, own), OfCommands(), 10_000)
    assert spans(row) == ["Done: t.;"]
    assert CALL in text(row.input_ids)


def test_a_long_row_is_refused_never_cut(tmp_path: Path) -> None:
    rows = select(tmp_path, episode("t"), episode("a much longer task"))
    (short,) = tokenize(rows[:1], OfCommands(), 10_000).rows
    length = len(short.input_ids)
    assert tokenize(rows, OfCommands(), length) == ([short], {f"longer than {length} tokens": 1})
    assert tokenize(rows, OfCommands(), length - 1).rows == []


def test_a_template_that_rewrites_earlier_turns_is_refused(tmp_path: Path) -> None:
    rows = select(tmp_path, episode("t"))
    assert tokenize(rows, OfCommands(forgets=True), 10_000) == ([], {"rewritten by the chat template": 1})


def test_a_tokenizer_that_ends_no_turn_is_an_error(tmp_path: Path) -> None:
    tokenizer = OfCommands()
    tokenizer.eos_token = "<end>"
    with pytest.raises(ConfigError, match="does not end turns with its eos_token '<end>'"):
        tokenize(select(tmp_path, episode("t")), tokenizer, 10_000)


def test_sampled_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    branch = TokenBranch((9, 8, 7, 6, 5), (0, 1, 0, 1, 1), (0.0, -1.0, 0.0, -1.0, -1.0))
    own = episode("t", trajectory=trajectory(conversation("t"), branches=(branch,)))
    assert tokenize(select(tmp_path, own), None, 100).rows == [Row([9, 8, 7, 6, 5], [IGNORED, 8, IGNORED, 6, 5])]


def test_sampled_ids_of_an_untrained_turn_have_no_loss(tmp_path: Path) -> None:
    branches = (TokenBranch((9, 8), (0, 1), (0.0, -1.0)), TokenBranch((7, 6), (0, 1), (0.0, -1.0)))
    whole = trajectory(conversation("t"), branches=branches)
    steps = (msgspec.structs.replace(whole.steps[0], finish_reason="length"), whole.steps[1])
    own = episode("t", trajectory=msgspec.structs.replace(whole, steps=steps))
    assert tokenize(select(tmp_path, own), None, 100).rows == [Row([7, 6], [IGNORED, 6])]


def test_sampled_ids_of_some_replies_only_are_refused(tmp_path: Path) -> None:
    branch = TokenBranch((9, 8), (0, 1), (0.0, -1.0))
    own = episode("t", trajectory=trajectory(conversation("t"), branches=(branch,)))
    assert tokenize(select(tmp_path, own), None, 100).refused == {"token ids do not match the replies": 1}


def native(**fields: Any) -> Episode:
    turns = list(conversation("t"))
    calls = (ToolCall("call_0", "terminal", {"command": "ls"}),)
    turns[2] = msgspec.structs.replace(turns[2], content="", tool_calls=calls, **fields)
    turns[3] = msgspec.structs.replace(turns[3], role="tool", content="a.csv", tool_call_id="call_0")
    tools = ({"name": "terminal"},)
    return episode("t", trajectory=trajectory(turns, tool_format="native", tools=tools))


def test_native_rows_render_their_tools_and_calls(tmp_path: Path) -> None:
    ((row,), _) = tokenize(select(tmp_path, native()), OfCommands(), 10_000)
    assert text(row.input_ids).startswith("[{'name': 'terminal'}][system]")
    assert spans(row) == ["ls;", "Done: t.;"]


def test_native_reasoning_without_token_ids_is_refused(tmp_path: Path) -> None:
    refused = tokenize(select(tmp_path, native(reasoning="hm")), OfCommands(), 10_000).refused
    assert refused == {"native turns whose text is not known without token ids": 1}
