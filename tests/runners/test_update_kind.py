"""What `hermes-lab update` says where another program installed the package."""

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from fakes.command import lab

from hermes_lab.runners.updates.kind import how_to_update


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


@pytest.mark.parametrize(
    ("direct", "said"),
    [
        (None, f"{sys.executable} -m pip install --upgrade hermes-lab; or hermes-lab update --at DIR --from index"),
        ({"url": "file:///tmp/lab.whl", "archive_info": {}}, "-m pip install --upgrade file:///tmp/lab.whl"),
        ({"url": "https://x.org/l.git", "vcs_info": {"vcs": "git"}}, "--upgrade git+https://x.org/l.git"),
        ({"url": "file:///home/a%20b/lab", "dir_info": {"editable": True}}, "git -C '/home/a b/lab' pull --ff-only"),
    ],
)
def test_pip_and_a_checkout(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, direct: dict[str, Any] | None, said: str
) -> None:
    installed_from(monkeypatch, direct)
    assert said in how_to_update()
    done = lab("update")
    assert done.returncode == 2
    assert said in done.stderr


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


def test_the_package_of_these_tests_has_a_record() -> None:
    """What the tests above replace is what pip really writes."""
    assert json.loads(metadata.distribution("hermes-lab").read_text("direct_url.json") or "{}")["url"]
