"""Which factory a policy's name stands for."""

import sys
from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.models.scripted import load_policy

FACTORY = """
def mine(**options):
    return lambda messages: None

learner = mine
"""


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's `agent.py` and `tasks/learner.py`, which have names of ours. The package cannot be imported."""
    (tmp_path / "agent.py").write_text(FACTORY)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("raise AssertionError('imported')")
    (tmp_path / "tasks" / "learner.py").write_text(FACTORY)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("agent", "tasks"):  # an earlier test may have imported those of this repository
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_module_of_ours_is_found_with_and_without_the_package() -> None:
    policies = [load_policy(name, {}) for name in ("tasks.learner:noop", "hermes_lab.tasks.learner:noop")]
    assert {policy.__module__ for policy in policies} == {"hermes_lab.tasks.learner"}


def test_a_users_module_with_a_name_of_ours_is_found(own_modules: Path) -> None:
    policy = load_policy("agent:mine", {})
    assert policy.__module__ == "agent"


def test_a_policy_that_both_have_is_refused(own_modules: Path) -> None:
    theirs = own_modules / "tasks" / "learner.py"
    with pytest.raises(ConfigError, match=rf"is a policy of Hermes Lab, but {theirs} has the same module name"):
        load_policy("tasks.learner:learner", {})


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing.here:learner", "no module nothing.here in the current folder .*; run the command in the folder"),
        ("tasks.learner:nothing", "nothing does not exist in tasks.learner; it has: "),
        ("tasks.learner:leaner", r"leaner does not exist in tasks.learner; did you mean learner\?"),
        ("tasks.learner", "'tasks.learner' is not a policy of the form `module:factory`"),
        (":learner", "':learner' is not a policy of the form `module:factory`"),
        ("packaged", "set it to module:factory for provider `scripted`"),
    ],
)
def test_what_is_no_policy_is_named(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_policy(name, {})


@pytest.mark.parametrize("name", ["setup", "setup:", "setup:a b", "./setup:agent", "set-up:agent", ""])
def test_a_name_without_a_factory_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "setup.py").write_text("open('executed', 'w')")
    with pytest.raises(ConfigError, match="is not a policy of the form `module:factory`"):
        load_policy(name, {})
    assert not (tmp_path / "executed").exists()
    assert str(tmp_path) not in sys.path
