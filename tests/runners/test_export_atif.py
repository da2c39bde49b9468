"""ATIF documents: Harbor's schema and rules, and what of an episode stands where in them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from export_episodes import BRANCH, NATIVE, TOOLS, compressed, make_run, mixed, native
from fakes.episodes import episode

from hermes_lab.runners.export.atif import file_name, trajectory_document, write
from hermes_lab.runners.export.source import Source
from hermes_lab.types import Message, Usage

HARBOR = "harbor==0.24.0"


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """Harbor forbids fields that it does not know."""


class Agent(Strict):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class Call(Strict):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class Result(Strict):
    source_call_id: str | None = None
    content: str | None = None
    extra: dict[str, Any] | None = None


class Observation(Strict):
    results: list[Result]


class Metrics(Strict):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class Step(Strict):
    step_id: int
    source: Literal["system", "user", "agent"]
    message: str
    timestamp: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    llm_call_count: int | None = None
    extra: dict[str, Any] | None = None


class FinalMetrics(Strict):
    total_steps: int
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    extra: dict[str, Any] | None = None


class Document(Strict):
    schema_version: Literal["ATIF-v1.8"]
    session_id: str
    trajectory_id: str
    agent: Agent
    steps: list[Step]
    final_metrics: FinalMetrics
    extra: dict[str, Any]


def check(document: Document) -> None:
    """The rules of Harbor's validator that a schema does not hold."""
    assert [step.step_id for step in document.steps] == list(range(1, document.final_metrics.total_steps + 1))
    for step in document.steps:
        if step.timestamp:
            datetime.fromisoformat(step.timestamp)
        if step.source != "agent":
            assert (step.reasoning_content, step.tool_calls, step.metrics, step.llm_call_count) == (None,) * 4
        ids = [call.tool_call_id for call in step.tool_calls or ()]
        sources = [result.source_call_id for result in (step.observation.results if step.observation else ())]
        assert set(sources) <= {*ids, None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "atif"
    out.mkdir()
    source = Source(make_run(tmp_path / "run", *mixed()))
    assert (write(source, out), source.left_out) == (6, {"errored": 1})
    return out


def test_every_document_keeps_the_schema_and_the_rules(folder: Path) -> None:
    files = list(folder.iterdir())
    assert len(files) == 6
    for path in files:
        check(msgspec.json.decode(path.read_bytes(), type=Document))


def document_of(one: Any) -> Document:
    return msgspec.json.decode(msgspec.json.encode(trajectory_document(one, one.trajectory)), type=Document)


def test_results_are_the_observation_of_the_step_that_called() -> None:
    document = document_of(native())
    assert [step.source for step in document.steps] == ["system", "user", "agent", "agent", "agent"]
    step = document.steps[2]
    assert (step.message, step.reasoning_content) == ("I look.", "Two at once.")
    assert [(c.tool_call_id, c.function_name, c.arguments) for c in step.tool_calls or ()] == [
        ("call_a", "terminal", {"command": "ls | wc -l"}),
        ("call_b", "read_file", {"path": "a", "limit": 5}),
    ]
    assert step.observation
    assert [(r.source_call_id, r.content) for r in step.observation.results] == [
        ("call_a", NATIVE[3].content),
        ("call_b", NATIVE[4].content),
    ]
    broken = (document.steps[3].tool_calls or [])[0]
    assert (broken.arguments, broken.extra) == (
        {},
        {"error": "invalid tool call: not JSON", "raw": '{"command": "ls'},
    )


def test_reasoning_that_names_a_tag_is_no_part_of_the_message() -> None:
    said = Message(
        "assistant", "<think>Should I use <tool_call>? No.</think> 4", reasoning="Should I use <tool_call>? No."
    )
    one = native()
    spoken = msgspec.structs.replace(one.trajectory, messages=(*one.trajectory.messages[:-1], said))
    document = document_of(msgspec.structs.replace(one, trajectory=spoken))
    assert document.steps[-1].message == "4"


def test_agent_and_episode_are_named() -> None:
    document = document_of(native())
    assert (document.agent.name, document.agent.model_name, document.agent.tool_definitions) == (
        "hermes-lab",
        "m",
        list(TOOLS),
    )
    assert document.agent.extra
    assert document.agent.extra["adapter_digest"] == "feed"
    assert document.session_id == document.extra["episode"] == "made-up|native|lane|0|0"


def test_tokens_are_those_of_the_sampler_call_by_call() -> None:
    metrics = [step.metrics for step in document_of(native()).steps if step.metrics]
    ids = list(BRANCH.token_ids)
    assert [(m.prompt_token_ids, m.completion_token_ids, m.logprobs) for m in metrics] == [
        (ids[:2], ids[2:4], [-0.5, -0.25]),
        (ids[:5], ids[5:6], [-1.0]),
        (ids[:7], ids[7:8], [-2.0]),
    ]
    assert [(m.prompt_tokens, m.completion_tokens) for m in metrics] == [(2, 2), (5, 1), (7, 1)]


def test_tokens_that_do_not_account_for_every_call_are_left_out() -> None:
    one = native()
    assert one.trajectory
    steps = tuple(msgspec.structs.replace(step, usage=Usage(9, 9)) for step in one.trajectory.steps)
    odd = native(trajectory=msgspec.structs.replace(one.trajectory, steps=steps))
    assert all(step.metrics.completion_token_ids is None for step in document_of(odd).steps if step.metrics)


def test_what_was_not_counted_is_not_said() -> None:
    scripted = document_of(episode("t"))
    assert scripted.final_metrics.total_prompt_tokens is None
    assert all(step.metrics.prompt_tokens is None for step in scripted.steps if step.metrics)
    one = native()
    assert one.trajectory
    steps = tuple(msgspec.structs.replace(step, usage=Usage(0, 9, uncounted=1)) for step in one.trajectory.steps)
    part = document_of(
        native(trajectory=msgspec.structs.replace(one.trajectory, steps=steps, usage=Usage(9, 9, uncounted=1)))
    )
    assert part.final_metrics.total_prompt_tokens is None
    assert all(step.metrics.prompt_tokens is None for step in part.steps if step.metrics)


def test_a_summary_says_which_turns_it_stands_for() -> None:
    assert [step.extra for step in document_of(compressed()).steps][4] == {"summary_of": [2, 3]}


def test_files_are_named_after_keys_and_differ_for_different_keys() -> None:
    names = [file_name(key) for key in ("s|a/b|main|0|0", "s|a_b|main|0|0", "s|../x|main|0|0", "s|" + "é" * 300)]
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,140}\.json", name) for name in names)
    assert file_name("s|t|main|0|0").startswith("s_t_main_0_0-")


