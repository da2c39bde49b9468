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


def installed_from(monkeypatch: pytest.MonkeyPatch, direct: dict[str, Any] | None) -> None:
    """Has pip's record say where the package came from."""

    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(direct) if direct else None

    monkeypatch.setattr("hermes_lab.runners.updates.kind.distribution", lambda name: Distribution())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder that looks like a repository."""
    (tmp_path / "a b" / ".git").mkdir(parents=True)
    return tmp_path / "a b"


@pytest.mark.parametrize(
    ("direct", "installed", "source"),
    [
        (None, "hermes-lab", "index"),
        ({"url": "https://x.org/l.git", "vcs_info": {"vcs": "git"}}, "git+https://x.org/l.git", "https://x.org/l.git"),
        ({"url": "https://x.org/l", "vcs_info": {"vcs": "hg"}}, "hg+https://x.org/l", "SOURCE"),
        ({"url": "https://x.org/hermes_lab-1.whl", "archive_info": {}}, "https://x.org/hermes_lab-1.whl", "SOURCE"),
        ({"url": "file:///tmp/none.whl", "archive_info": {}}, "/tmp/none.whl", "SOURCE"),
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
    assert f"{how} --upgrade {installed.format(repository=repository)}; or" in said
    assert f"--from {source.format(repository=repository)} makes" in said


def test_a_checkout(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_from(monkeypatch, {"url": "file:///home/a%20b/lab", "dir_info": {"editable": True}})
    done = lab("update")
    assert done.returncode == 2
    pulled = "git -C '/home/a b/lab' pull --ff-only"
    assert f"{pulled} && {sys.executable} -m pip install -e '/home/a b/lab'; or" in done.stderr


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
    ("file", "said"), [("pipx_metadata.json", "pipx upgrade"), ("uv-receipt.toml", "uv tool upgrade")]
)
def test_other_installers(prefix: Path, monkeypatch: pytest.MonkeyPatch, file: str, said: str) -> None:
    installed_from(monkeypatch, None)
    (prefix / file).touch()
    assert said in how_to_update()


def test_a_container(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LAB_IMAGE", "1")
    assert "docker compose up -d --build" in how_to_update()
    assert "docker compose -f docker-compose.lab.yml build lab" in how_to_update()


def test_the_package_of_these_tests_has_a_record() -> None:
    """What the tests above replace is what pip really writes."""
    assert json.loads(metadata.distribution("hermes-lab").read_text("direct_url.json") or "{}")["url"]
