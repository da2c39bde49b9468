"""config.yaml of the Hermes home at the command line: written, checked, shown, and used by chats alone."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from fakes.person import Person

from hermes_lab.config.home import DisplayConfig
from hermes_lab.runners.chat.screen import Screen


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_init_writes_a_file_that_is_right_and_never_overwrites_one(home: Path) -> None:
    assert "config init" in lab("config", "check").stderr
    assert lab("config", "init").returncode == 0
    file = home / "config.yaml"
    assert lab("config", "check").stdout == f"{file}: ok (home)\n"
    file.write_text("user: {name: Ann}\n")
    again = lab("config", "init")
    assert (again.returncode, again.stderr) == (
        2,
        f"hermes-lab: error: {file}: is there already; `hermes-lab config check` checks it\n",
    )
    assert file.read_text() == "user: {name: Ann}\n"


def test_check_prints_every_mistake_of_the_home_with_its_line(home: Path) -> None:
    file = home / "config.yaml"
    file.write_text("user:\n  nme: Ann\nagent:\n  toolsets: [coree]\nmodel: {name: '${HL_UNSET}'}\nsuite: {name: x}\n")
    for arguments in ([], [file], ["--kind", "home"]):
        result = lab("config", "check", *arguments)
        lines = result.stdout.splitlines()
        assert result.returncode == 2
        assert [line.removeprefix(f"{file}:")[:2] for line in lines] == ["2:", "4:", "5:", "6:"]
    assert "no toolset 'coree'; did you mean core?" in lines[1]
    other = home / "other.yaml"
    other.write_text("personality: nobody\n")
    assert lab("config", "check", other).stdout.startswith(f"{other}:1: personality: no personality 'nobody'")
    assert "FILES" in lab("config", "check", "--kind", "run").stderr


def test_show_prints_what_a_chat_uses_but_no_value_of_the_environment(home: Path) -> None:
    file = home / "config.yaml"
    file.write_text(
        "model:\n  base_url: 'https://host/${HL_PATH}/v1'\n  extra_body: {list: [1, 'x${HL_PATH}']}\n"
        "user: {preferences: {model: '${HL_PATH}'}}\n"
    )
    shown = lab("config", "show", "--kind", "home", "-c", "user.name=Ann", "--changed", HL_PATH="SECRET")
    assert shown.stdout == (
        f"model:\n  name: ${{HL_PATH}}  # {file}:4\n  base_url: https://host/${{HL_PATH}}/v1  # {file}:2\n"
        f"  extra_body: {{list: [1, 'x${{HL_PATH}}']}}  # {file}:3\n"
        "agent:\n  toolsets: [core]\nuser:\n  name: Ann  # command line\n"
    )
    whole = lab("config", "show", "-c", file, "--json", HL_PATH="SECRET").stdout
    assert "SECRET" not in whole
    assert json.loads(whole)["kind"] == "home"
    assert (
        yaml.safe_load(lab("config", "show", "--kind", "home", "-c", "model.name=m", HL_PATH="x").stdout)["model"][
            "name"
        ]
        == "m"
    )
    unset = lab("config", "show", "--kind", "home")
    assert (unset.returncode, unset.stderr.startswith(f"hermes-lab: error: {file}:2: model.base_url: ")) == (2, True)


def test_a_chat_uses_it_and_batches_do_not(home: Path, tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["hello"])) as server:
        (home / "config.yaml").write_text(
            f"model: {{base_url: '{server.base_url}', name: fake, max_retries: 0}}\nuser: {{name: Ann}}\n"
        )
        assert lab("chat", "hi").stdout == "hello\n"
        assert lab("chat", "hi", "-c", "user.name=Bob").stdout == "hello\n"
    first, second = server.requests
    prompts = [request["messages"][0]["content"] for request in (first, second)]
    assert "You work for Ann." in prompts[0]
    assert "You work for Bob." in prompts[1]
    (home / "config.yaml").write_text("nonsense: [\n")
    learner = ["model.provider=scripted", "model.name=tasks.learner:learner", "suite.name=ledger"]
    options = [part for each in learner for part in ("-c", each)]
    for batch in (["run", "-c", "suite.count=1", "--out", tmp_path / "run"], ["experiment", "--plan"]):
        result = lab(*batch, *options)
        assert result.returncode == 0, result.stderr
    refused = lab("chat", "hi")
    assert (refused.returncode, refused.stderr.startswith(f"hermes-lab: error: {home}/config.yaml:2: ")) == (2, True)


def test_a_mono_skin_shows_no_colours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for skin in ("default", "mono"):
        Screen(tmp_path / "history", DisplayConfig.model_validate({"skin": skin})).error("wrong")
        streams = capsys.readouterr()
        said[skin] = streams.out + streams.err
    assert "\x1b[31mwrong" in said["default"]
    assert "31m" not in said["mono"]
    assert "wrong" in said["mono"]


def test_the_screen_begins_as_configured(home: Path, tmp_path: Path) -> None:
    start = Reply(tool_calls=[function_call("c", "terminal", {"command": "echo said; exit 3", "background": True})])
    with running(FakeOpenAIServer([start, "Started."])) as server:
        (home / "config.yaml").write_text(
            f"model: {{base_url: '{server.base_url}', name: fake, max_retries: 0}}\n"
            "display: {skin: mono, verbose: off, background_process_notifications: result}\n"
        )
        person = Person([sys.executable, "-m", "hermes_lab", "chat"], tmp_path)
        try:
            person.sees("are deleted when this chat ends")
            person.types("/verbose")
            person.sees("tool calls shown: off")
            person.types("/personality tea", enter=False)
            person.presses("Tab")
            person.sees("/personality teacher")
            person.presses("Enter")
            person.sees("personality: teacher; it holds from the next session")
            person.types("go")
            person.sees("Started.")
            shown = person.sees("ended with exit code 3")
            assert "● terminal" not in shown
            assert "\nsaid" not in shown
            person.presses("C-d")
            assert person.ends() == 0
        finally:
            person.leave()
