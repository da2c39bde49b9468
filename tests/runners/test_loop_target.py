"""`make loop` begins and resumes each of its steps by what is on the disk."""

import subprocess
from pathlib import Path

import pytest


def resumes(loop: Path, command: str) -> bool:
    """Whether the loop would have that command resume."""
    printed = subprocess.run(
        ["make", "--dry-run", "loop", f"LOOP={loop}"], capture_output=True, text=True, check=True
    ).stdout.replace("\\\n", "")
    (line,) = (line for line in printed.splitlines() if command in line)
    return "--resume" in line


@pytest.mark.parametrize(
    ("command", "killed_early", "begun"),
    [
        ("train sft", "adapters", "adapters/sft-v1"),
        ("train grpo", "rounds", "rounds/checkpoints/made_from.json"),
    ],
)
def test_a_training_is_resumed_once_it_has_begun(tmp_path: Path, command: str, killed_early: str, begun: str) -> None:
    assert not resumes(tmp_path, command)
    (tmp_path / killed_early).mkdir()
    assert not resumes(tmp_path, command), "a folder alone is no training"
    (tmp_path / begun).mkdir(parents=True)
    assert resumes(tmp_path, command)
