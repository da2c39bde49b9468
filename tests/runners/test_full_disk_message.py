"""What a command says of a full disk: only those that run episodes keep some."""

import errno
import os

import pytest
from fakes.command import lab

from hermes_lab.runners import cli


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("run",), "a: No space left on device; finished episodes are kept\n"),
        (("update",), "a: No space left on device\n"),
        (("skills", "sync"), "a: No space left on device\n"),
    ],
)
def test_finished_episodes_are_spoken_of_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], said: str
) -> None:
    class Full:
        """The command line, whose commands find the disk full."""

        def __getattr__(self, name: str) -> object:
            return getattr(app, name)

        def __call__(self, **options: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a")

    app = cli.app
    monkeypatch.setattr(cli, "app", Full())
    done = lab(*command)
    assert done.returncode == 3
    assert done.stderr == f"hermes-lab: error: {said}"
