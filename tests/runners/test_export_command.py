"""`hermes-lab export` as a user calls it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from export_episodes import NATIVE, WELL_FORMED, decoded, errored, make_run, mixed, native
from fakes.command import lab
from fakes.episodes import episode

from hermes_lab.errors import ConfigError
from hermes_lab.records import read_episodes
from hermes_lab.runners.commands.export import export
from hermes_lab.runners.export.hermes import parse_row
from hermes_lab.runners.export.source import Source
from hermes_lab.types import Reward
from hermes_lab.types.episode import CHAT


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", *mixed())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_says_how_many_rows_it_wrote_and_what_it_left_out(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run.with_name("new") / "rows.jsonl"
    export(run, "openai", out)
    assert capsys.readouterr().err == f"6 rows in {out}; episodes left out: 1 errored\n"
    assert len(decoded(out)) == 6
    export(run, "openai", out, force=True, quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("format", ["hermes", "atif"])
def test_what_is_there_stays_unless_forced(run: Path, tmp_path: Path, format: Any) -> None:
    out = tmp_path / "out"
    export(run, format, out)
    before = contents(out)
    with pytest.raises(ConfigError, match=r"already exists.*--force"):
        export(make_run(tmp_path / "other", episode("t", started_at="2026-01-01")), format, out)
    assert contents(out) == before
    export(tmp_path / "other", format, out, force=True)
    assert contents(out) != before
    assert names(tmp_path) == ["other", "out", "run"]


def test_a_link_is_written_through(run: Path, tmp_path: Path) -> None:
    export(run, "atif", tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    export(run, "atif", tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path) == ["link", "real", "run"]


def contents(path: Path) -> object:
    return path.read_bytes() if path.is_file() else {file.name: file.read_bytes() for file in path.iterdir()}


def test_force_removes_nothing_but_an_export(run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").touch()
    tasks = mine / "tasks.jsonl"
    tasks.write_text('{"prompt": "Go."}\n')
    places = [(mine, "atif"), (mine, "openai"), (mine / "thesis.tex", "atif"), (tasks, "openai")]
    for out, format in (*places, (Path(os.devnull), "openai")):
        with pytest.raises(ConfigError, match=r"is not an export|not a file|not a folder"):
            export(run, format, out, force=True)  # type: ignore[arg-type]
    assert names(mine) == ["tasks.jsonl", "thesis.tex"]


@pytest.mark.parametrize("format", ["openai", "hermes", "sft", "preference", "groups", "tasks"])
def test_force_replaces_an_export_of_every_format(tmp_path: Path, format: Any) -> None:
    messages = NATIVE if format == "groups" else WELL_FORMED
    turn: dict[str, Any] = {"suite": CHAT} if format == "tasks" else {}
    good = native(messages=messages, **turn)
    worse = native(sample=1, score=0.0, success=False, reward=Reward(0.0, {"score": 0.0}), messages=messages)
    run, out = make_run(tmp_path / "run", good, worse), tmp_path / "rows.jsonl"
    export(run, format, out, consent=True)
    before = out.read_bytes()
    assert before
    export(run, "openai", out, force=True)
    assert out.read_bytes() != before or format == "openai"


@pytest.mark.parametrize(
    "row",
    [
        {"chosen": "Yes.", "rejected": "No."},
        {"prompt": "Go.", "chosen": [], "rejected": [], "metadata": {"chosen": "a"}},
        {"messages": [], "metadata": {"source": "web"}},
        {"messages": [], "metadata": None},
        {"conversations": [], "prompt_index": 3},
        {"id": "1", "prompt": "Go.", "judge": "It goes.", "metadata": {}},
        {"token_ids": [1], "advantages": [0.5]},
    ],
)
def test_force_keeps_other_data_sets_with_the_same_fields(run: Path, tmp_path: Path, row: dict[str, Any]) -> None:
    mine = tmp_path / "mine.jsonl"
    mine.write_text(json.dumps(row) + "\n")
    with pytest.raises(ConfigError, match="is not an export"):
        export(run, "openai", mine, force=True)
    assert json.loads(mine.read_text()) == row


def test_the_runs_own_log_is_out_of_reach(run: Path) -> None:
    for name in ("w0-0.jsonl", "w0-9.jsonl"):
        with pytest.raises(ConfigError, match="own log"):
            export(run, "openai", run / "episodes" / name, force=True)
    assert len(list(read_episodes(run))) == 7


@pytest.mark.parametrize("format", ["hermes", "atif", "hf"])
def test_an_export_that_fails_half_way_leaves_what_was_there_and_nothing_else(
    run: Path, tmp_path: Path, format: Any
) -> None:
    out = tmp_path / "out"
    export(run, format, out)
    before = contents(out)
    with next((run / "episodes").iterdir()).open("a") as log:
        log.write('{"suite": "s", "task_id": "t", "lane": "l", "round": 0, "sample": 0}\n')
    for target in (out, tmp_path / "second"):
        with pytest.raises(ConfigError, match="not an episode"):
            export(run, format, target, force=True)
    assert contents(out) == before
    assert names(tmp_path) == ["out", "run"]


def test_a_folder_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    done = lab("export", tmp_path, "--format", "openai", "-o", tmp_path / "rows.jsonl")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no run here" in done.stderr
    assert names(tmp_path) == []


def test_standard_output_takes_rows_but_no_folder(run: Path) -> None:
    done = lab("export", run, "--format", "hermes", "-o", "-")
    assert done.returncode == 0
    assert [parse_row(json.loads(line)) != [] for line in done.stdout.split("\n") if line] == [True] * 6
    assert done.stderr == "6 rows in standard output; episodes left out: 1 errored\n"
    with pytest.raises(ConfigError, match="give one"):
        export(run, "hf", Path("-"))


@pytest.mark.parametrize("tool_format", ["native", "hermes"])
def test_episodes_of_a_real_run_go_through_every_format(tmp_path: Path, tool_format: str) -> None:
    run = tmp_path / "run"
    made = lab(
        *("run", "-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:learner", "--quiet"),
        *("-c", "agent.toolsets=[terminal,skills]", "-c", f"agent.tool_format={tool_format}"),
        *("-c", "suite.name=ledger", "-c", "suite.count=2", "-c", "run.samples=2", "--out", run),
    )
    assert made.returncode == 0, made.stderr
    done = lab("export", run, "--format", "atif", "-o", tmp_path / "atif")
    assert (done.returncode, done.stderr) == (0, f"4 rows in {tmp_path / 'atif'}\n")
    for format in ("openai", "hermes", "sft", "preference", "hf"):
        export(run, format, tmp_path / format)  # type: ignore[arg-type]
    finished = {one.episode.key: one.trajectory for one in Source(run).finished()}
    openai = decoded(tmp_path / "openai")
    assert {row["metadata"]["episode"] for row in openai} == set(finished)
    for row in openai:
        sent = [(m.role, m.content) for m in finished[row["metadata"]["episode"]].messages]
        assert [(m["role"], m["content"]) for m in row["messages"]] == sent
        assert bool(row["tools"]) == (tool_format == "native")
    for row in decoded(tmp_path / "hermes"):
        told = finished[row["metadata"]["episode"]]
        read = parse_row(row)
        assert [(m.role, m.content, m.tool_calls, m.reasoning) for m in read] == [
            (m.role, m.content, m.tool_calls, m.reasoning) for m in told.messages
        ]
        assert row["toolsets_used"] == ["terminal", "skills"]
    assert len(names(tmp_path / "atif")) == len(finished) + 1
    assert names(tmp_path / "hf")[1:] == ["README.md", "train.parquet"]


def test_an_export_without_rows_is_an_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(make_run(tmp_path / "run", errored(), native()), "preference", tmp_path / "pairs.jsonl")
    assert (tmp_path / "pairs.jsonl").read_bytes() == b""
    assert "0 rows" in capsys.readouterr().err
