"""Run folders as a command is given them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from synthetic_episodes import make_episode

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.runs import open_runs, refuse_copies
from hermes_lab.analysis.data.series import clusters_of
from hermes_lab.errors import ConfigError
from hermes_lab.types import EpisodeError

WriteRun = Callable[..., Path]


def test_a_whole_run_is_opened_without_a_warning(write_run: WriteRun) -> None:
    (run,) = open_runs(write_run([make_episode(True), make_episode(None, task=1)], wanted=2))
    assert (run.finished, run.errored, run.pending, run.warning()) == (2, 0, 0, "")


def test_a_run_that_is_still_going_says_how_far_it_is(write_run: WriteRun) -> None:
    lost = make_episode(None, task=1, status="errored", error=EpisodeError("model", "down"))
    (run,) = open_runs(write_run([make_episode(True), lost], wanted=5))
    assert "1 of 5 episodes finished, 1 errored; the run is in progress or was interrupted" in run.warning()
    assert run.pending == 4


def test_an_errored_episode_that_was_run_again_is_not_errored(write_run: WriteRun) -> None:
    lost = make_episode(None, status="errored", error=EpisodeError("model", "down"))
    (run,) = open_runs(write_run([lost, make_episode(True)], wanted=1))
    assert (run.finished, run.errored) == (1, 0)


def test_a_run_without_an_episode_is_named(write_run: WriteRun) -> None:
    with pytest.raises(ConfigError, match="none of 7 episodes has finished yet"):
        open_runs(write_run([], wanted=7))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, r"no run here \(no such folder\)"),
        (lambda path: path.write_text("hi"), r"no run here \(not a folder\)"),
        (lambda path: path.mkdir(), r"no run here \(no run.json\)"),
    ],
)
def test_a_path_that_is_no_run_is_named(tmp_path: Path, make: Callable[[Path], object], says: str) -> None:
    make(tmp_path / "x")
    with pytest.raises(ConfigError, match=says):
        open_runs(tmp_path / "x")


def test_the_same_run_is_not_counted_twice(write_run: WriteRun) -> None:
    run = write_run([make_episode(True)])
    with pytest.raises(ConfigError, match="given twice"):
        open_runs(run, run.parent / "." / run.name)
    with pytest.raises(ConfigError, match="give a run folder"):
        open_runs()


def test_a_copy_of_a_run_beside_it_is_refused(tmp_path: Path, write_run: WriteRun) -> None:
    """Its episodes would count twice."""
    run = write_run([make_episode(True)])
    copied = shutil.copytree(run, tmp_path / "copied")
    with pytest.raises(ConfigError, match=r"copied: a copy of .*, since it has the same episodes; leave one out"):
        open_runs(run, copied)


def test_another_seed_over_the_same_worlds_has_no_new_worlds() -> None:
    """The world's number draws its rules; the seed only its tasks."""
    rows = [
        {"run": run, "lane": f"on-r0-w{world}", "world": world, "suite": "s", "weights": 0}
        for run in "ab"
        for world in range(5)
    ]
    assert clusters_of(pd.DataFrame(rows)).over == "10 lanes of 5 worlds"
    others = [row | {"suite": row["run"]} for row in rows]
    assert clusters_of(pd.DataFrame(others)).over == "10 lanes"


def test_two_runs_without_a_finished_line_are_no_copies(tmp_path: Path) -> None:
    """A killed run may leave an empty file."""
    runs = [tmp_path / name for name in "ab"]
    for run in runs:
        (run / "episodes").mkdir(parents=True)
        (run / "episodes" / "w0-0.jsonl").touch()
    refuse_copies(runs)
    with pytest.raises(ConfigError, match="the same run is given twice"):
        refuse_copies([runs[0], runs[0]])


def test_worlds_of_runs_are_those_of_the_suite_and_not_their_numbers_in_each_run(write_run: WriteRun) -> None:
    episodes = [make_episode(True, lane=f"on-r{r}-w{w}") for r in range(2) for w in range(5)]
    first, second = write_run(episodes, "first"), write_run(episodes, "second", world=3)
    assert clusters_of(load_episodes(first, second)).over == "8 worlds"
    blocks = write_run(episodes, "blocks", world=1, config={"learning": {"blocks": 2, "rounds": 4}})
    assert sorted(set(load_episodes(blocks)["world"])) == [1, 3, 5, 7, 9]
