import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.training_run import TrainingRun

MADE_FROM = {"lock": "l", "data": "d"}


def config(tmp_path: Path, **fields: Any) -> TrainConfig:
    (tmp_path / "run" / "episodes").mkdir(parents=True, exist_ok=True)
    data = (str(tmp_path / "run"),)
    return TrainConfig(lock="lock.yaml", data=data, adapters=str(tmp_path / "adapters"), **fields)


def test_resume_finds_the_newest_unfinished_version(tmp_path: Path) -> None:
    TrainingRun.begin(config(tmp_path), MADE_FROM)
    newest = TrainingRun.begin(config(tmp_path), MADE_FROM)
    assert newest.folder.name == "sft-v2"
    assert TrainingRun.begin(config(tmp_path, resume=True), MADE_FROM).folder == newest.folder


def test_resume_with_other_data_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    TrainingRun.begin(config(tmp_path), MADE_FROM)
    with pytest.raises(ConfigError, match="started with another data"):
        TrainingRun.begin(config(tmp_path, resume=True), MADE_FROM | {"data": "other"})


def test_resume_begins_a_version_that_was_killed_when_it_had_its_name_only(tmp_path: Path) -> None:
    training_run = TrainingRun.begin(config(tmp_path), MADE_FROM)
    shutil.rmtree(training_run.checkpoints)
    again = TrainingRun.begin(config(tmp_path, resume=True), MADE_FROM)
    assert (again.folder, again.made_from()) == (training_run.folder, MADE_FROM)
    again.metrics.touch()
    shutil.rmtree(training_run.checkpoints)
    with pytest.raises(ConfigError, match="never started; start without resume"):
        TrainingRun.begin(config(tmp_path, resume=True), MADE_FROM)


def test_resume_without_an_unfinished_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="finished, or there is none"):
        TrainingRun.begin(config(tmp_path, resume=True), MADE_FROM)
    done = TrainingRun.begin(config(tmp_path), MADE_FROM)
    (done.folder / "card.json").write_text("{}")
    with pytest.raises(ConfigError, match="finished, or there is none"):
        TrainingRun.begin(config(tmp_path, resume=True), MADE_FROM)


def test_a_torn_checkpoint_is_passed_over(tmp_path: Path) -> None:
    training_run = TrainingRun.begin(config(tmp_path), MADE_FROM)
    assert training_run.last_checkpoint() is None
    for step in (5, 10, 15):
        (training_run.checkpoints / f"checkpoint-{step}").mkdir()
        (training_run.checkpoints / f"checkpoint-{step}" / "adapter_model.safetensors").write_bytes(b"")
        (training_run.checkpoints / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    for step in (5, 10):
        training_run.write_manifest(step)
    assert training_run.last_checkpoint() == training_run.checkpoints / "checkpoint-10"


def test_metrics_of_steps_that_are_made_again_are_dropped(tmp_path: Path) -> None:
    training_run = TrainingRun.begin(config(tmp_path), MADE_FROM)
    for step in (1, 2, 3):
        training_run.log({"step": step, "loss": 0.5})
    with training_run.metrics.open("a") as file:
        file.write('{"step": 4, "lo')  # torn by a kill
    training_run.rewind(training_run.checkpoints / "checkpoint-2")
    assert [json.loads(line)["step"] for line in training_run.metrics.read_text().splitlines()] == [1, 2]
    training_run.rewind(None)
    assert training_run.rows() == []
