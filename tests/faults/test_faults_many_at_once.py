"""Hundreds of rollouts at once in one process."""

from pathlib import Path

import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, running
from lab_process import keys, on_endpoint

from hermes_lab.records import read_episodes

TASKS, SAMPLES, AT_ONCE = 200, 2, 200


@pytest.mark.timeout(120)
def test_200_rollouts_run_at_once_and_all_400_are_finished(tmp_path: Path) -> None:
    """The server answers nobody before all of the first 200 ask at once, and everybody after 50 ms."""
    wanted = [{"prompt": f"Task {number}.", "expected_output": "Done."} for number in range(TASKS)]
    run = tmp_path / "run"
    with running(FakeOpenAIServer([Reply("Done.", delay=0.05)], gather=AT_ONCE)) as server:
        chosen = on_endpoint(server.base_url, tmp_path, wanted, run__samples=SAMPLES, run__concurrency=AT_ONCE)
        done = lab("run", *chosen, "--out", run, "--quiet")
    assert done.returncode == 0, done.stderr
    assert server.most_at_once == AT_ONCE
    assert len(keys(run)) == len(set(keys(run))) == len(server.requests) == TASKS * SAMPLES
    assert {episode.score for episode in read_episodes(run)} == {1.0}