@pytest.fixture(scope="session")
def harbor_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter of its own, since Harbor needs Python 3.12 and other packages than ours."""
    venv = tmp_path_factory.mktemp("harbor")
    python = next(newer_pythons(), None)
    if python is None:
        pytest.skip("optional: Harbor's validator needs Python 3.12 or newer")
    subprocess.run([python, "-m", "venv", venv], check=True, capture_output=True)
    pip = [venv / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    for arguments in (["--no-deps", HARBOR], ["pydantic>=2.11"]):
        done = subprocess.run([*pip, *arguments], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"optional: no {HARBOR} to be had here: {done.stderr.strip().splitlines()[-1]}")
    return venv / "bin/python"


def newer_pythons() -> Iterator[str]:
    """Interpreters that really start; a version manager's shim may not."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python3.{minor}") for minor in (12, 13, 14)]
    candidates += [str(path) for path in sorted(pyenv.glob("3.1[2-9]*/bin/python3"))]
    for python in filter(None, candidates):
        done = subprocess.run(
            [python, "-c", "import sys, venv; print(sys.version_info >= (3, 12))"], capture_output=True
        )
        if done.stdout == b"True\n":
            yield python


@pytest.mark.long
def test_harbors_own_validator_finds_nothing(folder: Path, harbor_python: Path) -> None:
    validate = [harbor_python, "-m", "harbor.utils.trajectory_validator"]
    for path in folder.iterdir():
        done = subprocess.run([*validate, path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    path = next(folder.iterdir())
    broken = json.loads(path.read_text())
    broken["steps"][0]["step_id"] = 7
    path.write_text(json.dumps(broken))
    assert subprocess.run([*validate, path], capture_output=True).returncode == 1
