"""The turns of chats as episodes: recorded, judged, read by every command, exported and selected for training."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, Script, function_call, running
from fakes.person import Person

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.commit import package_version
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.records import read_attempts, read_episodes
from hermes_lab.runners.cli import app
from hermes_lab.sessions import SessionStore
from hermes_lab.text.secrets import secrets_in
from hermes_lab.training.config import Gate
from hermes_lab.training.preference_data import select_pairs
from hermes_lab.training.select import select_rows
from hermes_lab.types import Episode

CALL = Reply(tool_calls=[function_call("c", "terminal", {"command": "echo 42"})])
DOWN = Reply(status=500)
CONSENT = ("-c", "chat.consent=true")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield tmp_path / "home"


def say(server: FakeOpenAIServer, *args: str) -> object:
    fields = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": 0}
    options = [part for key, value in fields.items() for part in ("-c", f"{key}={value}")]
    return app(["chat", *options, "--session", "s", *args], standalone_mode=False)


def chatted(script: Script, *lines: str, options: tuple[str, ...] = CONSENT) -> FakeOpenAIServer:
    """Runs each line as a chat of its own, in one session."""
    with running(FakeOpenAIServer(script)) as server:
        for line in lines:
            say(server, *options, "--", line)
    return server


def episodes(home: Path) -> list[Episode]:
    return sorted(read_episodes(home / "chats"), key=lambda episode: episode.sample)


def export(home: Path, format: str, *options: str) -> tuple[list[dict[str, object]], Path]:
    out = home / f"{format}.jsonl"
    app(["export", str(home / "chats"), "--format", format, "-o", str(out), "--force", *options], standalone_mode=False)
    return [json.loads(line) for line in out.read_text().splitlines()], out


def test_every_turn_is_the_episode_that_a_batch_would_write(home: Path) -> None:
    server = chatted([CALL, "It is 42.", "Yes."], "What is 6*7?", "Sure?")
    first, second = episodes(home)
    (session,) = SessionStore().latest()
    assert [(e.suite, e.task_id, e.sample, e.status) for e in (first, second)] == [
        ("chat", session.id, 0, "ok"),
        ("chat", session.id, 1, "ok"),
    ]
    assert (first.score, first.success, first.verdicts) == (None, None, ())
    assert first.trajectory
    assert second.trajectory
    assert [m["content"] or "" for m in server.requests[-1]["messages"]] == [
        m.content for m in second.trajectory.messages[:-1]
    ]
    assert second.trajectory.messages[: len(first.trajectory.messages)] == first.trajectory.messages
    assert (first.prompt, second.prompt) == ("What is 6*7?", "Sure?")
    assert (first.metrics["tool_calls"], second.metrics["tool_calls"]) == (1, 0)
    assert (first.metrics["api_calls"], second.metrics["api_calls"]) == (2, 1)
    assert second.trajectory.usage.completion_tokens < first.trajectory.usage.completion_tokens
    assert first.model.name == "fake"
    assert first.config_digest == second.config_digest
    assert first.lab == second.lab == package_version()


def test_token_ids_are_kept_where_the_server_gives_them(home: Path) -> None:
    chatted([CALL, "It is 42.", "Yes."], "What is 6*7?", "Sure?", options=(*CONSENT, "-c", "model.token_ids=true"))
    first, second = episodes(home)
    assert first.trajectory
    assert second.trajectory
    assert [sum(branch.mask) for branch in second.trajectory.branches] == [second.trajectory.usage.completion_tokens]
    assert sum(sum(branch.mask) for branch in first.trajectory.branches) == first.trajectory.usage.completion_tokens


def test_after_a_compression_a_turn_has_what_the_model_saw_and_can_be_trained_on(home: Path) -> None:
    long = "word " * 300
    script = [long, long, long, "THE SUMMARY", "Four.", "Five."]
    lines = ("one", "two", "three", "/compress 900", "four", "/good", "/retry")
    server = chatted(script, *lines)
    *_, four, five = episodes(home)
    assert five.trajectory
    assert five.trajectory.compressions == ()
    sent = [message["content"] for message in server.requests[-1]["messages"]]
    assert [message.content for message in five.trajectory.messages[:-1]] == sent
    assert "THE SUMMARY" in sent[2]
    assert five.prompt == "four"
    assert five.trajectory.messages[five.trajectory.steps[0].message].content == "Five."
    assert (four.success, five.score, five.task.metadata["retry_of"]) == (True, 0.5, four.sample)
    (row,) = select_rows([home / "chats"]).rows
    assert [row.messages[index].content for index in row.trained] == ["Four."]
    assert len(select_pairs([home / "chats"], Gate()).pairs) == 1


def test_recording_can_be_switched_off(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chatted(["Hello."], "Hi", "/good", options=("-c", "chat.record=false"))
    assert not (home / "chats").exists()
    assert "chat.record is false" in capsys.readouterr().err


def test_a_turn_that_failed_at_the_model_is_errored_and_no_turn_is_lost(home: Path) -> None:
    chatted(["Hello.", DOWN, "Again."], "one", "two", "three")
    first, failed, third = episodes(home)
    assert (failed.status, failed.score, failed.trajectory) == ("errored", None, None)
    assert failed.error
    assert failed.error.kind == "model"
    assert [first.status, third.status] == ["ok", "ok"]


def test_a_log_that_cannot_be_written_ends_no_chat(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    (home / "chats").write_text("in the way")
    chatted(["Hello."], "Hi")
    out, err = capsys.readouterr()
    assert out == "Hello.\n"
    assert "this turn is not in the log of turns: " in err
    assert SessionStore().latest()[0].length == 3


def test_good_and_bad_are_verdicts_on_the_last_turn_and_may_be_changed(home: Path) -> None:
    chatted(["One.", "Two."], "one", "/good short", "two", "/good", "/bad wrong number")
    first, second = episodes(home)
    assert (first.score, first.success) == (1.0, True)
    assert first.verdicts[0].reasons == {"person": "short"}
    assert (second.score, second.success, second.verdicts[0].criteria) == (0.0, False, {"person": 0.0})
    assert second.trajectory is not None
    assert second.verdicts[0].reasons == {"person": "wrong number"}
    assert len(list(read_attempts(home / "chats", Episode))) == 5  # nothing is overwritten


def test_without_a_turn_there_is_nothing_to_judge(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chatted([DOWN], "/good", "hello", "/bad")
    assert capsys.readouterr().err.count("no turn to judge") == 2
    assert [episode.status for episode in episodes(home)] == ["errored"]


def test_a_retry_that_fails_once_still_makes_a_pair(home: Path, tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["Bad.", DOWN, "Better."])) as server:
        fields = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": 0}
        options = [part for key, value in fields.items() for part in ("-c", f"{key}={value}")]
        person = Person([sys.executable, "-m", "hermes_lab", "chat", *options, *CONSENT], tmp_path)
        try:
            person.sees("/help lists the commands")
            for line, told in (("q", "Bad."), ("/retry", "turn discarded"), ("/retry", "Better.")):
                person.types(line)
                person.sees_new(re.compile(re.escape(told)), line)
        finally:
            person.leave()
    (row,) = export(home, "preference")[0]
    assert [message["content"] for message in row["chosen"]] == ["Better."]  # type: ignore[attr-defined]


def test_a_retried_literal_message_loads_no_skill(home: Path) -> None:
    (home / "skills" / "tidy").mkdir(parents=True)
    (home / "skills" / "tidy" / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies.\n---\n\nSort.\n")
    server = chatted(["One.", "Two."], "//tidy now", "/retry")
    assert [request["messages"][-1]["content"] for request in server.requests] == ["/tidy now"] * 2
    assert len(export(home, "preference")[0]) == 1


def test_retry_makes_a_preference_pair_with_the_same_prompt(home: Path) -> None:
    chatted(["Hello.", "Bad.", "Better."], "Hi", "Tell me.", "/retry")
    _, rejected, chosen = episodes(home)
    assert (rejected.score, rejected.success, chosen.score, chosen.success) == (0.0, None, 0.5, None)
    assert chosen.task.metadata["retry_of"] == rejected.sample
    rows, _ = export(home, "preference")
    (row,) = rows
    assert [message["content"] for message in row["chosen"]] == ["Better."]  # type: ignore[attr-defined]
    assert [message["content"] for message in row["rejected"]] == ["Bad."]  # type: ignore[attr-defined]
    said = [message["content"] for message in row["prompt"]]  # type: ignore[attr-defined]
    assert said[1:] == ["Hi", "Hello.", "Tell me."]
    assert len(select_pairs([home / "chats"], Gate()).pairs) == 1


def test_a_retried_turn_keeps_its_own_verdict_and_the_better_one_its_later_verdict(home: Path) -> None:
    chatted(["Good.", "Worse."], "Tell me.", "/good", "/retry", "/bad")
    kept, worse = episodes(home)
    assert (kept.score, kept.success) == (1.0, True)
    assert (worse.score, worse.success) == (0.0, False)
    rows, _ = export(home, "preference")
    assert [message["content"] for row in rows for message in row["chosen"]] == ["Good."]  # type: ignore[attr-defined]


def test_a_message_that_failed_is_sent_again_and_no_earlier_turn_is_touched(home: Path, tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["One.", DOWN, "Two."])) as server:
        fields = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": 0}
        options = [part for key, value in fields.items() for part in ("-c", f"{key}={value}")]
        person = Person([sys.executable, "-m", "hermes_lab", "chat", *options], tmp_path)
        try:
            person.sees("/help lists the commands")
            for line, told in (("one", "One."), ("two", "turn discarded"), ("/good", "no turn to judge")):
                person.types(line)
                person.sees_new(re.compile(re.escape(told)), line)
            person.types("/retry")
            person.sees_new(re.compile(r"asking again: two.*Two\.", re.DOTALL), "/retry")
        finally:
            person.leave()
    assert [(e.prompt, e.status, e.score) for e in episodes(home)] == [
        ("one", "ok", None),
        ("two", "errored", None),
        ("two", "ok", None),
    ]


def test_a_turn_that_was_taken_back_is_not_exported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chatted(["One.", "Two."], "one", "two", "/good", "/undo")
    rows, _ = export(home, "openai")
    assert len(rows) == 1
    assert "1 taken back with /undo" in capsys.readouterr().err
    assert select_rows([home / "chats"]).rows == []


def test_another_message_in_the_place_of_an_undone_turn_is_no_retry(home: Path) -> None:
    chatted(["One.", "Two."], "Tell me.", "/undo", "Tell me more.")
    assert [episode.score for episode in episodes(home)] == [None, None]


def test_only_good_turns_are_trained_on_and_of_each_only_its_own_replies(home: Path) -> None:
    chatted([CALL, "It is 42.", "Certainly.", "No."], "What is 6*7?", "/bad", "Sure?", "/good", "And now?")
    selection = select_rows([home / "chats"])
    (row,) = selection.rows
    assert [row.messages[index].content for index in row.trained] == ["Certainly."]
    assert selection.refused == {"not accepted": 1, "not judged": 1}
    rows, _ = export(home, "sft")
    assert len(rows) == 1


@pytest.mark.parametrize("format", ["openai", "hermes", "sft", "preference"])
def test_nothing_is_exported_without_consent(home: Path, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    chatted(["One.", "Two."], "Hi", "/good", "/retry", options=())
    rows, _ = export(home, format)
    assert rows == []
    unjudged = " 1 not judged, 1" if format == "sft" else " 2"
    assert f"left out:{unjudged} without consent (chat.consent, --consent or gate.consent)" in capsys.readouterr().err
    assert len(export(home, format, "--consent")[0]) == (2 if format in ("openai", "hermes") else 1)


def test_a_turn_that_holds_words_without_consent_has_none_either(home: Path) -> None:
    chatted(["One."], "PRIVATE", options=())
    chatted(["Two."], "two", "/good")
    assert [episode.task.metadata["consent"] for episode in episodes(home)] == [False, False]
    assert export(home, "openai")[0] == []
    assert select_rows([home / "chats"]).rows == []
    chatted(["Three."], "/undo 2", "three")
    assert len(export(home, "openai")[0]) == 1  # nothing private is left in the conversation


def test_a_turn_before_which_one_was_not_recorded_has_no_consent(home: Path) -> None:
    chatted(["One."], "one", options=("-c", "chat.record=false"))
    chatted(["Two."], "two")
    assert export(home, "openai")[0] == []


def test_a_turn_that_is_not_in_the_log_is_not_judged_in_anothers_name(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chatted(["Old."], "q")
    chatted(["New."], "/retry", options=("-c", "chat.record=false"))
    chatted([], "/good")
    assert "no turn to judge" in capsys.readouterr().err
    assert [episode.success for episode in episodes(home)] == [None]


def test_two_chats_in_one_session_replace_no_turn_of_each_other(home: Path, tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["One.", DOWN, "Two."])) as server:
        fields = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": 0}
        options = [part for key, value in fields.items() for part in ("-c", f"{key}={value}")]
        person = Person([sys.executable, "-m", "hermes_lab", "chat", "--session", "s", *options], tmp_path)
        try:
            person.sees("/help lists the commands")
            person.types("one")
            person.sees_new(re.compile("One\\."), "one")
            say(server, "fails beside it")
            person.types("two")
            person.sees_new(re.compile("Two\\."), "two")
            person.types("/good")
            person.sees_new(re.compile("recorded as good"), "/good")
        finally:
            person.leave()
    assert [(e.sample, e.prompt, e.success) for e in episodes(home)] == [
        (0, "one", None),
        (1, "fails beside it", None),
        (2, "two", True),
    ]


def test_a_session_that_another_chat_cut_does_not_go_on(home: Path, tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["One.", "Other.", "Two."])) as server:
        fields = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": 0}
        options = [part for key, value in fields.items() for part in ("-c", f"{key}={value}")]
        person = Person([sys.executable, "-m", "hermes_lab", "chat", "--session", "s", *options], tmp_path)
        try:
            person.sees("/help lists the commands")
            person.types("one")
            person.sees_new(re.compile("One\\."), "one")
            say(server, "/undo")
            say(server, "other")  # as many messages as before
            person.types("two")
            person.sees_new(re.compile("it went on in another process"), "two")
        finally:
            person.leave()
    assert [e.prompt for e in episodes(home)] == ["one", "other"]


def test_undo_takes_back_every_try_of_a_turn(home: Path) -> None:
    chatted(["First.", "Second."], "q", "/retry", "/undo")
    assert export(home, "openai")[0] == []


def test_a_line_of_the_log_that_cannot_be_read_loses_no_answer(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chatted(["One."], "one")
    next((home / "chats" / "episodes").iterdir()).write_text("no episode\n")
    chatted(["Two."], "two")
    out, err = capsys.readouterr()
    assert out == "One.\nTwo.\n"
    assert "this turn is not in the log of turns: " in err


def test_a_message_for_the_queue_is_sent_as_a_prompt_too(home: Path) -> None:
    server = chatted(["Hello."], "/queue hi")
    assert server.requests[-1]["messages"][-1]["content"] == "hi"


def test_training_without_consent_refuses_too(home: Path) -> None:
    chatted(["One.", "Two."], "Hi", "/good", "/retry", options=())
    assert select_rows([home / "chats"]).rows == []
    assert (
        select_pairs([home / "chats"], Gate()).refused["without consent (chat.consent, --consent or gate.consent)"] == 2
    )
    assert len(select_rows([home / "chats"], Gate(consent=True)).rows) == 1


def test_a_secret_in_a_message_a_call_or_a_result_keeps_the_turn_from_export(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "as-plain-as-a-word")
    result = Reply(tool_calls=[function_call("c", "terminal", {"command": "echo id; echo AKIAIOSFODNN7EXAMPL'E'"})])
    chatted(["Fine.", "Fine."], "/new", "Hello", "My key is ghp_abcdefghijklmnopqrstuvwxyz0123456789")
    chatted([result, "Done."], "/new", "Look.")
    chatted(["as-plain-as-a-word"], "/new", "Say it.")
    rows, out = export(home, "openai", "--consent")
    assert len(rows) == 1
    assert "ghp_" not in out.read_text()
    err = capsys.readouterr().err
    for kind in ("GitHub Token", "AWS Access Key", "value of SOME_API_KEY"):
        assert f"with a possible secret ({kind}" in err or f"{kind})" in err


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("export OPENAI_API_KEY=sk-proj-abc123DEF456ghi789JKL012mno345PQR", "API key"),
        ("key: sk-ant-api03-abcdefghijABCDEFGHIJ0123456789abcdefghij", "API key"),
        ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "Hugging Face token"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "Private Key"),
        ("postgresql://admin:s3cr3tpw@db:5432/x", "Basic Auth Credentials"),
        ("password: correcthorse", "password"),
        ("DB_PASSWORD=hunter22xyz", "password"),
        ("export MY_API_KEY=abcdef1234567", "password"),
        ("aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY", "password"),
        ("client_secret=abcdef1234567", "password"),
        ("sk-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV", "API key"),
        ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "npm token"),
        ('"api_key": "0123456789abcdef"', "password"),
        ("Authorization: Bearer abcdefghijklmnop0123", "bearer token"),
        (
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0",
            "JSON Web Token",
        ),
    ],
)
def test_secrets_are_found_by_their_form(text: str, kind: str) -> None:
    assert kind in secrets_in([text], {})


@pytest.mark.parametrize(
    "text",
    [
        "How do I reset my password?",
        "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "password = os.environ['PASSWORD']",
        "api_key: ${OPENAI_API_KEY}",
        "api_key=your-key-here",
        "the token count is 1234567890",
        "session 20261126-193813-0a1b2c3d, commit 92fb8c5d0f",
    ],
)
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert not secrets_in([text], {"HOME": "/root", "TOKENIZERS_PARALLELISM": "false"})


def test_values_of_variables_are_found_by_their_names() -> None:
    variables = {"DB_PASS": "one-secret", "GH_PAT": "two-secret", "MYSQL_PWD": "three-secret", "PATH": "/usr/bin:/bin"}
    text = "one-secret two-secret three-secret /usr/bin:/bin"
    assert secrets_in([text], variables) == ["value of DB_PASS", "value of GH_PAT", "value of MYSQL_PWD"]


def test_a_secret_is_found_as_a_key_and_in_json_within_a_text(home: Path) -> None:
    key = "sk-proj-abc123DEF456ghi789JKL012mno345PQR"
    call = Reply(tool_calls=[function_call("c", "terminal", {key: "x"})])
    chatted([call, "Done."], "/new", "One.")
    chatted(["Done."], "/new", 'Here: {"k": "' + key.replace("-", "\\u002d") + '"}')
    assert export(home, "openai")[0] == []


def test_every_command_that_reads_runs_reads_chats(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chatted([CALL, "It is 42.", "Sure.", DOWN], "What is 6*7?", "/good", "Sure?", "/bad", "More.")
    run = str(home / "chats")
    capsys.readouterr()
    app(["summary", run], standalone_mode=False)
    summed = capsys.readouterr().out
    assert "2 of 3 episodes finished, 1 errored, 2 scored, 1 judged good by a person" in summed
    assert "pass@" not in summed
    assert "solved" not in summed
    app(["show", run], standalone_mode=False)
    listed = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in listed[1:3]] == ["What is 6*7?", "Sure?"]
    app(["show", run, "--episode", "0"], standalone_mode=False)
    assert "It is 42." in capsys.readouterr().out
    app(["report", run, "-o", str(home / "report.html")], standalone_mode=False)
    assert "chat" in (home / "report.html").read_text()
    for command in ("replay", "rescore"):
        with pytest.raises(ConfigError, match=r"chats: holds turns of chats, which"):
            app([command, run, *(("--episode", "0") if command == "replay" else ("--out", "x"))], standalone_mode=False)
    frame = load_episodes(home / "chats")
    assert frame["suite"].tolist() == ["chat"] * 3


def test_a_deleted_session_leaves_no_turn(home: Path) -> None:
    chatted(["Hello."], "Hi")
    app(["sessions", "delete", "s", "--yes"], standalone_mode=False)
    assert list((home / "chats" / "episodes").iterdir()) == []


def test_the_first_answer_makes_the_run_and_nothing_before_it(home: Path) -> None:
    chatted([], "/usage")
    assert not (home / "chats").exists()
    chatted(["Hello."], "Hi")
    manifest = msgspec.json.decode((home / "chats" / "run.json").read_bytes())
    assert (manifest["command"], manifest["wanted"], manifest["config"]["suite"]["name"]) == ("chat", 0, "chat")
    assert RunConfig.model_validate(manifest["config"])
    shutil.rmtree(home / "chats")
