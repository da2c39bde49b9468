"""Files of configurations that are no such thing: each is one line with file, line and field, and exit code 2."""

import os
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.config.files import read_file
from hermes_lab.config.home_file import load_home_config
from hermes_lab.config.sources import load_config

_DEEP = b"agent: " + b"[" * 3000 + b"]" * 3000
_MANY = b"a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + b"".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n".encode() for n in range(1, 12)
)
MISTAKES = {
    "a word for a number": (b"agent:\n  max_iterations: many\n", "2: agent.max_iterations: must be an integer"),
    "a word for a list": (b"agent:\n  toolsets: core\n", "2: agent.toolsets: must be a list"),
    "an unknown section": (b"agnt: {}\n", "1: agnt: unknown field"),
    "an unknown field": (b"agent:\n  max_iter: 1\n", "2: agent.max_iter: unknown field"),
    "an unknown field, deeper": (b"model:\n  sampling:\n    temprature: 1\n", "3: model.sampling.temprature: unknown"),
    "a list for a section": (b"agent:\n  - a\n", "1: agent: is a section"),
    "an empty section": (b"agent:\n", "1: agent: is a section"),
    "null": (b"agent:\n  max_iterations: null\n", "2: agent.max_iterations: must be an integer"),
    "a list": (b"- a\n", "1: expected a mapping of sections"),
    "a field twice": (b"agent:\n  prompt: x\n  prompt: y\n", "3: agent.prompt: is set twice, first in line 2"),
    "a tab": (b"agent:\n\tmax_iterations: 1\n", "2: a tab cannot indent a line"),
    "an alias of nothing": (b"agent: *x\n", "1: found undefined alias 'x'"),
    "an alias of a mistake": (b"agent: &x {prompt: full}\nweb: *x\n", "1: web.prompt: unknown field"),
    "an alias in itself": (b"agent: &x\n  toolsets: *x\n", "2: agent.toolsets: contains itself through an alias"),
    "a merge with itself": (b"agent: &x\n  <<: *x\n", "1: agent: contains itself through an alias"),
    "aliases of aliases": (_MANY, "has more than 100,000 values"),
    "a merge of a word": (b"agent:\n  <<: 3\n", "2: expected a mapping or list of mappings for merging"),
    "a number as a key": (b"agent:\n  3: x\n", "2: agent.3: unknown field"),
    "a list as a key": (b"agent:\n  [a]: x\n", "2: agent: a key must be a string"),
    "deep nesting": (_DEEP, "1: nested too deeply"),
    "a byte order mark": (b"\xef\xbb\xbfagent:\n  max_iterations: many\n", "2: agent.max_iterations: must be"),
    "lines of Windows": (b"agent:\r\n  max_iterations: many\r\n", "2: agent.max_iterations: must be an integer"),
    "Latin-1": (b"model:\n  name: caf\xe9\n", "2: not UTF-8 text"),
    "NUL": (b"model:\n  name: a\0b\n", "2: contains the control character U+0000"),
    "an escaped NUL": (b'skills:\n  library: "a\\0b"\n', "2: skills.library: contains a NUL character"),
    "an open bracket": (b"agent: {\n  prompt: x\n", "(while parsing a flow mapping, from line 1)"),
    "an unknown tag": (b"model:\n  name: !x y\n", "2: model.name: could not determine a constructor"),
    "a value against its tag": (b"model:\n  name: !!timestamp 2020-13-45\n", "2: model.name: month must be in"),
    "two documents": (b"agent: {}\n---\nagent: {}\n", "2: expected a single document"),
}


@pytest.mark.parametrize("kind", ["home", "run"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, name: str, kind: str) -> None:
    content, told = MISTAKES[name]
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    done = lab("config", "check", file, "--kind", kind)
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.startswith(f"{file}:")
    assert line.removeprefix(f"{file}:")[0].isdecimal()
    assert told in line
    assert done.returncode == 2


def test_a_section_may_replace_what_it_merges(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("model: &m {name: a, timeout: 3}\nauxiliary:\n  <<: *m\n  name: b\n")
    config = load_config([str(file)])
    assert config.auxiliary
    assert (config.auxiliary.name, config.auxiliary.timeout) == ("b", 3)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    file = tmp_path / "config.yaml"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    told = f"{file}: is a {kind}, not a file; give a YAML file"
    for args in (
        ("chat", "-c", "model.name=m", "hello"),
        ("config", "check"),
        ("run", "-c", file),
        ("experiment", file),
        ("study", file),
    ):
        done = lab(*args)
        assert told in (done.stdout + done.stderr).splitlines()[-1], args
        assert done.returncode == 2


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("model: {name: m}\n")
    (tmp_path / "config.yaml").symlink_to("real.yaml")
    assert load_home_config(tmp_path, []).model.name == "m"


def test_what_a_shell_substitutes_for_a_file_is_read() -> None:
    """`-c <(...)` is a pipe that somebody writes to."""
    reading, writing = os.pipe()
    os.write(writing, b"suite: {name: ledger}\n")
    os.close(writing)
    try:
        assert read_file(Path(f"/dev/fd/{reading}")).content == {"suite": {"name": "ledger"}}
    finally:
        os.close(reading)
