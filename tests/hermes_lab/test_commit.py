"""The commit that records name: that of a checkout, or of the repository that the package was installed from."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import hermes_lab
from hermes_lab.commit import checkout_commit, package_commit, package_version
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
    monkeypatch.setattr("hermes_lab.manifest.package_commit", lambda: "")
    assert "commit" not in versions()


COMMIT = "77c2d0a3f91b" + 28 * "0"
_FROM_GIT = {"url": "https://x.org/l.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}


def installed(
    monkeypatch: pytest.MonkeyPatch, prefix: Path, direct: str, package: Path = Path(hermes_lab.__file__).parent
) -> None:
    """Has the package be in an environment, where pip wrote `direct`."""

    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return direct or None

        def locate_file(self, name: str) -> Path:
            assert name == "hermes_lab"
            return package

    monkeypatch.setattr("hermes_lab.commit.checkout_commit", lambda: "")
    monkeypatch.setattr("hermes_lab.commit.distribution", lambda name: Distribution())
    monkeypatch.setattr(sys, "prefix", str(prefix))


def test_pip_says_which_commit_it_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, json.dumps(_FROM_GIT))
    assert versions()["commit"] == COMMIT
    assert package_version.__wrapped__() == f"{version('hermes-lab')} 77c2d0a3f91b"


def test_an_update_says_which_commit_it_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a repository pip is given the wheel."""
    installed(monkeypatch, tmp_path, json.dumps({"url": "file:///w.whl", "archive_info": {}}))
    (tmp_path / "install.json").write_text(json.dumps({"v": 1, "version": "0.1.0", "commit": COMMIT}))
    assert versions()["commit"] == COMMIT


@pytest.mark.parametrize("direct", ["", "{", "[]", '{"vcs_info": null}', '{"vcs_info": {"commit_id": 1}}'])
@pytest.mark.parametrize("record", ["", "{", "[]", '{"commit": null}'])
def test_a_release_has_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, direct: str, record: str) -> None:
    installed(monkeypatch, tmp_path, direct)
    if record:
        (tmp_path / "install.json").write_text(record)
    assert package_commit() == ""
    assert package_version.__wrapped__() == version("hermes-lab")


def test_the_record_of_another_copy_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As with PYTHONPATH."""
    installed(monkeypatch, tmp_path, json.dumps(_FROM_GIT), package=tmp_path / "hermes_lab")
    assert package_commit() == ""


def test_a_changed_checkout_shows_in_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_lab.commit.checkout_commit", lambda: f"{COMMIT}-dirty")
    assert package_version.__wrapped__() == f"{version('hermes-lab')} 77c2d0a3f91b-dirty"
