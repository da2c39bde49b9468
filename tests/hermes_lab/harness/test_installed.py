"""Installations: found by path, identified by version and digest."""

import sys
from pathlib import Path

import pytest

from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.harness.installed import digest_of, find_executable, find_installed
from hermes_lab.harness.programs import find_program, program_names

OWN = ["hermes", "claude", "codex", "qwen", "opencode", "mini-swe-agent"]


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_labs_own_programs_come_first() -> None:
    assert program_names()[: len(OWN)] == OWN
    for name in OWN:
        program = find_program(name)
        assert (program.name, bool(program.install), bool(program.summary)) == (name, True, True)


@pytest.mark.parametrize("below", ["bin", "node_modules/.bin", ".venv/bin", "."])
def test_an_installation_is_found_by_its_folder(tmp_path: Path, below: str) -> None:
    at = executable(tmp_path / below / "claude")
    assert find_executable(find_program("claude"), str(tmp_path)) == at
    assert find_executable(find_program("claude"), str(at)) == at


def test_without_a_path_it_is_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(ConfigError, match=r"codex is not on the PATH.*npm install -g @openai/codex.*agent\.at"):
        find_executable(find_program("codex"), "")
    at = executable(tmp_path / "codex")
    assert find_executable(find_program("codex"), "") == at


def test_version_of_a_python_and_of_an_npm_package(tmp_path: Path) -> None:
    executable(tmp_path / "venv/bin/hermes")
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    info = tmp_path / "venv/lib/python3.11/site-packages/hermes_agent-0.19.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: hermes-agent\n")
    found = find_installed(AgentConfig(program="hermes", at=str(tmp_path / "venv")))
    assert found is not None
    assert (found.version, found.folders) == ("0.19.0", (tmp_path / "venv",))
    package = tmp_path / "npm/node_modules/@openai/codex"
    real = executable(package / "bin/codex.js")
    (package / "package.json").write_text('{"name": "@openai/codex", "version": "0.169.0"}')
    (tmp_path / "npm/node_modules/.bin").mkdir()
    (tmp_path / "npm/node_modules/.bin/codex").symlink_to(real)
    found = find_installed(AgentConfig(program="codex", at=str(tmp_path / "npm")))
    assert found is not None
    assert (found.version, found.folders) == ("0.169.0", (tmp_path / "npm/node_modules",))


def test_the_digest_is_of_all_files_but_bytecode(tmp_path: Path) -> None:
    executable(tmp_path / "bin/x")
    first = digest_of((tmp_path,))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_bytes(b"1")
    assert digest_of((tmp_path,)) == first
    (tmp_path / "bin/y").symlink_to("x")
    second = digest_of((tmp_path,))
    assert second != first
    (tmp_path / "bin/x").write_text("#!/bin/sh\necho\n")
    assert digest_of((tmp_path,)) not in (first, second)


def test_the_digest_follows_the_links_of_the_command(tmp_path: Path) -> None:
    real = executable(tmp_path / "versions/2/bin/claude")
    link = tmp_path / "here/bin/claude"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    config = AgentConfig(program="claude", at=str(tmp_path / "here"))
    first = find_installed(config)
    real.write_text("#!/bin/sh\necho changed\n")
    second = find_installed(config)
    assert first is not None
    assert second is not None
    assert first.digest != second.digest


def test_a_user_that_does_not_exist_is_said() -> None:
    with pytest.raises(ConfigError, match=r"^agent\.at: ~nobody-here/x: there is no such user"):
        find_executable(find_program("claude"), "~nobody-here/x")


def test_a_broken_program_of_another_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hermes_lab.programs]\nbroken = nowhere:Program\nnone = builtins:dict\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"agent\.program: broken \(nowhere:Program\) cannot be loaded"):
        find_program("broken")
    with pytest.raises(ConfigError, match=r"agent\.program: none \(builtins:dict\) is not a"):
        find_program("none")
