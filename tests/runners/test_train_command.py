"""`hermes-lab train`: what it leaves on stdout, and --resume."""

from pathlib import Path
from types import ModuleType

import pytest

from hermes_lab.runners.cli import app
from hermes_lab.training import grpo, preference, sft


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


@pytest.mark.parametrize(("method", "module"), [("sft", sft), ("preference", preference), ("grpo", grpo)])
def test_resume_is_an_option_of_every_training(
    method: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(module, f"train_{method}", lambda config, *_: begun.append(config.resume) or tmp_path)
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    made_from = f"out={tmp_path}/out" if method == "grpo" else f"data=[{tmp_path}/run]"
    command = ["train", method, "-c", f"configs/train/{method}.yaml", "-c", made_from]
    for more in ([], ["--resume"]):
        assert app([*command, *more], standalone_mode=False) in (None, 0)
    assert begun == [False, True]
