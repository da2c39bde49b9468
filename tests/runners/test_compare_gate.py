"""`compare --fail-if worse --plot`, as a scheduled job calls it."""

import json
import shutil
from pathlib import Path

import pytest
from fakes.command import lab

SOLVES, FAILS = "fakes.tool_caller:tool_caller", "hermes_lab.tasks.learner:noop"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of 12 tasks: `good` solves all, `bad` none, and `unjudged` has tasks that are not scored; two twice."""
    folder = tmp_path_factory.mktemp("gate")
    rows = [{"prompt": f"Say {number}.", "expected_output": f"Say {number}."} for number in range(12)]
    runs = {"good": (SOLVES, rows), "bad": (FAILS, rows), "unjudged": (SOLVES, [{"prompt": "Say 1."}])}
    runs |= {f"{name}-again": runs[name] for name in ("good", "unjudged")}
    for name, (policy, tasks) in runs.items():
        suite = folder / ("tasks.jsonl" if tasks is rows else "unjudged.jsonl")
        suite.write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
        done = lab(
            *("run", "-c", f"suite.path={suite}", "-c", "model.provider=scripted", "-c", f"model.name={policy}"),
            *("--out", folder / name, "--quiet"),
        )
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("before", "after", "code", "told"),
    [
        ("good", "bad", 1, "worse: -100 points"),
        ("bad", "good", 0, "+100 points"),
        ("good", "good-again", 0, "no difference shown"),
    ],
)
def test_a_shown_fall_fails_and_the_picture_is_drawn_in_any_case(
    folder: Path, tmp_path: Path, before: str, after: str, code: int, told: str
) -> None:
    picture = tmp_path / "verdict.png"
    command = ("compare", folder / before, folder / after)
    done = lab(*command, "--fail-if", "worse", "--plot", picture)
    assert (done.returncode, told in done.stdout + done.stderr) == (code, True), done
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert lab(*command, "--fail-if", "worse", "--json").returncode == code
    assert lab(*command).returncode == 0


def test_a_comparison_that_measures_nothing_fails(folder: Path) -> None:
    done = lab("compare", folder / "unjudged", folder / "unjudged-again", "--fail-if", "worse")
    assert done.returncode == 2
    assert "none of 1 pairs was judged on both sides" in done.stderr


def test_json_has_the_warnings_of_both_runs(folder: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(folder / "good", cut)
    for path in (cut / "episodes").glob("*.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["started_at"] = "2027-01-01T00:00:00Z"
            row["trajectory"]["stop_reason"] = "length"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (warning,) = json.loads(lab("compare", folder / "bad", cut, "--json").stdout)["warnings"]
    assert warning.startswith(f"{cut}: 12 of 12 episodes (100 %) ended with a reply truncated at ")
    assert f"warning: {warning}\n" in lab("compare", folder / "bad", cut).stderr


def test_what_is_no_picture_is_refused_before_anything_is_read(folder: Path, tmp_path: Path) -> None:
    done = lab("compare", folder / "good", folder / "bad", "--plot", tmp_path / "verdict.gif")
    assert done.returncode == 2
    assert "verdict.gif: no picture format; give a file that ends in .png, .svg, .pdf" in done.stderr
