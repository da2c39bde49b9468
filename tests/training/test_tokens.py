"""Token ids and labels; with a tokenizer of characters, so that every id can be read."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.episodes import CALL, conversation, episode, trajectory, with_review, write_run
from fakes.training import Characters

from hermes_lab.errors import ConfigError
from hermes_lab.models.wires.chat import wire
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
    ((row,), refused, _) = tokenize(select(tmp_path, episode("t")), OfCommands(), 10_000)
    assert text(row.input_ids) == (
        f"[system]You use tools.;\n[user]Do t;\n[assistant]{CALL};\n"
        '[user]<tool_response>\n{"output": "a.csv"}\n</tool_response>;\n[assistant]Done: Do t.;'
    )
    assert spans(row) == [f"{CALL};", "Done: Do t.;"]
    assert refused == {}


def test_labels_are_the_ids_of_their_own_positions(tmp_path: Path) -> None:
    ((row,), *_) = tokenize(select(tmp_path, with_review("t")), OfCommands(), 10_000)
    assert len(row.labels) == len(row.input_ids)
    assert all(label in (IGNORED, token) for token, label in zip(row.input_ids, row.labels, strict=True))
    assert spans(row)[-1] == "Nothing to save.;"


def test_a_turn_that_is_not_trained_stays_in_the_context(tmp_path: Path) -> None:
    whole = trajectory(conversation("t"))
    steps = (msgspec.structs.replace(whole.steps[0], finish_reason="length"), whole.steps[1])
    own = episode("t", trajectory=msgspec.structs.replace(whole, steps=steps))
    ((row,), *_) = tokenize(select(tmp_path, own), OfCommands(), 10_000)
    assert spans(row) == ["Done: t.;"]
    assert CALL in text(row.input_ids)


def test_a_long_row_is_refused_never_cut(tmp_path: Path) -> None:
    rows = select(tmp_path, episode("t"), episode("a much longer task"))
    (short,) = tokenize(rows[:1], OfCommands(), 10_000).rows
    length = len(short.input_ids)
    assert tokenize(rows, OfCommands(), length) == ([short], {f"longer than {length} tokens": 1}, 0)
    assert tokenize(rows, OfCommands(), length - 1).rows == []


def test_a_template_that_forgets_earlier_turns_gives_a_row_for_each_prompt(tmp_path: Path) -> None:
    rows, refused, split = tokenize(select(tmp_path, episode("t")), OfCommands(forgets=True), 10_000)
    assert [spans(row) for row in rows] == [[f"{CALL};"], ["Done: Do t.;"]]
    assert text(rows[1].input_ids).startswith(f"[assistant]{CALL};\n[user]")
    assert (refused, split) == ({}, 1)


class OtherReplies(OfCommands):
    """Shows a finished reply with another beginning than that of its prompt."""

    def turn(self, message: dict[str, Any]) -> str:
        return super().turn(message).replace("[assistant]", "[reply]")


def test_a_reply_that_does_not_follow_its_prompt_is_refused(tmp_path: Path) -> None:
    rows = select(tmp_path, episode("t"))
    assert tokenize(rows, OtherReplies(), 10_000) == ([], {"rewritten by the chat template": 1}, 0)


class Templated(Characters):
    """A tokenizer of characters with a real chat template."""

    eos_token = "<|im_end|>"

    def __init__(self, name: str) -> None:
        self.template = (files("trl") / "chat_templates" / f"{name}.jinja").read_text()

    def apply_chat_template(
        self, messages: Sequence[dict[str, Any]], *, tools: Any, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        from transformers.utils.chat_template_utils import render_jinja_template

        rendered, _ = render_jinja_template(
            [list(messages)], tools=tools, chat_template=self.template, add_generation_prompt=add_generation_prompt
        )
        return str(rendered[0])


@pytest.mark.parametrize(
    ("name", "rows_each"), [("qwen2_5", 1), ("qwen3_instruct_2507", 1), ("qwen3", 2)]
)  # of the bases in configs/locks; Hermes 3 has ChatML, as Qwen2.5
@pytest.mark.parametrize("tool_format", ["text", "native"])
def test_every_reply_is_trained_after_the_prompt_that_a_server_gives_the_model(
    tmp_path: Path, name: str, rows_each: int, tool_format: str
) -> None:
    (selected,) = select(tmp_path, episode("t") if tool_format == "text" else native())
    tokenizer = Templated(name)
    rows, refused, split = tokenize([selected], tokenizer, 10_000)
    assert (len(rows), refused, split) == (rows_each, {}, int(rows_each > 1))
    trained = [
        (text(row.input_ids[:start]), text(row.input_ids[start:end])) for row in rows for start, end in _runs(row)
    ]
    wanted = []
    messages = wire(selected.messages, selected.tool_format)
    for call in (call for message in messages for call in message.get("tool_calls", ())):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    tools = list(selected.tools) if tool_format == "native" else None
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            prompt = tokenizer.apply_chat_template(
                messages[:index], tools=tools, tokenize=False, add_generation_prompt=True
            )
            wanted.append((prompt, message["content"]))
    assert [prompt for prompt, _ in trained] == [prompt for prompt, _ in wanted]
    thoughts = "<think>\n\n</think>\n\n" if name == "qwen3" else ""
    for (_, reply), (_, content) in zip(trained, wanted, strict=True):
        assert reply.startswith(thoughts + content)
        assert reply.endswith("<|im_end|>")
        assert content or '"name": "terminal"' in reply


def _runs(row: Row) -> list[tuple[int, int]]:
    """The ranges of trained tokens. A reply and the template's text after it never touch another reply."""
    marks = [False, *(label != IGNORED for label in row.labels), False]
    edges = [at for at in range(len(marks) - 1) if marks[at] != marks[at + 1]]
    return list(zip(edges[::2], edges[1::2], strict=True))


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
    ((row,), *_) = tokenize(select(tmp_path, native()), OfCommands(), 10_000)
    assert text(row.input_ids).startswith("[{'name': 'terminal'}][system]")
    assert spans(row) == ["ls;", "Done: t.;"]


def test_native_reasoning_without_token_ids_is_refused(tmp_path: Path) -> None:
    refused = tokenize(select(tmp_path, native(reasoning="hm")), OfCommands(), 10_000).refused
    assert refused == {"native turns whose text is not known without token ids": 1}
