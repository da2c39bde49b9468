"""Trackers follow a run: with their real clients, offline, and without harm to the run when they fail."""

import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fakes.command import lab

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.records import read_episodes
from hermes_lab.runners import tracking

ONE_RULE = ("experiment", "-c", "configs/one-rule.yaml", "-c", "learning.arms=[off,on]", "-c", "learning.rounds=2")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tracker of the machine's own."""
    for name in [name for name in os.environ if name.startswith(("WANDB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)


class Recorder:
    """A tracker that keeps what it is told."""

    def __init__(self) -> None:
        self.started: Any = None
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.ended: dict[str, Any] = {}

    def open(self, start: Any) -> "Recorder":
        self.started = start
        return self

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.rows.append((step, dict(metrics)))

    def finish(self, summary: Mapping[str, float], verdict: str, report: Path | None, *, complete: bool) -> None:
        self.ended = {"summary": dict(summary), "verdict": verdict, "report": report, "complete": complete}


def track(monkeypatch: pytest.MonkeyPatch, *recorders: Any) -> None:
    names = ("wandb", "mlflow")
    monkeypatch.setattr(tracking, "openers", lambda: {n: r.open for n, r in zip(names, recorders, strict=False)})


def test_a_tracker_gets_the_configuration_the_progress_and_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Recorder()
    track(monkeypatch, seen)
    options = ["tracking.services=[wandb]", "tracking.every_seconds=0", "model.price.prompt=1", "tracking.name=mine"]
    run = tmp_path / "run"
    done = lab(*ONE_RULE, *(part for each in options for part in ("-c", each)), "--out", run)
    assert done.returncode == 0
    assert (seen.started.name, seen.started.project, seen.started.command) == ("mine", "hermes-lab", "learn")
    assert seen.started.config["suite"]["name"] == "ledger"
    assert [step for step, _ in seen.rows] == [1, 2, 3, 4, 4]
    _, last = seen.rows[-1]
    assert last["episodes/finished"] == last["episodes/wanted"] == 4
    assert (last["success/off"], last["success/on"]) == (0.0, 0.5)
    assert {"tokens", "cost", "uncounted_calls", "episodes/errored"} <= last.keys()
    assert seen.ended["complete"] is True
    assert seen.ended["verdict"].startswith("Skills: ")
    assert seen.ended["summary"]["final/finished"] == 4
    assert seen.ended["report"].read_text().startswith("<!doctype html>")


class Broken(Recorder):
    """A tracker that fails in one of its methods, or never returns from it."""

    def __init__(self, where: str, *, hangs: bool = False) -> None:
        super().__init__()
        self.where, self.hangs = where, hangs

    def _fail(self, where: str) -> None:
        if self.where == where and self.hangs:
            threading.Event().wait()
        if self.where == where:
            raise OSError("no such\nserver")

    def open(self, start: Any) -> "Recorder":
        self._fail("open")
        return self

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._fail("log")

    def finish(self, *args: Any, **more: Any) -> None:
        self._fail("finish")


@pytest.mark.parametrize("where", ["open", "log", "finish"])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_tracker_that_fails_or_hangs_costs_one_warning_and_nothing_else(
    where: str, hangs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "_PATIENCE", 1.0 if hangs else 60.0)
    other = Recorder()
    track(monkeypatch, Broken(where, hangs=hangs), other)
    services = ("-c", "tracking.services=[wandb, mlflow]", "-c", "tracking.every_seconds=0")
    done = lab(*ONE_RULE, *services, "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("tracking: ")]
    assert len(warnings) == 1
    said = (
        "wandb did not finish in 1 s, and may lack the last values; the run folder has everything"
        if hangs
        else "wandb failed, and the run goes on without it: OSError: no such server"
    )
    assert said in warnings[0]
    assert len(list(read_episodes(tmp_path / "run"))) == 4
    assert other.ended["complete"] is True


def test_a_client_that_is_not_installed_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wandb", "mlflow", "mlflow.entities", "mlflow.tracking"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    services = ("-c", "tracking.services=[wandb, mlflow]")
    done = lab(*ONE_RULE, *services, "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 0
    for name in ("wandb", "mlflow"):
        assert f"pip install 'hermes-lab[{name}]'" in done.stderr


def test_no_secret_reaches_a_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Recorder()
    track(monkeypatch, seen)
    options = ("-c", "tracking.services=[wandb]", "-c", "model.headers={Authorization: SECRET}")
    model = ("-c", "model.provider=openai", "-c", "model.name=m", "-c", "model.base_url=http://127.0.0.1:9/v1")
    done = lab(*ONE_RULE, *options, *model, "-c", "model.options={}", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 3  # no server there: what was tracked is an unfinished run
    assert seen.started.config["model"]["headers"] == {"Authorization": "***"}
    assert "SECRET" not in json.dumps(seen.started.config)
    assert seen.ended["complete"] is False


def test_trackers_are_no_part_of_what_a_run_is() -> None:
    assert config_digest(load_config(["tracking.services=[wandb]", "tracking.name=x"])) == config_digest(RunConfig())


def run_with(service: str, folder: Path) -> None:
    """One tracked experiment in this process."""
    done = lab(*ONE_RULE, "-c", f"tracking.services=[{service}]", "-c", "tracking.every_seconds=0", "--out", folder)
    assert done.returncode == 0
    assert "tracking: " not in done.stderr, done.stderr


@pytest.mark.filterwarnings("default")  # of the client
def test_wandb_keeps_an_offline_run_in_the_run_folder(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="optional: pip install 'hermes-lab[wandb]'")
    run_with("wandb", tmp_path / "run")
    wandb.teardown()  # its process writes the rest, as at the end of ours
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    content = file.read_bytes()
    for words in (b"success/on", b"episodes/finished", b"verdict", b"final/solved", b"report.html"):
        assert words in content, words


@pytest.mark.filterwarnings("default")  # of the client
def test_mlflow_keeps_a_run_in_the_run_folder(tmp_path: Path) -> None:
    client: ModuleType = pytest.importorskip("mlflow.tracking", reason="pip install 'hermes-lab[mlflow]'")
    run_with("mlflow", tmp_path / "run")
    store = client.MlflowClient(f"file:{tmp_path / 'run' / 'mlruns'}")
    experiment = store.get_experiment_by_name("hermes-lab")
    (kept,) = store.search_runs([experiment.experiment_id])
    assert kept.info.status == "FINISHED"
    assert kept.info.run_name == "run"
    assert kept.data.params["suite.name"] == "ledger"
    assert kept.data.tags["verdict"]
    assert kept.data.metrics["final/finished"] == 4
    steps = [row.step for row in store.get_metric_history(kept.info.run_id, "episodes/finished")]
    assert sorted(steps) == [1, 2, 3, 4, 4]
    assert [one.path for one in store.list_artifacts(kept.info.run_id)] == ["report.html"]
