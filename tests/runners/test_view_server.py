"""The requests of the page of `hermes-lab view`: what they tell of a run that grows, and who may ask."""

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import pytest
from fakes.command import lab
from fakes.episodes import episode
from view_runs import add, in_progress, lesson, make_run, serving, set_running

from hermes_lab.analysis.plots.palette import ARMS
from hermes_lab.analysis.report import charts
from hermes_lab.errors import ConfigError
from hermes_lab.runners.view import page
from hermes_lab.runners.view.run_reader import RunReader
from hermes_lab.runners.view.runs import Runs
from hermes_lab.types import EpisodeError


def read_all(folder: Path) -> RunReader:
    reader = RunReader(folder)
    reader.refresh(time.monotonic() + 60)
    return reader


def again(reader: RunReader) -> None:
    reader.refresh(time.monotonic() + 60)


def test_only_new_lines_are_read_and_a_later_record_supersedes(tmp_path: Path) -> None:
    failed = episode("t", status="errored", error=EpisodeError("model", "down"), success=None, trajectory=None)
    run = make_run(tmp_path / "run", [failed, episode("u", success=True)])
    reader = read_all(run)
    rows, changes = reader.changes(0)
    assert [(row[0], row[2], row[10]) for row in rows] == [(0, "t", "errored"), (1, "u", "solved")]
    add(run, episode("t", success=False))
    again(reader)
    rows, more = reader.changes(changes)
    assert [(row[0], row[2], row[10]) for row in rows] == [(0, "t", "solved after feedback")]
    assert reader.changes(more) == ([], more)
    assert reader.counts() == {"solved": 1, "solved after feedback": 1}
    found = reader.transcript(0)
    assert found
    assert "error" not in found


def test_a_line_that_is_not_whole_waits_and_a_damaged_one_is_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [episode("a")])
    line = msgspec.json.encode(episode("b")) + b"\n"
    with (run / "episodes" / "w0-0.jsonl").open("ab") as file:
        file.write(b'{"damaged": \n\xff\xff\n[[[\n' + line[:50])
    reader = read_all(run)
    assert (len(reader.changes(0)[0]), reader.damaged) == (1, 3)
    with (run / "episodes" / "w0-0.jsonl").open("ab") as file:
        file.write(line[50:])
    again(reader)
    assert (len(reader.changes(0)[0]), reader.damaged) == (2, 3)
    assert reader.transcript(1)


def test_a_run_that_began_anew_is_read_anew(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [episode("a"), episode("b")])
    reader = read_all(run)
    before = reader.begun
    (run / "episodes" / "w0-0.jsonl").unlink()
    add(run, episode("c"))
    again(reader)
    assert reader.begun != before
    assert [row[2] for row in reader.changes(0)[0]] == ["c"]


def test_curves_count_each_episode_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [lesson(n, "on", n > 3) for n in range(30)])
    add(run, lesson(0, "on", True))
    points = read_all(run).curves()["on"]
    assert len(points) <= 12
    assert sum(trials for _, _, trials, _, _ in points) == 30
    assert sum(solved for _, solved, _, _, _ in points) == 27
    assert all(low <= solved / trials <= high for _, solved, trials, low, high in points)


def test_search_goes_through_the_texts_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", [lesson(n, "on", True) for n in range(5)])
    reader = read_all(run)
    assert reader.search("WORD3", 0) == ([3], 5)
    monkeypatch.setattr("hermes_lab.runners.view.run_reader.SLICE", 0.0)
    assert reader.search("word3", 0) == ([], 1)
    assert reader.search("word3", 3) == ([3], 4)
    assert reader.search("word3", 5) == ([], 5)


def test_what_a_killed_process_ran_is_stopped(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", wanted=3)
    reader = read_all(run)
    assert reader.running() == ([], "")
    set_running(run, in_progress("a", "model", 3), in_progress("b", "command", 9))
    episodes, state = reader.running()
    assert ([one.task for one in episodes], state) == (["b", "a"], "running")
    set_running(run, in_progress("a", "model", 3), begun="1")
    assert reader.running()[1] == "stopped"
    set_running(run, in_progress("a", "model", 3), at=time.time() - 3600)
    assert reader.running()[1] == "stopped"


def test_runs_are_found_below_a_folder_also_later_but_not_inside_of_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "study" / "part" / "run", [episode("a")], wanted=2)
    make_run(tmp_path / "study" / "part" / "run" / "inside")
    runs = Runs(tmp_path)
    assert [(row["name"], row["state"], row["finished"]) for row in runs.table()] == [
        ("study/part/run", "incomplete", 1)
    ]
    make_run(tmp_path / "done", [episode("a")])
    runs._looked = float("-inf")
    assert {row["name"]: row["state"] for row in runs.table()} == {"study/part/run": "incomplete", "done": "finished"}
    assert [row["name"] for row in Runs(tmp_path / "done").table()] == ["done"]
    with pytest.raises(ConfigError, match="no such folder"):
        Runs(tmp_path / "absent")


