"""`tests/gpu_check.py FOLDER`: its commands, its figures, and what it may remove. No GPU is used."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gpu_check
import pytest
from fakes.episodes import record, write_run
from gpu_check import Check, Failed, Gpu, main, remove_earlier, solved_with_rules, speed, tokens_of_step

from hermes_lab.types import Episode

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/docs"))

from code_blocks import up_to_the_wire  # noqa: E402

GPU = Gpu("NVIDIA H200", 150.1)
STEPS = [
    {"step": 1, "loss": 2.0, "seconds": 9.0, "gpu_gb": 3.5},
    {"step": 2, "loss": 1.5, "seconds": 0.5, "gpu_gb": 4.5},
    {"step": 3, "loss": 1.0, "seconds": 0.7, "gpu_gb": 4.0},
]
PLAN = "sft under a.yaml, on a GPU\n  steps     3, each 16 rows, on average 1,200 tokens; 900 tokens run\n"
TRAININGS = [name for method in ("sft", "grpo", "preference") for name in (f"plan {method}", f"train {method}")]


def adapter(folder: Path, **first: float) -> Path:
    """The metrics of a training; `first` are more fields of its first step."""
    folder.mkdir(parents=True)
    rows = [STEPS[0] | first, *STEPS[1:]]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def heldout(folder: Path, oracle: str, other: str = "") -> Path:
    """A run whose tasks were solved (`+`) or not (`-`), by arm."""
    lanes = (("oracle-r0-w0", oracle), ("off-r0-w0", other))
    return write_run(folder, *(solved(lane, n, each == "+") for lane, told in lanes for n, each in enumerate(told)))


def solved(lane: str, place: int, success: bool) -> Episode:
    return record(lane=lane, task_id=f"t{place}", place=place, score=float(success), success=success)


class Rehearsal(Check):
    """Each command is checked up to its configuration, and leaves what the next ones read."""

    heldout = "++-"

    def lab(self, name: str, *arguments: str) -> str:
        up_to_the_wire(["hermes-lab", *arguments])
        self.measured.setdefault("ran", []).append(name)
        if name == "held-out":
            heldout(self.folder / "heldout", self.heldout)
        if not name.startswith("train"):
            return PLAN
        first = {"mismatch": 0.001} if name == "train grpo" else {}
        return f"step 1\n{adapter(self.folder / name.replace(' ', '-'), **first)}\n"


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of the GPU's vLLM, which is not installed beside that of the CPU."""
    monkeypatch.setattr(gpu_check, "versions", dict)


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return lambda *given: monkeypatch.setattr(sys, "argv", ["gpu_check.py", *map(str, given)])


@pytest.mark.parametrize(
    ("nvidia_smi", "reason"),
    [
        (None, "no NVIDIA GPU was found (there is no nvidia-smi)"),
        ("/usr/bin/nvidia-smi", "does not see a GPU: install the CUDA build, `pip install -e '.[train,serve]'`"),
    ],
)
def test_without_a_gpu_it_says_why_and_leaves_the_folder_alone(
    nvidia_smi: str | None,
    reason: str,
    tmp_path: Path,
    arguments: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda _: nvidia_smi)
    (tmp_path / "demonstrations.log").write_text("of an earlier check")
    arguments(tmp_path)
    assert main() == 0
    told = capsys.readouterr()
    assert told.out.startswith("gpu-check: skipped: ")
    assert told.out.endswith(f"{reason}\n")
    assert (tmp_path / "demonstrations.log").exists()


def test_make_gpu_check_without_a_gpu_installs_nothing(tmp_path: Path) -> None:
    for name in ("make", "sh", "bash"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        ["make", "--silent", "-C", str(ROOT), "gpu-check"],
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "gpu-check: skipped: nvidia-smi finds no NVIDIA GPU\n"


def test_the_commands_are_valid_and_their_figures_are_kept(
    tmp_path: Path, arguments: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "Check", Rehearsal)
    monkeypatch.setattr(gpu_check, "find_gpu", lambda: GPU)
    arguments(tmp_path / "made")
    assert main() == 0
    report = json.loads((tmp_path / "made/report.json").read_text())
    assert report["ran"] == ["demonstrations", *TRAININGS, "held-out"]
    assert (report["gpu"], report["gpu_memory"]) == GPU
    assert report["sft"]["tokens_per_second"] == report["preference"]["tokens_per_second"] == 2000
    assert report["grpo"]["mismatch"] == 0.001
    assert "tokens_per_second" not in report["grpo"]
    assert report["heldout"] == "2 of 3 held-out tasks solved with the true rules as skills"
    printed = capsys.readouterr().out
    assert printed.startswith("NVIDIA H200, 150 GB\n")
    assert "measured  steps 3, seconds_per_step 0.6, gpu_gb 4.5, loss 1.0, tokens_per_second 2000\n" in printed


def test_an_adapter_that_the_server_does_not_apply_fails_the_check(
    tmp_path: Path, arguments: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "Check", Rehearsal)
    monkeypatch.setattr(Rehearsal, "heldout", "+--")
    monkeypatch.setattr(gpu_check, "find_gpu", lambda: GPU)
    arguments(tmp_path / "made")
    assert main() == 1
    assert "1 of 3 held-out tasks solved with the true rules as skills: vLLM does not" in capsys.readouterr().out
    assert not (tmp_path / "made/report.json").exists()


def test_a_command_that_fails_ends_the_check_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=rf"(?s)No such command.*exit code 2; see {tmp_path}/plan-it.log$"):
        Check(tmp_path, GPU).lab("plan it", "no-such-command")


def test_speed_leaves_out_the_first_step(tmp_path: Path) -> None:
    assert speed(adapter(tmp_path / "a")) == {"steps": 3, "seconds_per_step": 0.6, "gpu_gb": 4.5, "loss": 1.0}
    assert speed(adapter(tmp_path / "b", mismatch=0.002))["mismatch"] == 0.002


@pytest.mark.parametrize(("oracle", "off"), [("+---", "++++"), ("", "++++"), ("", "")])
def test_less_than_half_solved_with_the_rules_fails(tmp_path: Path, oracle: str, off: str) -> None:
    run = heldout(tmp_path, oracle, off)
    with pytest.raises(Failed, match=rf"^{oracle.count('+')} of {len(oracle)} held-out tasks .*; see {run}$"):
        solved_with_rules(run)


def test_half_solved_with_the_rules_is_enough(tmp_path: Path) -> None:
    told = solved_with_rules(heldout(tmp_path, "+-+-", "----"))
    assert told == "2 of 4 held-out tasks solved with the true rules as skills"


def test_a_plan_without_tokens_is_said() -> None:
    assert tokens_of_step(PLAN) == 1200
    with pytest.raises(Failed, match="the plan does not say how many tokens a step has:\na plan"):
        tokens_of_step("a plan")


def test_only_an_empty_folder_or_that_of_an_earlier_check_is_removed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    assert not remove_earlier(mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    assert not remove_earlier(mine / "thesis.txt")
    for name in ("empty", "earlier"):
        (tmp_path / name).mkdir()
    (tmp_path / "earlier" / "demonstrations.log").write_text("")
    assert remove_earlier(tmp_path / "empty")
    assert remove_earlier(tmp_path / "earlier")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]
