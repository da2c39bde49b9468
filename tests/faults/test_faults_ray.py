"""Runs on a real Ray cluster of three nodes on this machine: the same rows as here, and nothing lost where a worker, a
node or the driver is killed."""

import os
import random
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fakes.command import lab
from fakes.ledger_sampler import LedgerSampler
from fakes.openai_server import FakeOpenAIServer, running
from lab_process import (
    check_same_commands,
    check_same_lanes,
    count,
    finish,
    keys,
    lab_alone,
    learner_tasks,
    options,
    rows,
    start,
    wait_until,
)

pytest.importorskip("ray", reason="the extra `ray` is not installed")

from ray.cluster_utils import Cluster

pytestmark = pytest.mark.long

TASKS, MANY = 24, 32
CONFIGS = Path(__file__).parents[2] / "configs"


class Nodes:
    """A cluster: a head without room for workers, two nodes with room for two each, and how they are killed. Their
    sandboxes are in `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._cluster = Cluster()
        self._cluster.add_node(num_cpus=0, object_store_memory=80_000_000, include_dashboard=False)
        self.address = self._cluster.address
        # A GPU of a node is a number that it is started with; nothing here computes on one.
        self._added = [self._add(), self._add({"special": 2}, num_gpus=2)]

    def _add(self, resources: dict[str, float] | None = None, **more: int):
        return self._cluster.add_node(num_cpus=2, object_store_memory=80_000_000, resources=resources or {}, **more)

    def kill_one(self) -> None:
        """With -9, the node and all of its processes; another one comes in its place."""
        self._cluster.remove_node(self._added.pop(0), allow_graceful=False)

    def restore(self) -> None:
        """The two nodes that there were."""
        if len(self._added) == 1:
            self._added.insert(0, self._add())

    def close(self) -> None:
        self._cluster.shutdown()

    def special(self) -> int:
        """The process that starts the workers of the node with that resource."""
        return self._added[-1].all_processes["raylet"][0].process.pid

    def sandboxes(self) -> list[str]:
        """The processes inside of sandboxes, which have their workspace mounted."""
        return [
            process.name
            for process in Path("/proc").glob("[0-9]*")
            if f"{self.scratch.name}/" in _read(process / "mountinfo")
        ]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    # A short path: Ray has its sockets there, too.
    with tempfile.TemporaryDirectory(prefix="hl", dir="/tmp") as scratch, pytest.MonkeyPatch.context() as patched:
        Path(scratch).chmod(0o755)  # a sandbox has a user of its own
        patched.setenv("TMPDIR", scratch)
        started = Nodes(Path(scratch))
        yield started
        started.close()


def on_ray(nodes: Nodes, **more: object) -> list[str]:
    return options(run__executor="ray", run__ray__address=nodes.address, **more)


def on_two(nodes: Nodes) -> list[str]:
    """Where it does not matter on which nodes the workers are: each loads the package anew."""
    return on_ray(nodes, run__ray__workers=2)


def tasks(number: int = TASKS) -> list[str]:
    return learner_tasks(number, concurrency=8)


def workers() -> dict[int, int]:
    """The processes of all workers, and their parents. What a worker starts has its name, too, until it executes its
    own program."""
    named = [
        process.info
        for process in psutil.process_iter(["pid", "ppid", "cmdline"])
        if (process.info["cmdline"] or [""])[0].startswith("ray::RayWorker")
    ]
    pids = {process["pid"] for process in named}
    return {process["pid"]: process["ppid"] for process in named if process["ppid"] not in pids}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    """The rows of the run in this process."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    assert lab(*tasks(), "--out", out).returncode == 0
    return rows(out)


def test_a_run_on_the_cluster_has_the_rows_of_one_here(nodes: Nodes, tmp_path: Path) -> None:
    check_same_commands(tmp_path, on_two(nodes), MANY, concurrency=8)


def test_what_lanes_learn_on_the_cluster_is_what_they_learn_here(nodes: Nodes, tmp_path: Path) -> None:
    check_same_lanes(tmp_path, on_two(nodes))


def kill_a_worker(nodes: Nodes) -> None:
    del nodes
    os.kill(random.choice(list(workers())), signal.SIGKILL)


def kill_a_node(nodes: Nodes) -> None:
    nodes.kill_one()


