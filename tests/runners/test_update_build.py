"""What an update takes from the configuration of pip and from damaged wheels, and which packages it calls lost."""

import json
import sys
import zipfile
from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.build import tell_missing_packages
from hermes_lab.runners.updates.pip import pip_of
from hermes_lab.runners.updates.processes import run
from hermes_lab.runners.updates.screen import Screen
from hermes_lab.runners.updates.sources import fetch


@pytest.fixture
def screen(tmp_path: Path) -> Screen:
    return Screen(tmp_path / "update.log", "ab", quiet=True)


@pytest.mark.parametrize("setting", ["install.target", "global.prefix", "install.root"])
def test_a_configuration_that_installs_elsewhere_is_refused(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    section, name = setting.split(".")
    index = "index-url = https://ann:secret@x.org"
    (tmp_path / "pip.conf").write_text(f"[{section}]\n{index}\n{name} = /other\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(ConfigError, match=f"pip's configuration sets {setting},"):
        pip_of(sys.executable, screen)
    assert "secret" not in screen.log.read_text()


def test_what_a_configuration_says_of_users_is_ignored(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text("[install]\nuser = true\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    pip = pip_of(sys.executable, screen)
    with zipfile.ZipFile(tmp_path / "x-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("x-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1\n")
        wheel.writestr("x-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    # In a virtual environment, pip refuses to install for a user.
    run([*pip, "install", "--dry-run", tmp_path / "x-1-py3-none-any.whl"], screen, "pip install")


def test_a_wheel_with_damaged_data_is_told(tmp_path: Path, screen: Screen) -> None:
    path = tmp_path / "hermes_lab-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("hermes_lab-1.dist-info/METADATA", "Name: hermes-lab\n" * 100)
        start = wheel.infolist()[0].header_offset + 30 + len("hermes_lab-1.dist-info/METADATA")
    data = bytearray(path.read_bytes())
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="not a wheel"):
        fetch(str(path), "", None, tmp_path, screen, again=True)


def test_what_belongs_to_a_python_is_not_missed(
    tmp_path: Path, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    """Environments of Python 3.11 have setuptools, those of 3.12 have not."""
    for name, packages in (("old", ["pip", "setuptools", "wheel", "mine"]), ("new", [])):
        python = tmp_path / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho '{json.dumps([{'name': each} for each in packages])}'\n")
        python.chmod(0o755)
    tell_missing_packages(tmp_path / "old", tmp_path / "new", Screen(tmp_path / "other.log", "ab"))
    assert "not in the new version: mine;" in capsys.readouterr().err
