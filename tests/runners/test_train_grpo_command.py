"""`hermes-lab train grpo`: its plan, a probe, and the end of a hopeless training, at a scripted server."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.command import lab
from fakes.ledger_sampler import LedgerSampler
from fakes.openai_server import FakeOpenAIServer, running
from fakes.training import hardware, smoke_lock

from hermes_lab.training import machine, plan
from hermes_lab.training.grpo_config import load_grpo_config
from hermes_lab.training.grpo_plan import evaluation_steps, group_chance
from hermes_lab.training.lock import load_lock
from hermes_lab.training.speed import Speed

Arguments = Callable[..., list[str]]

SIZES = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of steps of 100,000 tokens is told, not measured."""
    monkeypatch.setattr(plan, "measure_speed", lambda *_: Speed(1e12, 1e12, "told"))


@contextmanager
def served(tmp_path: Path, *, hopeless: bool, gpu: bool = False) -> Iterator[tuple[FakeOpenAIServer, list[str]]]:
    """A server of the ledger's first world, and the arguments of a training at it, on a CPU or on a GPU."""
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(SIZES))
    for name in ("model.safetensors", "tokenizer_config.json"):
        (base / name).write_text("{}")
    sampler = LedgerSampler(8, seeds=(1,), hopeless=hopeless)
    with running(FakeOpenAIServer(sampler, models=[str(base)])) as server:
        lock = smoke_lock(
            tmp_path,
            "grpo",
            base_model=str(base),
            tokenizer=str(base),
            rollout_server_url=server.base_url,
            max_token_length=100_000,
            total_steps=6,
            grpo={"steps_per_eval": 2, "max_num_workers": 2},
            curriculum={"min_success": 0.2, "max_success": 0.8, "memory_rounds": 4},
            **({"hardware": hardware()} if gpu else {}),
        )
        train = tmp_path / "grpo.yaml"
        train.write_text(
            f"lock: {lock}\n"
            f"adapters: {tmp_path}/adapters\n"
            f"out: {tmp_path}/out\n"
            "rollouts: [suite.name=ledger, 'learning.arms=[off]', agent.tool_format=hermes, agent.max_iterations=6]\n"
            "heldout: [suite.name=ledger, suite.split=heldout, 'learning.arms=[off]', model.sampling.temperature=0]\n"
        )
        yield server, ["train", "grpo", "-c", str(train)]


