"""What `hermes-lab update` says where another program installed the package."""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from fakes.command import lab

from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.kind import how_to_update
from hermes_lab.runners.updates.sources import parse_source


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.delenv("HERMES_LAB_IMAGE", raising=False)
    return tmp_path


def installed_from(
    monkeypatch: pytest.MonkeyPatch, direct: dict[str, Any] | None, requires: list[str] | None = None
) -> None:
    """Has pip's record say where the package came from, and what it requires; only `docker` is installed with it."""

    class Distribution:
        def __init__(self) -> None:
            self.requires = requires

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(direct) if direct else None

    def distribution(name: str) -> Distribution:
        if name not in ("hermes-lab", "docker"):
            raise metadata.PackageNotFoundError(name)
        return Distribution()

    monkeypatch.setattr("hermes_lab.runners.updates.given.distribution", distribution)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder that looks like a repository."""
    (tmp_path / "a b" / ".git").mkdir(parents=True)
    return tmp_path / "a b"


GIT = {"url": "https://x.org/l.git", "vcs_info": {"vcs": "git"}}
FOLDER = {"url": "file:///a/b", "dir_info": {}}
WHEEL = {"url": "file:///tmp/none.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("direct", "installed", "source"),
    [
        (None, "hermes-lab", "index"),
        (GIT, "git+https://x.org/l.git", "https://x.org/l.git"),
        ({"url": "https://x.org/l", "vcs_info": {"vcs": "hg"}}, "hg+https://x.org/l", "SOURCE"),
        ({"url": "file://{repository}", "dir_info": {}}, "'{repository}'", "'{repository}'"),
    ],
)
@pytest.mark.parametrize("pip", [True, False])
def test_pip_and_uv(
    prefix: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    direct: dict[str, Any] | None,
    installed: str,
    source: str,
    pip: bool,
) -> None:
    if direct:
        direct = {**direct, "url": direct["url"].format(repository=str(repository).replace(" ", "%20"))}
    installed_from(monkeypatch, direct)
    if not pip:
        monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda name: None)
    how = f"uv pip install --python {sys.executable}" if not pip else f"{sys.executable} -m pip install"
    said = how_to_update()
    given = installed.format(repository=repository)
    # pip keeps an installed package of the same number.
    pull = f"git -C {given} pull --ff-only && " if direct and "dir_info" in direct else ""
    again = f" && {how} --force-reinstall --no-deps {given}" if pip and direct and "vcs_info" in direct else ""
    assert f": {pull}{how} --upgrade {given}{again}; or" in said
    assert f"--from {source.format(repository=repository)} makes" in said


@pytest.mark.parametrize("url", ["https://x.org/hermes_lab-1.whl", "file:///tmp/none.whl", "file:///tmp/none.tar.gz"])
@pytest.mark.parametrize("pip", [True, False])
def test_what_came_as_a_file_needs_the_new_file(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, url: str, pip: bool
) -> None:
    """The one that was installed has the same version for ever."""
    installed_from(monkeypatch, {"url": url, "archive_info": {}})
    if not pip:
        monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda name: None)
    how = f"uv pip install --python {sys.executable}" if not pip else f"{sys.executable} -m pip install"
    said = how_to_update()
    assert f"get the wheel of the new version, then {how} WHEEL; or" in said
    assert "--from WHEEL makes" in said
    assert url.removeprefix("file://") not in said


@pytest.mark.parametrize(
    ("vcs", "subdirectory", "installed", "at"),
    [
        ({"requested_revision": "dev"}, "", "git+https://x.org/l.git@dev", "https://x.org/l.git --to dev"),
        ({"requested_revision": "a b"}, "", "'git+https://x.org/l.git@a b'", "https://x.org/l.git --to 'a b'"),
        # A commit is one version for ever.
        ({"requested_revision": "77c2", "commit_id": "77c2d0"}, "", "git+https://x.org/l.git", "https://x.org/l.git"),
        ({"requested_revision": "dev"}, "in", "'git+https://x.org/l.git@dev#subdirectory=in'", "SOURCE"),
    ],
)
def test_the_branch_and_folder_of_a_repository_are_kept(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, vcs: dict[str, str], subdirectory: str, installed: str, at: str
) -> None:
    direct = {"url": GIT["url"], "vcs_info": {"vcs": "git", **vcs}}
    installed_from(monkeypatch, {**direct, "subdirectory": subdirectory} if subdirectory else direct)
    said = how_to_update()
    assert f"--upgrade {installed} &&" in said
    assert f"--no-deps {installed}; or" in said
    assert f"--from {at} makes" in said


@pytest.mark.parametrize(
    ("direct", "installed"),
    [
        (None, "--upgrade 'hermes-lab[ship]';"),
        (GIT, "--no-deps 'hermes-lab[ship] @ git+https://x.org/l.git';"),
        (WHEEL, "install 'WHEEL[ship]';"),
        ({"url": "file:///a/b", "dir_info": {}}, "--upgrade '/a/b[ship]';"),
        ({"url": "file://{repository}", "dir_info": {"editable": True}}, "-e '{repository}[ship]';"),
    ],
)
def test_extras_whose_packages_are_all_installed_are_kept(
    prefix: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, direct: dict[str, Any] | None, installed: str
) -> None:
    direct = direct and {**direct, "url": direct["url"].format(repository=repository)}
    some = ["docker==7; extra == 'ship'", 'docker ; extra == "lab"', 'other>=1,<2 ; extra == "lab"', "other"]
    installed_from(monkeypatch, direct, [*some, "hermes-lab[ship]; extra == 'all'"])
    said = how_to_update()
    assert installed.format(repository=repository) in said
    assert " --extras ship makes" in said


def test_a_folder_that_is_no_clone_needs_the_new_files(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_from(monkeypatch, {"url": "file:///a/b", "dir_info": {}})
    assert f"put its files in /a/b, then {sys.executable} -m pip install --upgrade /a/b; or" in how_to_update()


def test_a_checkout(prefix: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_from(monkeypatch, {"url": repository.as_uri(), "dir_info": {"editable": True}})
    done = lab("update")
    assert done.returncode == 2
    pulled = f"git -C '{repository}' pull --ff-only"
    assert f"{pulled} && {sys.executable} -m pip install -e '{repository}'; or" in done.stderr


def test_files_of_an_archive_cannot_be_pulled(prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of GitHub's `Download ZIP`."""
    installed_from(monkeypatch, {"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    said = how_to_update()
    assert "no Git repository" in said
    assert "git " not in said
    assert said.endswith(f"then {sys.executable} -m pip install -e {tmp_path}")


@pytest.mark.parametrize(("folder", "ready"), [(".venv", True), (".venv", False), ("other", True)])
def test_only_the_environment_of_make_is_made_again_by_make(
    repository: Path, monkeypatch: pytest.MonkeyPatch, folder: str, ready: bool
) -> None:
    """The README's has no torch and no vLLM, and is in .venv, too."""
    (repository / ".venv").mkdir()
    if ready:
        (repository / ".venv" / "ready").touch()
    monkeypatch.setattr(sys, "prefix", str(repository / folder))
    monkeypatch.delenv("HERMES_LAB_IMAGE", raising=False)
    installed_from(monkeypatch, {"url": repository.as_uri(), "dir_info": {"editable": True}})
    made = (folder, ready) == (".venv", True)
    again = f"make -C '{repository}' setup" if made else f"{sys.executable} -m pip install -e '{repository}'"
    assert f"pull --ff-only && {again}; or" in how_to_update()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("git+https://x.org/l.git", "give https://x.org/l.git"),
        ("git+https://ann:secret@x.org/l.git", "give https://x.org/l.git"),
        ("https://x.org/hermes_lab-1-py3-none-any.whl#sha256=1", "download the wheel"),
    ],
)
def test_a_source_that_only_pip_takes_is_refused_with_the_fix(source: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        parse_source(source)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "direct", "said"),
    [
        ("pipx_metadata.json", None, "pipx upgrade hermes-lab"),
        ("pipx_metadata.json", GIT, "pipx reinstall hermes-lab"),
        ("pipx_metadata.json", WHEEL, "pipx install --force WHEEL"),
        ("uv-receipt.toml", None, "uv tool upgrade hermes-lab"),
        ("uv-receipt.toml", GIT, "uv tool upgrade hermes-lab"),
        ("pipx_metadata.json", FOLDER, "put its files in /a/b, then pipx reinstall hermes-lab"),
        ("uv-receipt.toml", FOLDER, "put its files in /a/b, then uv tool upgrade hermes-lab --reinstall"),
        ("uv-receipt.toml", WHEEL, "uv tool install --force WHEEL"),
    ],
)
def test_other_installers(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, file: str, direct: dict[str, Any] | None, said: str
) -> None:
    installed_from(monkeypatch, direct)
    (prefix / file).touch()
    assert how_to_update().endswith(said)


def test_a_container(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LAB_IMAGE", "1")
    assert "docker compose up -d --build" in how_to_update()
    assert "docker compose -f docker-compose.lab.yml build lab" in how_to_update()


def test_the_package_of_these_tests_has_a_record() -> None:
    """What the tests above replace is what pip really writes."""
    assert json.loads(metadata.distribution("hermes-lab").read_text("direct_url.json") or "{}")["url"]
