"""The table of promises in docs/backends.md is what the backends say."""

from pathlib import Path
from typing import get_args

import pytest
from fakes.command import lab

from hermes_lab.config.sandboxes import Promise, SandboxConfig, SshConfig
from hermes_lab.sandbox.backends import unkept

PAGE = Path(__file__).parents[3] / "docs" / "backends.md"
BEGIN, END = "<!-- promises -->\n", "<!-- end of promises -->"
BACKENDS = {
    "bubblewrap": SandboxConfig(),
    "docker": SandboxConfig(backend="docker"),
    "apptainer": SandboxConfig(backend="apptainer"),
    "modal": SandboxConfig(backend="modal"),
    "ssh": SandboxConfig(backend="ssh"),
    "ssh, `isolation: none`": SandboxConfig(backend="ssh", ssh=SshConfig(isolation="none")),
    "daytona": SandboxConfig(backend="daytona"),
    "local": SandboxConfig(backend="local", allow_local=True),
}


def table() -> str:
    rows = [f"| guarantee | {' | '.join(BACKENDS)} |", "|---" * (len(BACKENDS) + 1) + "|"]
    for promise in get_args(Promise):
        cells = ("no" if promise in unkept(config) else "yes" for config in BACKENDS.values())
        rows.append(f"| `{promise}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def test_the_page_says_what_the_backends_say() -> None:
    assert table() == PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


@pytest.mark.parametrize("promise", sorted(unkept(BACKENDS["local"])))
def test_a_promise_that_is_required_and_not_kept_stops_a_run_before_it_starts(promise: str, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"prompt": "Say hello to me.", "verify": "true"}\n')
    local = ("-c", "sandbox.backend=local", "-c", "sandbox.allow_local=true", "-c", f"sandbox.require=[{promise}]")
    suite = (
        "-c",
        f"suite.path={tasks}",
        "-c",
        "model.provider=scripted",
        "-c",
        "model.name=hermes_lab.tasks.learner:noop",
    )
    done = lab("run", *suite, *local, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"hermes-lab: error: sandbox.require: sandbox.backend=local does not keep {promise}: "
    )
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_promise_that_nobody_knows_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    done = lab("run", "-c", "suite.name=ledger", "-c", "sandbox.require=[privacy]", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "sandbox.require" in done.stderr
    assert "'no_network'" in done.stderr


@pytest.mark.parametrize("backend", ["singularity", "apptainer"])
def test_singularity_is_another_name_of_apptainer(backend: str) -> None:
    assert SandboxConfig.model_validate({"backend": backend}).backend == "apptainer"
