"""`make docs` in a fresh clone."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def planned(folder: Path) -> str:
    """What `make docs` would do there."""
    return subprocess.run(["make", "-n", "docs"], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_site_needs_neither_torch_nor_vllm_and_uses_the_environment_of_make_setup(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt", "Makefile"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    said = planned(tmp_path)
    assert "-m venv .venv-docs" in said
    assert ".venv-docs/bin/mkdocs build --strict" in said
    assert "-e " not in said
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "ready").touch()
    said = planned(tmp_path)
    assert "pip" not in said
    assert ".venv/bin/mkdocs build --strict" in said
