"""The Python environment of the sandboxes: `suite.options.python`."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest
from harbor_shapes import by_status, write_task

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks.adapters.harbor.check import check_tasks
from hermes_lab.tasks.adapters.harbor.machine import SYSTEM_PYTHON
from hermes_lab.tasks.adapters.harbor.suite import HarborSuite


@pytest.fixture
def environment() -> Iterator[Path]:
    """A virtual environment that every user can reach, with a package `own-package`."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        done = subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(folder / "venv")], check=False)
        if done.returncode:
            pytest.skip("optional: this machine's Python has no venv")
        (site,) = (folder / "venv/lib").glob("python3*/site-packages")
        (site / "own_package.py").write_text("WORD = 'right'\n")
        (site / "own_package-1.2.dist-info").mkdir()
        (site / "own_package-1.2.dist-info/METADATA").write_text(
            "Metadata-Version: 2.1\nName: own-package\nVersion: 1.2\n"
        )
        yield folder / "venv"


def test_its_packages_are_there_for_the_agent_and_the_tests(environment: Path, tmp_path: Path) -> None:
    test = "import own_package, sys\nassert open('answer.txt').read().strip() == own_package.WORD\n"
    write_task(
        tmp_path / "t",
        dockerfile="FROM python:3\nRUN pip install own-package==9\nWORKDIR /app\n",
        solution="python -c 'import own_package; print(own_package.WORD)' > answer.txt",
        test=by_status("python3 /tests/check.py"),
        files={"tests/check.py": test},
    )
    config = SandboxConfig()
    assert "the sandboxes' Python has no own-package==9" in HarborSuite(tmp_path, config).problems()[0]
    suite = HarborSuite(tmp_path, config, python=str(environment))
    assert suite.python.mounts == (str(environment),)
    (found,) = anyio.run(check_tasks, suite, partial(open_sandbox, config), suite.tasks())
    assert (found.noop, found.oracle, found.failures) == (0.0, 1.0, ())


def test_one_that_the_sandboxes_user_cannot_reach(environment: Path) -> None:
    hidden = environment.parent / "hidden"
    hidden.mkdir(mode=0o700)
    moved = hidden / "venv"
    shutil.move(environment, moved)
    python = HarborSuite(write_task(environment.parent / "t"), SandboxConfig(), python=str(moved)).python
    assert (python.command, python.path) == (SYSTEM_PYTHON, ()) or os.geteuid() != 0
    assert python.mounts == (() if os.geteuid() == 0 else (str(moved),))
