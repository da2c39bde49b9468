"""Modules of this environment are never taken from the current folder, where an agent may have written them."""

import re
import subprocess
from pathlib import Path

import yaml

from hermes_lab.processes import python_module

ROOT = Path(__file__).parents[2]
SOURCES = ("hermes_lab", "envs", "tasks", "runners", "training", "analysis")
UNSAFE = re.compile(r'(?:executable|base|python|"bin" / "python"), "-[mc]"')
"""An interpreter that is started without `-P` or `-I`."""


def test_a_module_of_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    for name in ("msgspec", "hermes_lab", "typer"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('from the current folder')\n")
    done = subprocess.run(python_module("hermes_lab", "--version"), cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_code_starts_an_interpreter_that_would() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for folder in SOURCES
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "notebooks" not in path.parts
        for match in UNSAFE.finditer(re.sub(r"(?m)^\s*#.*$", "", path.read_text()))
    ]
    assert found == []


def test_nor_do_the_containers() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"python[\", ]+-m hermes", text) == []
    assert re.search(r'CMD \["python", "-P"', text)
    lab = yaml.safe_load((ROOT / "docker-compose.lab.yml").read_text())["services"]["lab"]
    assert lab["entrypoint"][:3] == ["python", "-P", "-m"]
