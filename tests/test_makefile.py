"""Cleaning up deletes what can be built again, and no results."""

import shutil
import subprocess
from pathlib import Path

import pytest

MADE = ("build/site/index.html", "dist/SHA256SUMS", ".mypy_cache/x", "tasks/__pycache__/x.pyc")
ENVIRONMENTS = (".venv/bin/python", ".venv-dist/bin/python", ".venv-gpu/bin/python")
KEPT = ("runs/demo/run.json", "runs/demo/__pycache__/x.pyc", "tasks/suite.py")


@pytest.mark.parametrize(
    ("target", "gone", "kept"),
    [("clean", MADE, (*ENVIRONMENTS, *KEPT)), ("distclean", (*MADE, *ENVIRONMENTS), KEPT)],
)
def test_cleaning_deletes_what_was_built_and_no_runs(
    target: str, gone: tuple[str, ...], kept: tuple[str, ...], tmp_path: Path
) -> None:
    for name in (*gone, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    shutil.copy(Path(__file__).parents[1] / "Makefile", tmp_path)

    subprocess.run(["make", "--silent", target], cwd=tmp_path, check=True)

    assert [name for name in kept if not (tmp_path / name).exists()] == []
    assert [name for name in gone if (tmp_path / name).exists()] == []
