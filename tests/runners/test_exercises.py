"""The tables of docs/exercises.md: every line is typed, in order, and prints what the table says."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, function_call, running
from fakes.person import Person

from hermes_lab.runners.cli import app
from hermes_lab.skills import format as skill_format

PAGE = Path(__file__).parents[2] / "docs" / "exercises.md"
ROW = re.compile(r"^\| (?P<what>.+?) \| `(?P<typed>.+?)` \| `(?P<prints>.+?)` \|$", re.MULTILINE)


class Exercise(NamedTuple):
    what: str
    typed: str
    prints: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the table says, where `…` stands for anything."""
        return re.compile(".*?".join(map(re.escape, self.prints.split("…"))), re.DOTALL)


def exercises() -> list[Exercise]:
    return [Exercise(**found.groupdict()) for found in ROW.finditer(PAGE.read_text())]


def reply(body: dict[str, Any]) -> str | Reply:
    """A model that does what the exercises ask for."""
    messages = body["messages"]
    asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
    if messages[-1]["role"] != "tool":
        if "hostname in the terminal" in asked and "tools" in body:
            return Reply(tool_calls=[function_call("c", "terminal", {"command": "hostname"})])
        if asked.startswith("Start: "):
            call = {"command": asked.removeprefix("Start: "), "background": True}
            return Reply(tool_calls=[function_call("c", "terminal", call)])
    if "tools" not in body:
        return "A summary: hostname was run."
    if "2+2" in asked:
        return "4"
    if "Who am I" in asked:
        return "You are Ann." if "Ann" in messages[0]["content"] else "I do not know."
    return "Fine. " * 400


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    skill = tmp_path / "home" / "skills" / "my-custom-task"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(skill_format.render("my-custom-task", "A task of mine.", "Do it with care."))
    return tmp_path / "home"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository with one skill."""
    folder = tmp_path / "repository" / "github-issues"
    folder.mkdir(parents=True)
    text = skill_format.render("github-issues", "How to work on issues of GitHub.", "# Issues\n\nRead one at a time.")
    (folder / "SKILL.md").write_text(text)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for args in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "skills"]):
        subprocess.run(["git", "-C", str(folder.parent), *who, *args], check=True, capture_output=True)
    return folder.parent


@pytest.fixture
def server(home: Path) -> Iterator[FakeOpenAIServer]:
    with running(FakeOpenAIServer(reply)) as server:
        written = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert written
        (home / "config.yaml").write_text(
            written[1].replace("http://127.0.0.1:8000/v1", server.base_url).replace("my-model", "fake")
        )
        yield server


def test_every_exercise_prints_what_the_page_says(
    server: FakeOpenAIServer, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    person = Person([sys.executable, "-m", "hermes_lab", "chat"], tmp_path)
    try:
        person.sees("are deleted when this chat ends")
        for exercise in exercises():
            typed = exercise.typed.replace("SOURCE", source.as_uri())
            if typed.startswith("hermes-lab "):
                app(shlex.split(typed)[1:], standalone_mode=False)
                printed = "".join(capsys.readouterr())
                assert exercise.pattern.search(printed), f"{exercise.what}: {printed}"
            else:
                person.types(typed)
                person.sees_new(exercise.pattern, typed)
    finally:
        person.leave()
    assert len(exercises()) > 40
    asked = [request["messages"][-1]["content"] for request in server.requests if "tools" in request]
    assert "usage is a word" in " ".join(asked)
    assert "/usag" not in asked
