"""A temporary folder for the processes of each module, in which none may be left alive."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_process import ended_in


@pytest.fixture(autouse=True, scope="module")
def scratch() -> Iterator[Path]:
    """`TMPDIR` of every command that the tests of a module start, and so where its sandboxes are."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    folder.chmod(0o755)  # sandboxes are another user's
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        yield folder
    assert ended_in(folder)
    shutil.rmtree(folder)
