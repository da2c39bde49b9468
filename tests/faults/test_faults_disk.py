"""A disk that fills up in mid-run, really: a small file system of its own."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.episodes import episode
from fakes.openai_server import FakeOpenAIServer, Reply, running
from lab_process import count, keys, lab_alone, on_endpoint

from hermes_lab.records import EpisodeLog, episode_files, read_episodes

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root"),
]
TASKS = 30


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with running(FakeOpenAIServer([Reply("x" * 20_000)])) as started:  # about 40 kB an episode
        yield started


def test_a_full_disk_ends_the_run_with_one_line_and_with_space_it_goes_on(
    small_disk: Path, server: FakeOpenAIServer, tmp_path: Path
) -> None:
    wanted = [{"prompt": f"Task {number}."} for number in range(TASKS)]
    run = small_disk / "run"
    args = ["run", *on_endpoint(server.base_url, tmp_path, wanted, run__concurrency=2), "--out", run, "--quiet"]
    full = lab_alone(*args)
    assert full.returncode == 3
    (line,) = full.stderr.splitlines()
    assert "No space left on device" in line
    assert str(run) in line
    finished = {found.key for found in read_episodes(run)}
    assert 0 < len(finished) == count(run) < TASKS
    (log,) = episode_files(run)
    assert not log.read_bytes().endswith(b"\n"), "the line that did not fit was cut"
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    went_on = lab(*args, "--resume")
    assert went_on.returncode == 0, went_on.stderr
    assert len(keys(run)) == len(set(keys(run))) == TASKS


def test_a_disk_that_is_full_from_the_start_is_said_in_one_line_and_nothing_is_left_half_written(
    small_disk: Path, server: FakeOpenAIServer, tmp_path: Path
) -> None:
    (small_disk / "other").write_bytes(b"x" * 256 * 1024)
    args = ["run", *on_endpoint(server.base_url, tmp_path, [{"prompt": "Go."}]), "--out"]
    full = lab_alone(*args, small_disk / "run")
    assert full.returncode == 3
    (line,) = full.stderr.splitlines()
    assert "No space left on device" in line
    assert server.requests == []
    assert [path.name for path in (small_disk / "run").iterdir()] == [".lock"]


@pytest.mark.anyio
async def test_no_line_is_appended_to_one_that_did_not_fit(small_disk: Path) -> None:
    """Space that comes back while the run is ending must not make the cut line whole."""
    (small_disk / "other").write_bytes(b"x" * 200 * 1024)
    log = EpisodeLog(small_disk)
    await log.append(episode("fits"))
    with pytest.raises(OSError, match="No space left"):
        await log.append(episode("x" * 100_000))
    (small_disk / "other").unlink()
    with pytest.raises(OSError, match="No space left"):
        await log.append(episode("fits again"))
    log.close()
    assert [found.task_id for found in read_episodes(small_disk)] == ["fits"]
