"""The commit that run.json names, for a package that runs from a checkout."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from hermes_lab.commit import checkout_commit
from hermes_lab.manifest import versions

ROOT = Path(__file__).parents[2]
_WHO = {f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *args: str) -> str:
    command = ["git", "-C", str(folder), *args]
    return subprocess.run(
        command, env={**os.environ, **_WHO}, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "site-packages").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "code.py").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    git(folder, "tag", "v1")
    return folder


def test_it_is_that_of_the_checkout_and_says_if_tracked_files_differ(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert checkout_commit(checkout) == head
    (checkout / "runs").write_text("not tracked")
    assert checkout_commit(checkout) == head
    (checkout / "code.py").write_text("2\n")
    assert checkout_commit(checkout) == f"{head}-dirty"


def test_an_installed_package_has_none_even_below_a_repository(checkout: Path) -> None:
    assert checkout_commit(checkout / "site-packages") == ""


def test_without_git_or_in_a_damaged_repository_there_is_none(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setenv("PATH", "")
        assert checkout_commit(checkout) == ""
    (checkout / ".git" / "HEAD").write_text("nothing")
    assert checkout_commit(checkout) == ""


def test_another_repository_of_the_environment_is_not_asked(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of git."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert re.fullmatch("[0-9a-f]{40}", checkout_commit(checkout))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="these tests do not run from a checkout")
def test_a_run_records_it() -> None:
    assert versions()["commit"].removesuffix("-dirty") == git(ROOT, "rev-parse", "HEAD")


def test_where_there_is_none_the_record_has_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.manifest.checkout_commit", lambda: "")
    assert "commit" not in versions()
