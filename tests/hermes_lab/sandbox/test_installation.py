"""What a program needs of this machine, for the ways in which programs are installed; never a home as a whole."""

from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.sandbox import installation as module
from hermes_lab.sandbox.installation import installation, seen_executable


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, with a secret."""
    home = tmp_path / "home"
    _write(home / ".ssh/id", "secret")
    monkeypatch.setenv("HOME", str(home))
    return home


def _write(path: Path, text: str = "\x7fELF", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def _link(path: Path, target: str | Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def _python(home: Path) -> Path:
    """A Python of the user's own, outside of /usr."""
    return _write(home / ".pyenv/versions/3.11/bin/python3").parents[1]


def _venv(folder: Path, python: Path, script: str = "tool") -> Path:
    """A virtual environment with a script."""
    _write(folder / "pyvenv.cfg", f"home = {python}/bin\nversion = 3.11\n")
    _link(folder / "bin/python", python / "bin/python3")
    return _write(folder / "bin" / script, f"#!{folder}/bin/python\n")


def _project(folder: Path, interpreter: str = "/usr/bin/env node") -> Path:
    """An npm project, whose command is a link into a package."""
    _write(folder / "node_modules/@org/tool/cli.js", f"#!{interpreter}\n")
    _write(folder / "node_modules/@org/tool/node_modules/dep/index.js", "")
    return _link(folder / "node_modules/.bin/tool", "../@org/tool/cli.js")


def test_a_virtual_environment_and_the_python_that_it_is_from(home: Path) -> None:
    python = _python(home)
    tool = _venv(home / "project/.venv", python)
    assert installation(tool) == (home / "project/.venv", python)
    assert seen_executable(tool) == tool


def test_a_virtual_environment_whose_script_starts_through_a_shell(home: Path) -> None:
    tool = _venv(home / "venv", _python(home))
    tool.write_text(f"#!/bin/sh\n'''exec' \"{tool.parent}/python\" \"$0\" \"$@\"\n' '''\n")  # where the path is long
    assert installation(tool) == (home / "venv", home / ".pyenv/versions/3.11")


def test_an_npm_project_is_its_outermost_node_modules_alone(home: Path) -> None:
    tool = _project(home / "project")
    _write(home / "project/.env", "secret")
    assert installation(tool) == (home / "project/node_modules",)
    inner = home / "project/node_modules/@org/tool/node_modules/dep/index.js"
    assert installation(inner) == (home / "project/node_modules",)


def test_an_interpreter_that_env_finds_is_needed_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = _write(home / ".nvm/versions/node/v20/bin/node").parents[1]
    monkeypatch.setenv("PATH", f"{node}/bin:/usr/bin:/bin")
    assert installation(_project(home / "a")) == (home / "a/node_modules", node)
    assert installation(_project(home / "b", "/usr/bin/env -S NODE_ENV=x node --flag")) == (
        home / "b/node_modules",
        node,
    )
    monkeypatch.setenv("PATH", "/nowhere")
    assert installation(_project(home / "c")) == (home / "c/node_modules",)


