"""`hermes-lab update` installs this package itself, from this repository, and its program works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from update_kills import RealLab

ROOT = Path(__file__).parents[2]
TASK = '{"prompt": "Do nothing.", "verify": "true"}'


def test_a_release_of_the_real_package_has_the_version_that_the_build_reads(tmp_path: Path) -> None:
    """What `update_kills.py --real` updates to."""
    lab = RealLab(tmp_path, tmp_path / "wheels")
    for version in ("9.8.7", "9.8.8"):
        lab.release(version)
        show = ["git", "-C", str(lab.repository), "show", "HEAD:hermes_lab/__init__.py"]
        text = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        assert text.count(f'__version__ = "{version}"\n') == 1


@pytest.mark.long
def test_the_real_package_is_installed_and_runs_without_the_checkout(tmp_path: Path) -> None:
    at, home = tmp_path / "at", tmp_path / "home"
    # What is never loaded is not compiled, which takes as long as all the rest.
    environment = {**os.environ, "HERMES_HOME": str(home), "PIP_NO_COMPILE": "1"}
    command = [sys.executable, "-m", "hermes_lab", "update", "--at", str(at), "--from", str(ROOT), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + (home / "logs" / "update.log").read_text()[-3000:]
    version = json.loads(done.stdout)["version"]
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert version["commit"] == head.stdout.strip()
    plain = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    (tmp_path / "tasks.jsonl").write_text(TASK)
    model = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop")
    ran = subprocess.run(
        [str(at / "bin" / "hermes-lab"), "run", "-c", "suite.path=tasks.jsonl", *model, "--out", "runs/a"],
        cwd=tmp_path,
        env=plain,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    # No checkout is there to ask.
    assert json.loads((tmp_path / "runs" / "a" / "run.json").read_text())["versions"]["commit"] == version["commit"]
    for program in ((at / "bin" / "hermes-lab",), (at / "current" / "bin" / "python", "-m", "hermes_lab")):
        command = [*map(str, program), "update", "--rollback"]
        refused = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True)
        assert "has no version before" in refused.stderr  # it knows the installation that it belongs to
