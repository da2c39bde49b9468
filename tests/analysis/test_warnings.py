"""What makes a score meaningless is said with its count, its share and the field to change."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.analysis.summaries.unread import MOST, longest_cut, unread_formats
from hermes_lab.analysis.summaries.warnings import PLAIN, Seen, early_warning, endings_text, warnings_of
from hermes_lab.config.schema import RunConfig
from hermes_lab.types import Episode, EpisodeError, Message, Step, Usage
from hermes_lab.types.trajectory import StopReason

WriteRun = Callable[..., Path]


def config(**sections: Any) -> dict[str, Any]:
    """As `run.json` has it."""
    return RunConfig.model_validate(sections).model_dump(mode="json")


def ended(stop: str, task: int, *, lane: str = "main", success: bool | None = False, text: str = "") -> Episode:
    usual = make_episode(success, task=task, lane=lane)
    spoken = msgspec.structs.replace(
        usual.trajectory, stop_reason=stop, messages=(Message("user", "Go."), Message("assistant", text))
    )
    return msgspec.structs.replace(usual, trajectory=spoken)


def told(write_run: WriteRun, stops: list[str], formats: tuple[str, ...] = (), **sections: Any) -> list[str]:
    """The warnings of a run in which episodes ended so."""
    summary = summarize(write_run([ended(stop, task) for task, stop in enumerate(stops)], repr(stops)[:40].strip("[]")))
    return warnings_of(summary, config(**sections), Seen(formats))


def test_a_reply_that_was_cut_names_the_limit_and_its_value(write_run: WriteRun) -> None:
    (warning,) = told(write_run, ["length"] * 7 + ["answered"] * 3)
    assert warning == (
        "7 of 10 episodes (70 %) ended with a reply truncated at model.sampling.max_tokens (1,024): they have no "
        "answer, and 7 of the 7 judged ones count as not solved; raise it (reasoning counts too)"
    )


def test_what_was_solved_all_the_same_is_not_called_lost(write_run: WriteRun) -> None:
    run = write_run([ended("length", task, success=[True, False, None][task]) for task in range(3)])
    (warning,) = summarize(run)["warnings"]
    assert "1 of the 2 judged ones count as not solved" in warning


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ("filtered", ["blocked or truncated by the endpoint's content filter", "they have no answer"]),
        ("refused", ["marked as a refusal", "hermes-lab show"]),
        ("empty", ["gave no answer", "reasoning model", "model.sampling.max_tokens (1,024)"]),
        ("context_full", ["did not fit the model", "agent.context_tokens (0: not told)", "agent.compress_at (0.75)"]),
        ("repeated", ["a loop of identical calls", "agent.max_repeats (null: 6 with agent.prompt=full)"]),
        ("unparsed", ["an unparsed tool call in the text", "model.tool_parser", "agent.tool_format=hermes"]),
    ],
)
def test_every_bad_end_is_told_from_5_percent_on(write_run: WriteRun, stop: str, words: list[str]) -> None:
    (warning,) = told(write_run, [stop] + ["answered"] * 19)
    assert warning.startswith("1 of 20 episodes (5 %) ")
    assert all(word in warning for word in words), warning
    assert told(write_run, [stop] + ["answered"] * 20) == []


@pytest.mark.parametrize(
    ("stop", "field"),
    [
        ("max_iterations", "agent.max_iterations (90)"),
        ("max_seconds", "agent.max_seconds (1,800.0)"),
        ("max_tokens", "agent.max_tokens (1,000,000)"),
        ("max_cost", "agent.max_cost (0.5)"),
    ],
)
def test_a_budget_is_told_from_20_percent_on(write_run: WriteRun, stop: str, field: str) -> None:
    priced = {"agent": {"max_cost": 0.5}}
    (warning,) = told(write_run, [stop] + ["answered"] * 4, **priced)
    assert (
        f"ended at {field}: 1 of the 1 judged ones count as not solved; they were judged in their state at that point"
        in warning
    )
    assert told(write_run, [stop] + ["answered"] * 5, **priced) == []


def test_every_stop_reason_has_plain_words() -> None:
    assert set(PLAIN) == {reason for part in StopReason.__args__ for reason in part.__args__}
    assert endings_text({"length": 1000, "answered": 2, "new": 1}) == "2 answered, 1,000 reply cut (length), 1 new"


def test_a_share_that_is_large_in_one_arm_alone_is_told_of_that_arm(write_run: WriteRun) -> None:
    off = [ended("answered", task, lane="off-r0-w0") for task in range(90)]
    on = [ended("length" if task == 0 else "answered", task, lane="on-r0-w0") for task in range(10)]
    (warning,) = summarize(write_run([*off, *on]))["warnings"]
    assert warning.startswith("arm on, model-a: 1 of 10 episodes (10 %) ended with a reply truncated")


@pytest.mark.parametrize(
    ("sections", "formats", "words"),
    [
        ({}, ("mistral",), "(it looks like mistral)"),
        (
            {},
            ("mistral",),
            "set model.tool_parser=mistral (vLLM: --enable-auto-tool-choice --tool-call-parser mistral)",
        ),
        ({}, ("llama",), "--tool-call-parser llama3_json"),
        ({}, ("hermes",), "--tool-call-parser hermes) or agent.tool_format=hermes"),
        ({}, ("other",), "(in a format without a parser here)"),
        ({}, ("other",), "let the server parse the calls (vLLM: --enable-auto-tool-choice --tool-call-parser NAME)"),
        ({"model": {"tool_parser": "qwen"}}, ("hermes",), "set model.tool_parser=hermes instead of qwen"),
        ({"agent": {"tool_format": "hermes"}}, ("llama",), "set it to native, with model.tool_parser=llama"),
        ({"model": {"provider": "scripted"}}, (), "set agent.tool_format=hermes"),
    ],
)
def test_the_mend_for_unread_calls_fits_their_format_and_the_configuration(
    write_run: WriteRun, sections: dict[str, Any], formats: tuple[str, ...], words: str
) -> None:
    (warning,) = told(write_run, ["unparsed"], formats, **sections)
    assert words in warning


HERMES = '<tool_call>{"name": "terminal", "arguments": {"command": "ls"}}</tool_call>'
MISTRAL = '[TOOL_CALLS] [{"name": "terminal", "arguments": {"command": "ls"}}]'


def test_a_reply_that_the_server_cut_far_below_the_limit_is_not_blamed_on_it(write_run: WriteRun) -> None:
    def cut(task: int, tokens: int) -> Episode:
        one = ended("length", task)
        steps = (Step(1, "length", Usage(5, tokens), 0.1),)
        return msgspec.structs.replace(one, trajectory=msgspec.structs.replace(one.trajectory, steps=steps))

    run = write_run([cut(0, 241), cut(1, 240)])
    assert longest_cut(run) == 241
    summary = summarize(run)
    (warning,) = warnings_of(summary, config(), Seen((), 241))
    assert "that the server cut after at most 241 tokens, far below model.sampling.max_tokens (1,024)" in warning
    assert warning.endswith("check the server's own limit and context length")
    assert "truncated at model.sampling.max_tokens (1,024)" in warnings_of(summary, config(), Seen((), 1000))[0]


def test_formats_are_those_of_a_few_unparsed_episodes(write_run: WriteRun) -> None:
    replies = [MISTRAL, HERMES, HERMES, "I do not know."]
    run = write_run([ended("answered", 99), *(ended("unparsed", task, text=text) for task, text in enumerate(replies))])
    assert unread_formats(run) == ["hermes", "mistral"]
    assert unread_formats(run, most=1) == ["mistral"]
    assert "(it looks like hermes or mistral)" in summarize(run)["warnings"][0]


def test_no_more_than_a_few_replies_are_read(write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("hermes_lab.analysis.summaries.unread.family_of", seen.append)
    unread_formats(write_run([ended("unparsed", task, text=str(task)) for task in range(20)]))
    assert len(seen) == MOST


def test_errors_are_told_with_their_most_frequent_message(write_run: WriteRun) -> None:
    down = [
        make_episode(
            None, task=task, status="errored", error=EpisodeError("model", message), trajectory=None, metrics={}
        )
        for task, message in enumerate(["404", "404", "502"])
    ]
    (warning,) = summarize(write_run([*down, make_episode(True, task=9)]))["warnings"]
    assert warning == "3 of 4 episodes (75 %) errored and have no score; most often: model: 404"


def test_replies_that_were_cut_on_the_way_are_told_though_episodes_went_on(write_run: WriteRun) -> None:
    usual = make_episode(True)
    cut = msgspec.structs.replace(usual, metrics=usual.metrics | {"cut_replies": 1})
    (warning,) = summarize(write_run([cut]))["warnings"]
    assert warning.startswith("1 of 3 replies (33 %) were truncated at model.sampling.max_tokens (1,024)")


def test_first_calls_that_did_not_run_are_told_from_20_percent_on(write_run: WriteRun) -> None:
    def run(bad: int) -> Path:
        return write_run([make_episode(True, task=n, first_call_ok=n >= bad) for n in range(10)], f"bad{bad}")

    (warning,) = summarize(run(2))["warnings"]
    assert warning.startswith("2 of 10 first calls (20 %) could not be parsed")
    assert summarize(run(1))["warnings"] == []


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"temperature": 0.0}, "run.samples is 4 with model.sampling.temperature (0)"),
        ({"temperature": 0.7, "seed": 7}, "run.samples is 4 with a fixed model.sampling.seed (7)"),
        ({"temperature": 0.7}, ""),
        ({"temperature": None}, ""),
    ],
)
def test_samples_that_may_be_the_same_are_told(write_run: WriteRun, sampling: dict[str, Any], words: str) -> None:
    found = told(write_run, ["answered"], model={"sampling": sampling}, run={"samples": 4})
    assert [warning.startswith(words) for warning in found] == [True] * bool(words)
    assert told(write_run, ["answered"], model={"sampling": sampling}) == []
    scripted = {"provider": "scripted", "name": "m:f", "sampling": sampling}
    assert told(write_run, ["answered"], model=scripted, run={"samples": 4}) == []


def test_a_run_in_which_everything_was_answered_warns_of_nothing(write_run: WriteRun) -> None:
    assert summarize(write_run([make_episode(True), make_episode(False, task=1)]))["warnings"] == []
    assert summarize(write_run([]))["warnings"] == []


def test_the_configuration_of_an_older_run_may_lack_a_field(write_run: WriteRun) -> None:
    summary = summarize(write_run([ended(stop, task) for task, stop in enumerate(PLAIN) if stop != "failed"]))
    found = warnings_of(summary, {})
    assert len(found) == 8  # not the budgets, of which each ended one in thirteen
    assert not any("(None" in warning for warning in found)
    assert any("truncated at model.sampling.max_tokens" in warning for warning in found)


def test_the_early_warning_names_the_fields_of_what_happened() -> None:
    line = early_warning(Counter(length=4, errored=6), "model: down")
    assert "none of the first 10 episodes produced an answer (4 reply cut, 6 errored)" in line
    assert "model.sampling.max_tokens; the last error (model: down)" in line
