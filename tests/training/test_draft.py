import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.training.checkpoint_manifest import SEAL
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.rounds import RoundTraining
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
    (newest.folder / "card.json").write_text("{}")
    assert TrainingRun.begin(config(tmp_path, resume=True), MADE_FROM).folder.name == "sft-v1"


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


def test_a_damaged_checkpoint_names_the_one_before_it(tmp_path: Path) -> None:
    training_run = TrainingRun.begin(config(tmp_path), MADE_FROM)
    for step in (5, 10, 15):
        checkpoint = training_run.checkpoints / f"checkpoint-{step}"
        checkpoint.mkdir()
        (checkpoint / "adapter_model.safetensors").write_bytes(b"1")
        training_run.write_manifest(step)
    shutil.copytree(checkpoint, training_run.checkpoints / "checkpoint-15.bak")
    assert training_run.last_checkpoint() == checkpoint
    for step in (10, 15):
        (training_run.checkpoints / f"checkpoint-{step}" / "adapter_model.safetensors").write_bytes(b"")
    told = f"was changed .*, or delete {checkpoint} to continue from checkpoint-5, which is whole$"
    with pytest.raises(ConfigError, match=told):
        training_run.last_checkpoint()
    of_a_round = RoundTraining(training_run.folder, "lock.yaml", training_run.checkpoints, {})
    with pytest.raises(ConfigError, match=r"was changed .*Start without resume$"):  # its round needs the newest
        of_a_round.last_checkpoint()


def test_the_files_of_a_checkpoint_are_on_disk_before_its_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training_run = TrainingRun.begin(config(tmp_path), MADE_FROM)
    checkpoint = training_run.checkpoints / "checkpoint-5"
    (checkpoint / "ref").mkdir(parents=True)
    made = {checkpoint / "optimizer.pt", checkpoint / "ref" / "adapter_model.safetensors"}
    for path in made:
        path.write_bytes(b"1")
    synced: set[int] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        if not (checkpoint / SEAL).exists():
            synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    training_run.write_manifest(5)
    assert (checkpoint / SEAL).exists()
    assert {path.stat().st_ino for path in (*made, checkpoint, checkpoint / "ref")} <= synced


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
