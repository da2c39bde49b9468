"""A run whose sandboxes are on a machine reached by ssh, and whose connections are cut again and again."""

import threading
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.sshd import Sshd, running_sshd
from lab_process import count, finish, keys, learner_tasks, options, rows, start

from hermes_lab.records import read_attempts
from hermes_lab.types import Episode

pytestmark = pytest.mark.timeout(600)
TASKS, CUTS = 24, 2


def there(server: Sshd) -> list[str]:
    """Options: sandboxes on the server."""
    ssh = server.config().ssh
    named = {f"sandbox__ssh__{field}": getattr(ssh, field) for field in ("host", "port", "key_file", "known_hosts")}
    return options(sandbox__backend="ssh", sandbox__ssh__python="/usr/bin/python3", **named)


def test_episodes_that_lost_their_connection_are_errored_and_run_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with running_sshd() as server:
        args = [*learner_tasks(TASKS, 8), *there(server), "--out", str(run)]
        cuts = written = 0
        for number in range(CUTS + 10):
            process = start(*args, *(["--resume"] if number else []))
            ended = threading.Event()
            threading.Thread(target=lambda: (process.wait(), ended.set()), daemon=True).start()  # noqa: B023
            while cuts < CUTS and not ended.wait(0.05):
                if (run / "run.json").exists() and count(run) > written and server.children():
                    server.kill_children()
                    cuts, written = cuts + 1, count(run) + 8
            code, said = finish(process)
            if code == 0:
                break
            assert "the connection was lost" in said
        assert (code, cuts) == (0, CUTS)
    undisturbed = lab(*learner_tasks(TASKS, 8), "--out", tmp_path / "here")
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert rows(run) == rows(tmp_path / "here")
    errored = [each for each in read_attempts(run, Episode) if each.status != "ok"]
    assert len(keys(run)) == TASKS + len(errored)
    assert {each.error.kind for each in errored if each.error} == {"sandbox"}
    assert all(each.score is None for each in errored)
