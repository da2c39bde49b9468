"""`hermes-lab agents` and `doctor`: where programs are, and what a check of one tells."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.harness.installed import find_executable
from hermes_lab.harness.programs import find_program
from hermes_lab.models.scripted import load_policy
from hermes_lab.runners import agents


def checked(name: str, at: Path, fault: str = "") -> dict[str, str]:
    """The mark and the detail of each step, by name."""
    said = lab("agents", "check", name, "--at", at, "-c", f"agent.settings={{fault: {fault!r}}}")
    lines = said.stdout.splitlines()
    assert said.returncode == (1 if any(line.startswith("FAIL") for line in lines) else 0), said
    return {line[6:24].strip(): f"{line[:4].strip()} {line[25:]}" for line in lines}


def test_a_program_that_works_passes_every_step(installed: Path) -> None:
    steps = checked("fake", installed)
    assert list(steps)[:2] == ["installed", "asks the model"]
    assert {mark.split()[0] for mark in steps.values()} == {"ok"}
    assert steps["submits again"] == "ok in the same conversation"
    assert steps["reviews its work"] == "ok by itself"
    assert steps["writes skills"] == 'ok wrote "rejections"'


def test_steps_are_told_before_the_program_has_ended(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    before: list[list[str]] = []
    concluded = agents._Check._conclude

    def conclude(*args: object) -> None:
        before.append(list(told))
        concluded(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(agents._Check, "_conclude", conclude)
    steps = agents.check_program("fake", str(installed), tell=lambda step: told.append(step.what))
    assert before == [["installed", "asks the model", "runs tools", "submits again"]]
    assert told == [step.what for step in steps]


@pytest.mark.parametrize(
    ("fault", "step", "detail"),
    [
        ("forgets", "submits again", "FAIL started a new conversation"),
        ("unlisted", "reads skills", "FAIL not listed in a form that scripted models read, such as"),
    ],
)
def test_a_failed_step_says_what_happened(installed: Path, fault: str, step: str, detail: str) -> None:
    assert checked("fake", installed, fault)[step].startswith(detail)


def test_a_program_that_never_asks_fails_with_its_error(installed: Path) -> None:
    steps = checked("fake", installed, "crash")
    assert list(steps) == ["installed", "asks the model"]
    assert "the configuration is broken" in steps["asks the model"]


def test_what_a_program_does_not_do_by_design_is_no_failure(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(find_program("forgetful")), "skills", "")
    steps = checked("forgetful", installed)
    assert steps["submits again"] == "ok in a new conversation, by design"
    assert [steps[what] for what in ("reads skills", "reviews its work", "writes skills")] == ["- none by design"] * 3


def test_programs_of_make_programs_are_found_beside_the_lab(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    shutil.copytree(installed, tmp_path / "programs" / "mine")
    place = tmp_path / "programs" / "mine"
    (fake,) = [each for each in json.loads(lab("agents", "list", "--json").stdout) if each["name"] == "fake"]
    assert (fake["installed"], fake["at"]) == ("", str(place))
    assert f"agent.at={place}" in lab("agents", "list").stdout
    doctor = {each["what"]: each for each in json.loads(lab("doctor", "--json").stdout)}
    assert doctor["fake"] | {"needed": False} == doctor["fake"]
    assert (doctor["fake"]["works"], doctor["fake"]["detail"]) == (True, f"agent.at={place}")
    assert "install it with: npm install -g @openai/codex" in doctor["codex"]["detail"] or doctor["codex"]["works"]
    with pytest.raises(ConfigError, match=rf"fake-agent is not on the PATH\): set agent\.at={place}"):
        find_executable(find_program("fake"), "")


@pytest.mark.parametrize("none", [None, ""])
def test_no_program_is_the_labs_own_loop(none: str | None) -> None:
    assert AgentConfig(program=none).program == ""  # type: ignore[arg-type]


def test_an_unknown_policy_is_told_those_of_its_module() -> None:
    with pytest.raises(
        ConfigError, match=r"tasks\.learner:oracle: oracle does not exist in tasks\.learner; it has: learner, noop$"
    ):
        load_policy("tasks.learner:oracle", {})