def test_npm_g_below_a_prefix_with_its_own_node(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = _write(home / ".nvm/versions/node/v20/bin/node").parents[1]
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the node beside the script is first on the PATH that it gets
    _write(prefix / "lib/node_modules/tool/cli.js", "#!/usr/bin/env node\n")
    tool = _link(prefix / "bin/tool", "../lib/node_modules/tool/cli.js")
    assert installation(tool) == (prefix,)
    assert seen_executable(tool) == tool


@pytest.mark.parametrize("prefix", ["", ".local"])
def test_npm_g_below_the_home_takes_the_modules_and_not_the_home(home: Path, prefix: str) -> None:
    script = _write(home / prefix / "lib/node_modules/tool/cli.js", "#!/bin/sh\n")
    tool = _link(home / prefix / "bin/tool", "../lib/node_modules/tool/cli.js")
    assert installation(tool) == (home / prefix / "lib/node_modules",)
    assert seen_executable(tool) == script


@pytest.mark.parametrize("folder", ["bin", ".local/bin"])
def test_a_link_from_the_homes_bin_into_a_virtual_environment_elsewhere(home: Path, folder: str) -> None:
    python = _python(home)
    tool = _venv(home / ".local/share/uv/tools/tool", python)
    link = _link(home / folder / "tool", tool)
    again = _link(home / folder / "again", "tool")
    for each in (link, again):
        assert installation(each) == (home / ".local/share/uv/tools/tool", python)
        assert seen_executable(each) == tool


@pytest.mark.parametrize("folder", ["bin", ".local/bin", ".cargo/bin", "go/bin"])
def test_a_program_in_a_bin_of_many_is_its_file_alone(home: Path, folder: str) -> None:
    _write(home / ".cargo/credentials.toml", "secret")
    tool = _write(home / folder / "tool")
    assert installation(tool) == (tool,)
    assert seen_executable(tool) == tool


def test_a_script_in_the_homes_bin_brings_its_virtual_environment_and_no_more(home: Path) -> None:
    python = _python(home)
    _venv(home / "venv", python)
    tool = _write(home / "bin/tool", f"#!{home}/venv/bin/python\n")
    assert installation(tool) == (tool, home / "venv", python)


def test_a_version_of_its_own_behind_a_link(home: Path) -> None:
    binary = _write(home / ".local/share/tool/versions/1.2.3")
    tool = _link(home / ".local/bin/tool", binary)
    assert installation(tool) == (binary.parent,)
    assert seen_executable(tool) == binary


def test_a_prefix_with_libraries_in_the_home_is_one(home: Path) -> None:
    tool = _write(home / "miniconda/bin/tool")
    (home / "miniconda/lib").mkdir()
    assert installation(tool) == (home / "miniconda",)


def test_a_folder_behind_a_link_is_needed_at_both_paths(tmp_path: Path) -> None:
    tool = _write(tmp_path / "tool-1.2/bin/tool", "#!/bin/sh\n")
    _link(tmp_path / "current", "tool-1.2")
    assert installation(tmp_path / "current/bin/tool") == (tmp_path / "current", tmp_path / "tool-1.2")
    assert installation(tool) == (tmp_path / "tool-1.2",)


def test_the_systems_own_needs_nothing() -> None:
    assert installation(Path("/usr/bin/env")) == ()
    assert installation(Path("/bin/sh")) == ()


@pytest.mark.parametrize("where", ["tool", "../tool"])
def test_a_program_that_lies_loose_in_a_home_or_above_is_refused_in_one_line(home: Path, where: str) -> None:
    tool = _write((home / where).resolve(), "#!/bin/sh\n")
    with pytest.raises(ConfigError, match="would be open to the agent: install the program in a folder") as caught:
        installation(tool)
    assert "\n" not in str(caught.value)
    assert str(tool) in str(caught.value)


def test_a_home_that_is_a_virtual_environment_is_not_shown(home: Path) -> None:
    tool = _venv(home, _python(home))
    assert installation(tool) == (tool, home / ".pyenv/versions/3.11")


def test_loops_and_missing_files_end(tmp_path: Path) -> None:
    loop = _link(tmp_path / "x/bin/loop", "loop")
    assert installation(loop) == ()
    seen_executable(loop)
    itself = tmp_path / "y/bin/tool"
    _write(itself, f"#!{itself}\n")
    assert installation(itself) == (tmp_path / "y",)
    assert installation(tmp_path / "nowhere/bin/tool") == ()
    gone = _write(tmp_path / "z/bin/tool", f"#!{tmp_path}/nowhere/python\n")
    assert installation(gone) == (tmp_path / "z",)
    assert installation(_write(tmp_path / "e/bin/empty", "")) == (tmp_path / "e",)
    assert installation(_write(tmp_path / "s/bin/shebang", "#!")) == (tmp_path / "s",)


def test_a_program_beside_the_lab_itself_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = _venv(home / "venv", _python(home))
    monkeypatch.setattr(module, "_LAB", home / "venv/lib/python3.11/site-packages/hermes_lab")
    with pytest.raises(ConfigError, match=f"{home}/venv: Hermes Lab itself is in it"):
        installation(tool)
    other = _venv(home / "other", _python(home))
    assert installation(other)[0] == home / "other"