def test_the_plan_says_what_runs_without_asking_the_server(tmp_path: Path) -> None:
    with served(tmp_path, hopeless=True, gpu=True) as (server, train):
        before = sorted(tmp_path.iterdir())
        done = lab(*train, "--plan")
        assert server.requests == []
    assert (done.returncode, done.stderr) == (2, "")
    assert sorted(tmp_path.iterdir()) == before
    text = " ".join(done.stdout.split())
    for part in (
        "rounds 6, each 2 groups of 4 rollouts at temperature 1, then 1 step on the usable groups: 48 rollouts",
        "tasks ledger (train), arms off; worlds 0 to 5, 1 a round",
        "knowledge 2 of 2 tasks have a hidden rule that nothing states before the first submission, so few of their "
        "rollouts solve them: set env.knowledge=mixed",
        "held-out at steps 0, 2, 4, 6: 4 tasks each of ledger (heldout), arms off, temperature 0; a rate is known to "
        "about 49 points",
        "tokens at most 6 replies of 192 tokens a rollout, 55,296 sampled in all",
        "expected usable groups by success rate: 1 % -> 4 %, 5 % -> 19 %, 20 % -> 59 %",
        "variance within a group, expected by success rate p, p (1 - p) for rewards of 0 or 1: 1 % -> 0.0099, 5 % ->",
        "chance that the first round has none: 92 % at 1 % solved, 66 % at 5 % solved",
        "GB of 24.0 GB on a 24 GB GPU (not in this machine), without the server: weights 0.00, adapter",
        "for the steps, without the rollouts;",
        "s a step (assumed: 35 TFLOP/s for a GPU of 24 GB)",
        "server refused, unless it already runs at http://127.0.0.1:",
        "start refused: the lock is for a GPU of 24 GB, and PyTorch sees none: train on a machine with one",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("free", "code", "start"),
    [
        (2_000_000, 0, "possible, but memory may run out: in the worst case (full-length rollouts, no shared prefix)"),
        (500_000, 2, "refused: weights, adapter and libraries alone need 0.9 GB, and this CPU has 0.5 GB free: end "),
    ],
)
def test_the_plan_compares_memory_before_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, code: int, start: str
) -> None:
    monkeypatch.setattr(machine, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text(f"MemAvailable: {free} kB\n")
    monkeypatch.setattr(plan, "measure_speed", lambda *_: pytest.fail("measured"))
    with served(tmp_path, hopeless=True) as (_, train):
        (tmp_path / "large").mkdir()
        base = str(tmp_path / "base")
        lock = smoke_lock(tmp_path / "large", "grpo", base_model=base, tokenizer=base, max_token_length=10_000_000)
        done = lab(*train, "--plan", "-c", f"lock={lock}")
    assert done.returncode == code
    assert f"  start     {start}" in done.stdout
    assert "  time      not measured: too little memory is free" in done.stdout


def test_the_plan_does_not_measure_on_a_gpu_that_a_server_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its memory counts for the steps, before which the server gives it back."""
    gpu = plan.Place("a GPU", 24e9, gpu=True, here=True, shared=False)
    monkeypatch.setattr(plan, "find_place", lambda *_, **__: gpu)
    monkeypatch.setattr(plan, "free_gpu_memory", lambda _: 0.5e9)
    monkeypatch.setattr(plan, "measure_speed", lambda *_: pytest.fail("measured"))
    with served(tmp_path, hopeless=True) as (_, train):
        done = lab(*train, "--plan")
    assert (done.returncode, done.stderr) == (0, "")
    assert "not measured: too little memory is free" in done.stdout
    assert "start     possible" in done.stdout


def test_the_plan_of_a_curriculum_names_its_families(tmp_path: Path) -> None:
    with served(tmp_path, hopeless=True, gpu=True) as (_, train):
        done = lab(
            *train,
            "--plan",
            "-c",
            "families={few: [suite.options.ruled=1], many: [suite.options.ruled=6, env.knowledge=oracle]}",
        )
    text = " ".join(done.stdout.split())
    assert (
        "tasks 1 few: ledger (train, ruled=1), arms off tasks 2 many: ledger (train, ruled=6), knowledge oracle" in text
    )
    assert "knowledge many: of 1 task: 1 oracle, " in text  # as many as the first round draws
    assert (
        "families first round 1 few, 1 many; later rounds use families with a success rate of 20-80 % over the last 4 "
        "rounds, and untried ones" in text
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollouts=[suite.name=ledgr, 'learning.arms=[off]']", "no suite 'ledgr'; did you mean ledger"),
        (
            "rollouts=[suite.name=ledger, suite.split=validation, 'learning.arms=[off]']",
            "suite.split 'validation' is not in gate.splits",
        ),
        (
            "rollouts=[suite.name=ledger, 'learning.arms=[off]', judge.model.provider=openai, judge.model.name=j, "
            "'judge.model.base_url=http://127.0.0.1:1/v1']",
            "judge: no task of ledger has a rubric",
        ),
        (
            "heldout=[suite.name=ledger, suite.split=heldout, 'learning.arms=[off]', judge.model.provider=openai, "
            "judge.model.name=j, 'judge.model.base_url=http://127.0.0.1:1/v1']",
            "judge: no task of ledger has a rubric",
        ),
        (
            "rollouts=[suite.name=ledger, 'learning.arms=[off]', agent.program=claude, agent.at=/none]",
            "agent.at: /none does not exist",
        ),
        ("gate.compress=true", "gate.compress: not supported by GRPO"),
        ("parent=none", "no such adapter"),
        ("resume=true", "contains no training; start without resume"),
        ("grpo.temperature=2", "grpo.temperature is locked at 1.0"),
    ],
)
def test_the_plan_refuses_what_the_training_would(tmp_path: Path, override: str, message: str) -> None:
    with served(tmp_path, hopeless=True, gpu=True) as (_, train):
        done = lab(*train, "--plan", "-c", override)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_probe_measures_a_few_groups(tmp_path: Path) -> None:
    with served(tmp_path, hopeless=False) as (_, train):
        done = lab(*train, "--plan", "--probe", "2", "--quiet")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "probe 2 of 2 groups usable: 4 of 8 rollouts solved, rewards 0 to 1" in text
    assert "about 2.0 of 2 in a round, none with probability 0 %" in text
    assert "usable 2/2 (34-100 %) groups can be trained on" in text
    assert "variance of rewards: 0.333 within groups, 0 between groups, so 100 % of it can be learned from" in text
    assert "knowledge a hidden rule: 2/2 (34-100 %) groups usable, 4 of 8 rollouts solved" in text
    assert not (tmp_path / "out").exists()


def test_a_hopeless_probe_gives_the_advice(tmp_path: Path) -> None:
    with served(tmp_path, hopeless=True) as (_, train):
        done = lab(*train, "--plan", "--probe", "1", "--quiet")
    assert done.returncode == 2
    assert "probe: no usable group in round 1 (1 with equal rewards): 0 of 4 rollouts solved" in done.stderr
    assert "most rollouts call no tool in the format 'hermes'" in done.stderr


def test_the_plan_counts_what_the_tasks_of_the_first_round_know(tmp_path: Path) -> None:
    with served(tmp_path, hopeless=True, gpu=True) as (_, train):
        given = "rollouts=[suite.name=ledger, 'learning.arms=[off]', env.knowledge=mixed]"
        done = lab(*train, "--plan", "-c", given)
    text = " ".join(done.stdout.split())
    assert "tasks ledger (train), knowledge mixed; worlds 0 to 5" in text
    assert re.search(r"knowledge of 2 tasks: (1 [a-z]+, 1 of 1 rules known|\d [a-z]+, [\w ]+)", text)


def test_a_probe_without_a_plan_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, hopeless=True) as (server, train):
        done = lab(*train, "--probe", "1")
        assert server.requests == []
    assert (done.returncode, "--probe needs --plan" in done.stderr) == (2, True)


def test_a_hopeless_training_costs_one_round_and_no_evaluation(tmp_path: Path) -> None:
    with served(tmp_path, hopeless=True) as (server, train):
        done = lab(*train)
        asked = len(server.requests)
        again = lab(*train, "--resume")
        assert len(server.requests) == asked
    assert (done.returncode, done.stdout) == (2, "")
    error = done.stderr.splitlines()[-1]
    assert error.startswith("hermes-lab: error: train: no usable group in round 1 (2 with equal rewards): 0 of 8")
    assert again.stderr.splitlines()[-1] == error
    assert not (tmp_path / "adapters").exists()
    assert not list((tmp_path / "out").glob("heldout-*"))
    assert not (tmp_path / "out" / "round-2").exists()
    planned = lab(*train, "--plan")
    assert (planned.returncode, planned.stdout) == (2, "")
    assert "out already contains a training; continue it with --resume" in planned.stderr
    assert "1 of 6 rounds are done" in lab(*train, "--plan", "--resume").stdout


@pytest.mark.parametrize(
    ("steps", "per_round", "every", "at"),
    [(8, 2, 4, [0, 4, 8]), (8, 2, 0, []), (6, 2, 4, [0, 4, 6]), (3, 1, 2, [0, 2, 3]), (4, 4, 100, [0, 4])],
)
def test_the_steps_of_evaluations(tmp_path: Path, steps: int, per_round: int, every: int, at: list[int]) -> None:
    lock = smoke_lock(tmp_path, "grpo", total_steps=steps, grpo={"steps_per_round": per_round, "steps_per_eval": every})
    locked = load_lock(Path(lock))
    assert locked.grpo
    assert evaluation_steps(locked, locked.grpo) == at


def test_the_chance_of_a_usable_group() -> None:
    assert group_chance(0.0, 8) == group_chance(1.0, 8) == 0.0
    assert group_chance(0.5, 2) == pytest.approx(0.5)
    assert group_chance(0.2, 8) == pytest.approx(1 - 0.2**8 - 0.8**8)


def test_families_may_be_given_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "hard.yaml").write_text("suite: {options: {ruled: 7}}\n")
    lock = smoke_lock(tmp_path, "grpo")
    (tmp_path / "t.yaml").write_text(f"lock: {lock}\nrollouts: [suite.name=ledger]\nfamilies: {{hard: [hard.yaml]}}\n")
    assert load_grpo_config([str(tmp_path / "t.yaml")]).families == {"hard": (str(tmp_path / "hard.yaml"),)}
