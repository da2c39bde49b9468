"""Folders of a user's own with the names of ours shadow nothing: from the editable install, and from a wheel."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("tasks", "envs", "analysis", "training", "configs", "runners")
MODEL = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:learner")
SUITE = ("-c", "suite.name=ledger", "-c", "sandbox.backend=local", "-c", "sandbox.allow_local=true")

GYM = """
import gymnasium
local = ("sandbox.backend=local", "sandbox.allow_local=true")
env = gymnasium.make("hermes_lab.envs:HermesLab/ledger-v0", config=local)
env.reset(seed=0)
env.close()
"""
LIBRARY = """
import hermes_lab as lab
run = lab.run("suite.name=ledger", "suite.count=1", "sandbox.backend=local", "sandbox.allow_local=true",
              {"model": {"provider": "scripted", "name": "tasks.learner:learner"}}, out="runs/api", progress=False)
assert run.complete, run
assert len(lab.load(run)) == 1
assert hermes_lab_file in lab.__file__, lab.__file__
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder in which importing any of our old import names would fail."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('shadowed')")
    return tmp_path


@pytest.fixture(scope="module", params=["editable", pytest.param("wheel", marks=pytest.mark.long)])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a process that uses the installed package."""
    if request.param == "editable":
        yield dict(os.environ) | {"EXPECTED": str(ROOT)}
        return
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True)
    yield dict(os.environ) | {"PYTHONPATH": str(target), "EXPECTED": str(target)}


def python(code: str, work: Path, env: dict[str, str]) -> None:
    """Runs code as a person would, with the working folder first on the path."""
    code = f"hermes_lab_file = {env['EXPECTED']!r}\n{code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=work, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def command(*args: str, work: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hermes_lab", *args], cwd=work, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_starts(work: Path, installed: dict[str, str]) -> None:
    code = """
import sys, typer
from hermes_lab.runners.cli import app
def names(command, path):
    subs = getattr(command, "commands", None)
    if subs is None:
        yield path
        return
    for name, sub in subs.items():
        yield from names(sub, [*path, name])
from typer.testing import CliRunner
for words in names(typer.main.get_command(app), []):
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, (words, result.output, result.exception)
"""
    python(code, work, installed)


def test_a_run_its_summary_and_its_report(work: Path, installed: dict[str, str]) -> None:
    command("run", *SUITE, *MODEL, "-c", "suite.count=2", "--out", "runs/a", "--quiet", work=work, env=installed)
    assert '"finished":2' in command("summary", "runs/a", "--json", work=work, env=installed)
    command("report", "runs/a", "--quiet", work=work, env=installed)
    assert "ledger" in command("tasks", "list", work=work, env=installed)


def test_gymnasium_finds_the_environments(work: Path, installed: dict[str, str]) -> None:
    python(GYM, work, installed)


def test_the_library(work: Path, installed: dict[str, str]) -> None:
    python(LIBRARY, work, installed)


def test_a_notebook(work: Path, installed: dict[str, str]) -> None:
    source = f"hermes_lab_file = {installed['EXPECTED']!r}\n{LIBRARY}"
    code = f"""
import nbformat
from nbclient import NotebookClient
cell = nbformat.v4.new_code_cell({source!r})
NotebookClient(nbformat.v4.new_notebook(cells=[cell]), timeout=120, kernel_name="python3").execute()
"""
    python(code, work, installed)


def test_a_ray_worker(work: Path, installed: dict[str, str]) -> None:
    pytest.importorskip("ray", reason="the extra [ray] is not installed")
    args = (*SUITE, *MODEL, "-c", "suite.count=2", "-c", "run.executor=ray", "--out", "runs/ray", "--quiet")
    command("run", *args, work=work, env=installed)
    assert '"finished":2' in command("summary", "runs/ray", "--json", work=work, env=installed)
