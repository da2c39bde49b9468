"""`hermes-lab train`: what it leaves on stdout."""

from pathlib import Path

import pytest

from hermes_lab.runners.cli import app
from hermes_lab.training import sft


def test_stdout_is_the_adapter_alone_whatever_libraries_print(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def noisy(*_: object) -> Path:
        print("[INFO] Running in WANDB offline mode")
        return tmp_path / "sft-v1"

    monkeypatch.setattr(sft, "train_sft", noisy)
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    made_from = ["-c", "configs/train/sft.yaml", "-c", f"data=[{tmp_path}/run]"]
    assert app(["train", "sft", *made_from], standalone_mode=False) in (None, 0)
    out, err = capfd.readouterr()
    assert out == f"{tmp_path}/sft-v1\n"
    assert "WANDB" in err
