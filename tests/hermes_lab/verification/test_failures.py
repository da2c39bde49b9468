"""A bug in a verifier is named by file and line, wherever the verifier is installed."""

import importlib
import sys
import sysconfig
from pathlib import Path

import pytest

from hermes_lab.errors import SandboxError, VerifierError
from hermes_lab.verification import explain, traceback_of

VERIFIER = 'import json\n\n\ndef verify(text):\n    return json.loads(text)["m"]\n'


def failure_of(text: str, package: str) -> VerifierError:
    module = importlib.import_module(package)
    try:
        module.verify(text)
    except Exception as error:
        failure = explain(error, package)
        failure.__cause__ = error
        return failure
    raise AssertionError("it has a bug")


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize(("text", "what"), [("{}", "KeyError: 'm'"), ("{", "JSONDecodeError: Expecting property name")])
def test_the_line_is_the_verifiers_own_even_if_a_library_raised(
    text: str, what: str, installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_verifier.py").write_text(VERIFIER)
    monkeypatch.syspath_prepend(str(tmp_path))
    if installed:
        paths = {**sysconfig.get_paths(), "purelib": str(tmp_path), "platlib": str(tmp_path)}
        monkeypatch.setattr(sysconfig, "get_paths", lambda: paths)
    try:
        failure = failure_of(text, "my_verifier")
    finally:
        sys.modules.pop("my_verifier", None)
    assert str(failure).startswith(what)
    assert str(failure).endswith(f"({tmp_path / 'my_verifier.py'}:5)")
    assert "Traceback (most recent call last)" in traceback_of(failure)
    assert 'return json.loads(text)["m"]' in traceback_of(failure)


def test_other_failures_say_themselves_what_is_wrong() -> None:
    assert traceback_of(SandboxError("gone")) == ""
    assert traceback_of(VerifierError("the grader is away")) == ""