@pytest.mark.parametrize("kill", [kill_a_worker, kill_a_node])
def test_what_a_dead_worker_had_begun_is_run_on_another(
    nodes: Nodes, undisturbed: list[tuple[object, ...]], kill: Callable[[Nodes], None], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(*tasks(), *on_ray(nodes), "--out", out)
    wait_until(lambda: count(out) >= TASKS // 4, process)
    kill(nodes)
    code, errors = finish(process)
    nodes.restore()
    assert code == 0, errors
    wait_until(lambda: not nodes.sandboxes())
    assert len(keys(out)) == TASKS
    assert rows(out) == undisturbed


def test_workers_that_die_with_nothing_to_do_are_in_nobodys_way(nodes: Nodes, tmp_path: Path) -> None:
    process = start(*tasks(), *on_ray(nodes, run__concurrency=1, run__ray__workers=4), "--out", tmp_path / "run")
    wait_until(lambda: count(tmp_path / "run") >= 5 and len(workers()) == 4, process)
    for worker in random.sample(list(workers()), 2):  # no more than one of them is busy
        os.kill(worker, signal.SIGKILL)
    code, errors = finish(process)
    assert code == 0, errors
    assert "Traceback" not in errors
    assert len(keys(tmp_path / "run")) == TASKS


def test_a_killed_driver_leaves_no_worker_and_resume_does_the_rest(
    nodes: Nodes, undisturbed: list[tuple[object, ...]], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(*tasks(), *on_two(nodes), "--out", out)
    wait_until(lambda: count(out) >= TASKS // 4, process)
    process.kill()
    finish(process)
    wait_until(lambda: not workers() and not nodes.sandboxes())
    done = lab_alone(*tasks(), *on_two(nodes), "--out", out, "--resume")
    assert done.returncode == 0, done.stderr
    assert rows(out) == undisturbed
    assert len(keys(out)) == TASKS


def test_an_interrupt_ends_workers_and_sandboxes(nodes: Nodes, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(*tasks(500), *on_two(nodes), "--out", out)
    wait_until(lambda: count(out) >= 5 and nodes.sandboxes(), process)
    process.send_signal(signal.SIGINT)
    code, errors = finish(process)
    assert code == 130, errors
    assert "continue with --resume" in errors
    wait_until(lambda: not workers() and not nodes.sandboxes())


def test_groups_of_an_environment_are_sampled_on_the_cluster(nodes: Nodes, tmp_path: Path) -> None:
    with running(FakeOpenAIServer(LedgerSampler(4))) as model:
        given = options(
            model__base_url=model.base_url,
            model__name="fake",
            suite__count=4,
            env__max_token_length=100000,
            env__group_size=4,
        )
        asked = [
            "-c",
            CONFIGS / "env" / "atropos.yaml",
            *given,
            *on_two(nodes),
            "-n",
            2,
            "-o",
            tmp_path / "groups.jsonl",
        ]
        done = lab_alone("env", "process", *asked)
    assert done.returncode == 0, done.stderr
    assert "2 groups (8 sequences) sent" in done.stdout


@pytest.mark.parametrize("resources", ["{special: 1}", "{GPU: 1, memory: 1000000}"])
def test_workers_go_where_their_resources_are(nodes: Nodes, resources: str, tmp_path: Path) -> None:
    there = on_ray(nodes, run__ray__resources=resources)
    wait_until(lambda: not workers())  # those of the tests before
    process = start(*tasks(40), *there, "--out", tmp_path / "run")  # enough to be looked at before they end
    found = wait_until(lambda: len(now := workers()) == 2 and now, process)
    assert {*found.values()} == {nodes.special()}
    assert finish(process)[0] == 0


def test_more_workers_than_their_resources_allow_are_refused(nodes: Nodes, tmp_path: Path) -> None:
    there = on_ray(nodes, run__ray__resources="{GPU: 1, special: 1}", run__ray__workers=3)
    refused = lab_alone(*tasks(8), *there, "--out", tmp_path / "run")
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "hermes-lab: error: run.ray.workers: the cluster has room for 2 of them, not 3"
    ]


@pytest.mark.parametrize(
    ("options_", "error"),
    [
        ({"run__ray__resources": "{gpu_that_is_not_there: 1}"}, "run.ray: no node of the cluster has"),
        ({"run__ray__address": "127.0.0.1:1"}, "run.ray.address: 127.0.0.1:1:"),
        (
            {"run__ray__resources": "{CPU: 1}"},
            "override run.ray.resources={CPU: 1}: run.ray.resources: set CPUs with run.ray.cpus",
        ),
    ],
)
def test_a_cluster_that_cannot_do_it_is_told_in_one_line(
    nodes: Nodes, options_: dict[str, object], error: str, tmp_path: Path
) -> None:
    failed = lab_alone(*tasks(4), *on_ray(nodes), *options(**options_), "--out", tmp_path / "run")
    assert failed.returncode == 2
    (line,) = failed.stderr.splitlines()
    assert line.startswith(f"hermes-lab: error: {error}")
