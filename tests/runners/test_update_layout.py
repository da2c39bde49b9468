"""The folder of an installation: what is taken for one, what is removed of it, and in which order links are made."""

import os
import sys
from pathlib import Path

import msgspec
import pytest
from fakes.command import lab

from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.layout import Installation, Version, installation_here


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """An installation with a current version that has no program."""
    found = Installation(tmp_path / "at")
    found.versions.mkdir(parents=True)
    found.lock.touch()
    add(found, "0.1.0-aaaaaa")
    found.switch(found.versions / "0.1.0-aaaaaa")
    return found


def add(installation: Installation, name: str) -> Path:
    folder = installation.versions / name
    folder.mkdir(parents=True)
    installation.record(folder, Version(version=name.partition("-")[0], source="index", installed_at=name))
    return folder


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    """As that of pyenv, which has `versions`, too."""
    root = tmp_path / "pyenv"
    (root / "versions" / "3.11.7").mkdir(parents=True)
    (root / "versions" / "3.12.1-abcdef").mkdir()
    for args in (("--rollback",), ("--from", "index"), ()):
        done = lab("update", "--at", root, *args, HERMES_HOME=str(tmp_path / "home"))
        assert done.returncode == 2
        assert f"{root}: is not empty, and no installation" in done.stderr
        assert "--at" in done.stderr
    assert sorted(path.name for path in (root / "versions").iterdir()) == ["3.11.7", "3.12.1-abcdef"]
    assert not (root / "update.lock").exists()


def test_a_program_that_is_not_the_link_is_refused_and_kept(installation: Installation, tmp_path: Path) -> None:
    installation.program.unlink()
    installation.program.write_text("mine")
    done = lab("update", "--at", installation.root, "--from", "index", HERMES_HOME=str(tmp_path))
    assert done.returncode == 2
    assert f"{installation.program}: is not the link" in done.stderr
    assert installation.program.read_text() == "mine"


def test_only_folders_with_names_of_versions_are_leftovers(installation: Installation) -> None:
    for name in ("mine", "3.11.7", "0.2.0-bbbbbb", ".tmp-x", "0.3.0-cccccc"):
        (installation.versions / name).mkdir()
    (installation.versions / "0.4.0-dddddd").write_text("a file")
    (installation.versions / "0.3.0-cccccc" / "install.json").write_text('{"v": 1, "vers')
    assert [path.name for path in installation.leftovers()] == [".tmp-x", "0.2.0-bbbbbb", "0.3.0-cccccc"]


@pytest.mark.parametrize("damage", ["damaged", "missing"])
def test_the_current_version_is_never_a_leftover(installation: Installation, damage: str) -> None:
    assert installation.current is not None
    record = installation.current / "install.json"
    if damage == "damaged":
        record.write_bytes(b"")
    else:
        record.unlink()
    assert installation.read(installation.current) is None
    assert installation.leftovers() == []


def test_the_rename_of_current_is_the_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the two links, the installation still has no version, so that the next update makes both."""
    found = Installation(tmp_path)
    folder = add(found, "0.1.0-aaaaaa")
    point = Installation._point
    made: list[Path] = []

    def killed(self: Installation, link: Path, target: Path) -> None:
        if made:
            raise KeyboardInterrupt
        made.append(link)
        point(self, link, target)

    monkeypatch.setattr(Installation, "_point", killed)
    with pytest.raises(KeyboardInterrupt):
        found.switch(folder)
    monkeypatch.undo()
    assert found.current is None
    (tmp_path / ".current.new").symlink_to("nowhere")  # killed before the rename
    found.switch(folder)
    assert found.current == folder
    assert found.program.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "current", "versions"]


def test_a_version_is_on_the_disk_before_it_counts_as_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a power cut leaves a record beside files without their content, and the next update switches to them."""
    found = Installation(tmp_path)
    recorded: list[bool] = []
    folder = tmp_path / "versions" / "0.2.0-bbbbbb"
    monkeypatch.setattr(os, "sync", lambda: recorded.append((folder / "install.json").exists()))
    add(found, folder.name)
    assert recorded == [False]


def test_a_python_that_was_started_through_the_link_finds_its_installation(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(installation.root / "current"))
    here = installation_here()
    assert here is not None
    assert here.root == installation.root


def test_a_record_of_a_later_version_is_read(installation: Installation) -> None:
    assert installation.current is not None
    record = installation.current / "install.json"
    record.write_bytes(msgspec.json.encode({**msgspec.json.decode(record.read_bytes()), "v": 2, "later": True}))
    assert installation.read(installation.current) is not None


def test_a_damaged_current_version_is_told_with_the_repair(installation: Installation, tmp_path: Path) -> None:
    assert installation.current is not None
    (installation.current / "install.json").write_bytes(b"{")
    for args in ((), ("--rollback",)):
        done = lab("update", "--at", installation.root, *args, HERMES_HOME=str(tmp_path))
        assert done.returncode == 2
        assert f"the record of {installation.current} is damaged" in done.stderr
        assert "--from" in done.stderr
    with pytest.raises(ConfigError, match="is not empty"):
        Installation(tmp_path).check()