def test_a_broken_manifest_hides_no_episodes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [episode("a")])
    (run / "run.json").write_text("{")
    (row,) = Runs(tmp_path).table()
    assert (row["finished"], row["wanted"]) == (1, 0)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    run = make_run(tmp_path / "run", [lesson(n, "on", True) for n in range(3)])
    set_running(run, in_progress("waits", "model", 37, "I think."))
    with serving(tmp_path) as address:
        yield address


def get(url: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read(), dict(refused.headers)


def told(url: str) -> Any:
    status, body, _ = get(url)
    assert status == 200
    return msgspec.json.decode(body)


def test_the_page_is_told_what_is_new(address: str) -> None:
    first = told(f"{address}api/now?run=run&from=0&begun=")
    assert [run["name"] for run in first["runs"]] == ["run"]
    assert len(first["run"]["rows"]) == first["run"]["next"] == 3
    assert [row[:2] for row in first["run"]["running"]] == [["made-up|waits|on-r0-w0|0|0", "model"]]
    (curve,) = first["run"]["curves"]
    assert (curve["arm"], curve["colour"], curve["dashes"]) == ("on", charts.colour(ARMS["skills on"]), "")
    assert f".{curve['colour']} {{" in page.style()
    assert curve["points"]
    later = told(f"{address}api/now?run=run&from=3&begun={first['run']['begun']}")
    assert later["run"]["rows"] == []
    assert not later["run"]["fresh"]
    assert told(f"{address}api/transcript?run=run&n=1")["key"] == "made-up|t1|on-r0-w0|1|0"
    assert told(f"{address}api/transcript?run=run&n=99") is None
    live = told(f"{address}api/transcript?run=run&key={quote('made-up|waits|on-r0-w0|0|0')}")
    assert live["items"] == [{"kind": "assistant", "text": "I think."}]
    assert told(f"{address}api/search?run=run&q=word2&from=0") == {"hits": [2], "searched": 3}


@pytest.mark.parametrize(
    "path", ["", "view.js", "api/now", "api/transcript?run=run&n=0", "api/search?run=run&q=a", "absent"]
)
@pytest.mark.parametrize("token", ["", "wrong/", "%00/", "ü/"])
def test_nothing_is_told_without_the_token(address: str, path: str, token: str) -> None:
    base = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
    status, body, headers = get(base + quote(token, safe="/%") + path)
    assert status == 403
    assert body == b"403: open the address that hermes-lab view printed"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", ""])
def test_another_host_name_is_refused(address: str, host: str) -> None:
    port = urlsplit(address).port
    assert get(f"{address}api/now", Host=host.format(port=port))[0] == 403
    assert get(f"{address}api/now", Host=f"localhost:{port}")[0] == 200


def test_only_this_machine_is_served(address: str) -> None:
    port = urlsplit(address).port
    assert urlsplit(address).hostname == "127.0.0.1"
    own = socket.gethostbyname(socket.gethostname())
    if not own.startswith("127."):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((own, port), timeout=5)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.parametrize("path", ["", "api/now", "absent"])
def test_every_answer_has_the_policy_and_no_leave_for_others(address: str, path: str) -> None:
    _, _, headers = get(address + path, Origin="https://evil.example")
    assert headers["Content-Security-Policy"] == page.POLICY
    assert "unsafe" not in page.POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    ("query", "status"),
    [("transcript?run=run&n=-1", 400), ("transcript?run=run&n=x", 400), ("transcript?run=../run&n=0", 404)],
)
def test_a_request_for_what_is_not_there_is_refused(address: str, query: str, status: int) -> None:
    assert get(f"{address}api/{query}")[0] == status


def test_nothing_can_be_changed(address: str) -> None:
    for method in ("POST", "PUT", "DELETE"):
        request = urllib.request.Request(f"{address}api/now", method=method, data=b"")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(request)


def test_a_taken_port_and_a_missing_folder_are_said_in_one_line(tmp_path: Path, address: str) -> None:
    port = urlsplit(address).port
    taken = lab("view", tmp_path, "--no-open", "--port", str(port))
    assert taken.returncode == 2
    assert f"--port: {port} cannot be used" in taken.stderr
    missing = lab("view", tmp_path / "absent", "--no-open")
    assert missing.returncode == 2
    assert "no such folder" in missing.stderr


def test_other_commands_do_not_see_what_runs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [lesson(n, "on", True) for n in range(3)])
    before = lab("summary", run, "--json").stdout
    set_running(run, in_progress("waits", "model", 37))
    assert lab("summary", run, "--json").stdout == before
    done = lab("export", run, "--format", "openai", "-o", tmp_path / "rows.jsonl")
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 3
