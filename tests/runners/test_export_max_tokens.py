"""`export --max-tokens`: conversations brought within a budget, or left out and counted."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from export_episodes import decoded, make_run
from fakes.episodes import CALL, RESULT, episode, trajectory

from hermes_lab.errors import ConfigError
from hermes_lab.runners.commands.export import export
from hermes_lab.runners.export import FORMATS
from hermes_lab.runners.export.format import Lines
from hermes_lab.runners.export.hermes import parse_row
from hermes_lab.runners.export.source import Budget, Source
from hermes_lab.types import Compression, Episode, Message, ToolCall, ToolResult

NOTE = "[Turns left out here to fit a token budget: "


class Words:
    """A tokenizer that counts words. It says what it was given, and looks at arguments as templates do."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [0] * len(text.split())

    def apply_chat_template(self, messages: Any, *, tools: Any, tokenize: bool, add_generation_prompt: bool) -> str:
        assert not tokenize
        assert not add_generation_prompt
        assert all(
            isinstance(call["function"]["arguments"], dict) for m in messages for call in m.get("tool_calls", ())
        )
        return " ".join([json.dumps(tools or ""), *(f"{m['role']} {json.dumps(m)}" for m in messages)])


def long(task: str, *, native: bool = False, **fields: Any) -> Episode:
    """Twelve calls with results of sixty words."""
    output = json.dumps({"output": "word " * 60, "exit_code": 0})
    turns = [Message("system", "You use tools."), Message("user", f"Do {task}")]
    for number in range(12):
        call = ToolCall(f"c{number}", "terminal", {"command": "ls"})
        result = ToolResult(call.id, "terminal", output)
        if native:
            turns += [Message("assistant", "", tool_calls=(call,), reasoning="Hm " * 5)]
            turns += [Message("tool", output, results=(result,), tool_call_id=call.id)]
        else:
            turns += [Message("assistant", CALL, tool_calls=(msgspec.structs.replace(call, id="call_0"),))]
            answered = msgspec.structs.replace(RESULT, content=output)
            turns += [Message("user", f"<tool_response>\n{output}\n</tool_response>", results=(answered,))]
    turns.append(Message("assistant", "Done."))
    form: Any = "native" if native else "hermes"
    return episode(task, started_at="2026-01-01", trajectory=trajectory(turns, tool_format=form, **fields))


def rows(run: Path, format: Any, tokens: int) -> tuple[list[Any], Source]:
    source = Source(run, budget=Budget(tokens, Words()))
    lines = FORMATS[format]
    assert isinstance(lines, Lines)
    return list(lines.rows(source)), source


@pytest.mark.parametrize("native", [False, True])
def test_long_conversations_are_compressed_and_short_ones_stay(tmp_path: Path, native: bool) -> None:
    run = make_run(tmp_path / "run", long("a", native=native), episode("b", started_at="2026-01-01"))
    found, source = rows(run, "openai", 500)
    plain = list(FORMATS["openai"].rows(Source(run)))  # type: ignore[union-attr]
    assert found[1] == plain[1]
    (note,) = [m for m in found[0]["messages"] if str(m["content"]).startswith(NOTE)]
    assert "terminal called" in note["content"]
    assert "exit code 0" in note["content"]
    assert [m for m in found[0]["messages"] if m is not note] == [
        *plain[0]["messages"][:4],
        *plain[0]["messages"][4 - len(found[0]["messages"]) + 1 :],
    ]
    assert (source.compressed, source.left_out) == (1, {})
    assert len(json.dumps(found[0]["messages"]).split()) <= 500


def test_a_hermes_row_can_still_be_read_back(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", long("a", native=True))
    ((row,), source) = rows(run, "hermes", 500)
    assert source.compressed == 1
    messages = parse_row(row)
    ids = [call.id for message in messages for call in message.tool_calls]
    assert ids == [result.call_id for message in messages for result in message.results]
    assert row["api_calls"] == sum(message.role == "assistant" for message in messages)


def test_what_cannot_be_compressed_is_left_out_and_counted(tmp_path: Path) -> None:
    squeezed = (Compression(at=5, start=2, end=4, room=10),)
    run = make_run(tmp_path / "run", long("a"), long("b", compressions=squeezed))
    assert rows(run, "openai", 100)[1].left_out == {
        "compressed on the way": 1,
        "longer than 100 tokens, even compressed": 1,
    }
    assert rows(run, "openai", 10**6)[1].left_out == {}


def test_a_format_of_sampled_tokens_is_never_compressed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", long("a"))
    for format in ("groups", "atif", "hf", "preference"):
        with pytest.raises(ConfigError, match=f"--max-tokens: not supported by {format}"):
            export(run, format, tmp_path / "out", max_tokens=100)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("format", ["sft", "openai", "hermes"])
def test_the_packaged_tokenizer_counts(tmp_path: Path, format: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from hermes_lab.training.compress import named_tokenizer

    run = make_run(tmp_path / "run", long("a"), long("b"), episode("c", started_at="2026-01-01"))
    out = tmp_path / "rows.jsonl"
    export(run, format, out, max_tokens=700)
    assert capsys.readouterr().err == f"3 rows in {out}, 2 of them compressed\n"
    for row in decoded(out):
        if "messages" in row:
            text = named_tokenizer("packaged").apply_chat_template(row["messages"], tokenize=False)
            assert len(named_tokenizer("packaged").encode(text)) <= 700
