"""`hermes-lab env`: groups to a server and to files, held-out rates, and what a lock forbids."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from fakes.command import lab
from fakes.ledger_sampler import LedgerSampler
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.commit import package_version
from hermes_lab.envs.atropos.config import check_sampling
from hermes_lab.envs.groups import read_groups
from hermes_lab.errors import ConfigError
from hermes_lab.records import read_episodes
from hermes_lab.runners.environments.lock import load_locked
from hermes_lab.runners.environments.runs import run_serve
from hermes_lab.training.lock import load_lock, write_lock

HERMES_LAB = str(Path(sys.executable).parent / "hermes-lab")
ROOT = Path(__file__).parents[2]

LOCKED = """
base_model: packaged
tokenizer: packaged
rollout_server_url: http://127.0.0.1:8001/v1
max_token_length: 777
learning_rate: 0.001
warmup_steps: 0
total_steps: 2
batch_size: 1
lora_rank: 8
lora_alpha: 16
lora_target: all-linear
save_checkpoint_interval: 1
seed: 0
use_wandb: false
grpo:
  group_size: 6
  groups_per_round: 1
  steps_per_round: 1
  temperature: 0.9
  max_reply_tokens: 99
  clip_epsilon: 0.2
  max_batches_offpolicy: 0
  max_num_workers: 5
  worker_timeout: 33
  steps_per_eval: 0
  eval_limit_ratio: 0.5
  inference_weight: 2.0
"""


@pytest.fixture
def model() -> Iterator[FakeOpenAIServer]:
    with running(FakeOpenAIServer(LedgerSampler(4, splits=("train", "heldout")))) as server:
        yield server


def env(tmp_path: Path, verb: str, base_url: str, *options: str) -> subprocess.CompletedProcess[str]:
    _, *given = arguments(verb, base_url, *options)
    with contextlib.chdir(tmp_path):
        return lab(*given)


def arguments(verb: str, base_url: str, *options: str) -> list[str]:
    given = [
        f"model.base_url={base_url}",
        "model.name=fake",
        "suite.count=4",
        "env.max_token_length=100000",
        "env.group_size=4",
    ]
    sources = [str(ROOT / "configs/env/atropos.yaml"), *given]
    return [HERMES_LAB, "env", verb, *(part for source in sources for part in ("-c", source)), *options]


def test_process_writes_what_a_server_would_get_and_a_page(model: FakeOpenAIServer, tmp_path: Path) -> None:
    done = env(tmp_path, "process", model.base_url, "-n", "3", "-o", "groups.jsonl", "--html")
    assert done.returncode == 0, done.stderr
    assert "3 groups (12 sequences) sent, mean reward 0.50" in done.stdout
    groups = [json.loads(line) for line in (tmp_path / "groups.jsonl").read_text().splitlines()]
    assert [sorted(group["scores"]) for group in groups] == [[0.0, 0.0, 1.0, 1.0]] * 3
    keys = {of["episode"] for group in groups for of in group["overrides"]}
    assert keys == {episode.key for episode in read_episodes(tmp_path / "groups.episodes")}
    page = (tmp_path / "groups.html").read_text()
    assert page.count("<summary><b>ledger") == 3
    assert "&lt;tool_call&gt;" in page
    again = env(tmp_path, "process", model.base_url, "-n", "3", "-o", "groups.jsonl")
    assert (again.returncode, again.stderr) == (2, "hermes-lab: error: groups.jsonl: exists; give another file\n")


def test_process_without_a_usable_group_is_a_failure(model: FakeOpenAIServer, tmp_path: Path) -> None:
    short = ("-c", "env.max_token_length=10")
    done = env(tmp_path, "process", model.base_url, "-n", "2", "-o", "groups.jsonl", *short, "-q")
    assert (done.returncode, done.stderr) == (1, "hermes-lab: error: no usable group, for the reasons above\n")
    assert "0 groups (0 sequences) sent, refused: longer than 10 tokens 2" in done.stdout


def test_process_writes_scored_groups(model: FakeOpenAIServer, tmp_path: Path) -> None:
    done = env(tmp_path, "process", model.base_url, "-n", "2", "-o", "groups.jsonl", "--format", "groups", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert [len(group.rewards) for group in read_groups(tmp_path / "groups.jsonl")] == [4, 4]


def test_evaluate_is_greedy_and_gives_the_rate_with_its_interval(model: FakeOpenAIServer, tmp_path: Path) -> None:
    done = env(tmp_path, "evaluate", model.base_url, "-c", "env.eval_count=4", "-o", "e.json", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ledger heldout: 4/4 (51-100 %) solved, mean reward 1.000; distractors, 0 of 1 rules")
    report = json.loads((tmp_path / "e.json").read_text())
    assert report["lab"] == package_version()
    assert report["success"] == {"count": 4, "of": 4, "rate": 1.0, "low": pytest.approx(0.51, abs=0.01), "high": 1.0}
    assert {label: part["of"] for label, part in report["by_knowledge"].items()} == {
        "distractors, 0 of 1 rules known": 1,
        "lane, 0 of 1 rules known": 1,
        "oracle, 1 of 1 rules known": 2,
    }
    assert {request["temperature"] for request in model.requests} == {0.0}


def check(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    with contextlib.chdir(tmp_path):
        return lab("env", "check", "ledger", *options)


def signal_of(base_url: str, *options: str) -> list[str]:
    _, _, _, *given = arguments("check", base_url, "-n", "3", "--out", "runs", "-q", *options)
    return ["--signal", *given]


def test_check_measures_the_signal_of_a_few_groups(model: FakeOpenAIServer, tmp_path: Path) -> None:
    done = check(tmp_path, *signal_of(model.base_url))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "ledger: groups of 4 rollouts, knowledge mixed"
    assert lines[1] == "  usable    3/3 (44-100 %) groups can be trained on"
    assert lines[2].startswith("  variance  of rewards: 0.333 within groups, 0 between groups, so 100 % of it")
    assert sum(line.startswith("  knowledge ") for line in lines) >= 2
    assert not any(line.startswith("  advice") for line in lines)
    assert len(list(read_episodes(tmp_path / "runs"))) == 12


def test_a_folder_with_episodes_is_refused(model: FakeOpenAIServer, tmp_path: Path) -> None:
    """Their keys would be those of the new ones, which would replace them."""
    assert check(tmp_path, *signal_of(model.base_url)).returncode == 0
    asked = len(model.requests)
    again = check(tmp_path, *signal_of(model.base_url))
    assert again.returncode == 2
    assert again.stderr == (
        "hermes-lab: error: runs: already holds episodes; give another --out, or move the folder away\n"
    )
    assert len(model.requests) == asked


def test_check_of_a_hopeless_model_gives_advice_and_exits_1(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(LedgerSampler(4, hopeless=True))) as model:
        done = check(tmp_path, *signal_of(model.base_url, "--json"))
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["groups"], report["usable"]["count"], report["within"]) == (3, 0, 0.0)
    assert report["refused"] == {"equal rewards": 3}
    assert report["advice"][0].startswith("the rollouts of a task are copies of each other")
    assert sum(part["groups"] for part in report["by_knowledge"].values()) == 3


def test_an_interrupted_check_measures_the_groups_that_are_complete(model: FakeOpenAIServer, tmp_path: Path) -> None:
    given = ["check", "ledger", *signal_of(model.base_url, "-n", "1000", "-c", "suite.count=1000")]
    command = [HERMES_LAB, "env", *[each for each in given if each != "-q"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as checking:
        assert checking.stderr
        assert checking.stdout
        while "3 groups (12 sequences) sent" not in (line := checking.stderr.readline()):
            assert line, "it ended"
        checking.send_signal(signal.SIGINT)
        lines = checking.stdout.read().splitlines()
        assert checking.wait(300) == 130
    groups = int(re.findall(r"/(\d+) ", lines[1])[0])
    assert 3 <= groups < 1000
    assert lines[-1] == "  stopped   interrupted; only the complete groups are measured"


def test_check_says_where_groups_are_refused_for_their_length(model: FakeOpenAIServer, tmp_path: Path) -> None:
    done = check(tmp_path, *signal_of(model.base_url, "-c", "env.max_token_length=10", "--json"))
    report = json.loads(done.stdout)
    assert (done.returncode, report["usable"]["count"], report["refused"]) == (1, 0, {"longer than 10 tokens": 3})
    assert report["advice"] == [
        "env.max_token_length above 10, or less text: agent.prompt=compact, fewer agent.toolsets, a lower "
        "agent.max_iterations (groups are longer than 10 tokens)"
    ]


def test_check_of_a_file_takes_an_environment_that_names_another_suite(tmp_path: Path) -> None:
    """The argument says which suite it is."""
    (tmp_path / "own.jsonl").write_text('{"prompt": "Say a.", "expected_output": "a"}\n')
    with contextlib.chdir(tmp_path):
        done = lab("env", "check", "own.jsonl", *signal_of("http://127.0.0.1:9/v1"))
    assert done.stderr == (
        "hermes-lab: error: env.knowledge: own has no hidden rules that skills could state; set it to none\n"
    )


def test_options_of_the_signal_without_it_are_refused(tmp_path: Path) -> None:
    done = check(tmp_path, "-c", "env.group_size=8")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--config, --lock, --out and --json are for --signal; add it" in done.stderr


def test_an_interrupted_serve_disconnects_and_ends_with_130(model: FakeOpenAIServer, tmp_path: Path) -> None:
    run_api = Path(sys.executable).parent / "run-api"
    if not run_api.exists():
        pytest.skip("run-api is not there; pip install 'hermes-lab[atropos]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "api.log").open("w") as log:
        api = subprocess.Popen([str(run_api), "--host", "127.0.0.1", "--port", str(port)], stdout=log, stderr=log)
    try:
        _wait_for(url)
        registration = {"wandb_group": "g", "wandb_project": "p", "batch_size": 8, "max_token_len": -1}
        later = {"checkpoint_dir": "", "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": -1}
        httpx.post(f"{url}/register", json=registration | later)
        httpx.get(f"{url}/batch")
        command = arguments("serve", model.base_url, "--api-url", url)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as serving:
            assert serving.stderr
            while "mean reward" not in (line := serving.stderr.readline()):
                assert line, "it ended"
            serving.send_signal(signal.SIGINT)
            said = serving.stderr.read().splitlines()
            assert serving.wait(300) == 130
        assert " sent, mean reward " in said[-1]
        unknown = httpx.request("GET", f"{url}/status-env", json={"env_id": 0})
        assert unknown.status_code == 500  # its weight among none that are connected
    finally:
        api.kill()
        api.wait()


def _wait_for(url: str) -> None:
    for _ in range(6000):
        try:
            httpx.get(url)
            return
        except httpx.TransportError:
            time.sleep(0.05)


def test_what_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    done = env(tmp_path, "serve", "http://127.0.0.1:9/v1", "-c", "model.sampling.temperature=0")
    assert done.returncode == 2
    assert done.stderr.startswith("hermes-lab: error: model.sampling.temperature: 0 makes all rollouts of a group")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.provider=scripted", "model.provider: scripted returns no token ids"),
        ("model.token_ids=false", "model.token_ids: must be true"),
        ("suite.split=heldout", "suite.split: heldout is the split of `env evaluate`"),
        ("env.group_size=0", "env.group_size: "),
        ("model.base_url=http://127.0.0.1:9/v1", "is also the address of model.base_url"),
    ],
)
def test_a_configuration_without_groups_is_refused(tmp_path: Path, override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run_serve(["configs/env/atropos.yaml", override], "http://127.0.0.1:9", None, tmp_path, print)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    (tmp_path / "values.yaml").write_text(LOCKED)
    write_lock(tmp_path / "values.yaml", tmp_path / "lock.yaml")
    return tmp_path / "lock.yaml"


def test_a_lock_decides_what_it_holds(lock: Path) -> None:
    config = load_locked(["configs/env/atropos.yaml", "model.sampling.temperature=0.9"][1:], lock)
    assert (config.env.group_size, config.env.max_token_length, config.env.weight) == (6, 777, 2.0)
    assert (config.env.max_batches_offpolicy, config.run.concurrency) == (0, 5)
    assert (config.agent.max_seconds, config.model.timeout) == (33, 33)
    assert (config.model.sampling.temperature, config.model.sampling.max_tokens) == (0.9, 99)
    assert config.model.base_url == "http://127.0.0.1:8001/v1"


@pytest.mark.parametrize(
    ("override", "field", "value"),
    [
        ("env.group_size=8", "grpo.group_size", "6"),
        ("env.max_token_length=778", "max_token_length", "777"),
        ("env.weight=3", "grpo.inference_weight", "2.0"),
        ("env.max_batches_offpolicy=9", "grpo.max_batches_offpolicy", "0"),
        ("run.concurrency=64", "grpo.max_num_workers", "5"),
        ("agent.max_seconds=9999", "grpo.worker_timeout", "33"),
        ("model.timeout=9999", "grpo.worker_timeout", "33"),
        ("model.sampling.temperature=2.0", "grpo.temperature", "0.9"),
        ("model.base_url=http://elsewhere/v1", "rollout_server_url", "http://127.0.0.1:8001/v1"),
        ("model.name=other", "base_model", "packaged"),
        ("model.server.args=[--model, other]", "base_model", "packaged"),
    ],
)
def test_an_override_of_a_locked_value_is_refused(lock: Path, override: str, field: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is locked at '?{value}") as refused:
        load_locked([override], lock)
    assert "train lock" in str(refused.value)


def documented_pairs() -> list[tuple[Path, Path]]:
    """The configurations and locks that documented commands give together."""
    shown = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("configs/env/*.yaml"), ROOT / "runners/commands/environments.py"]
    text = " ".join(re.sub(r"[\s#\\\"]+", " ", path.read_text()) for path in shown)
    found = re.findall(r"env \w+ -c (configs/env/\S+) --lock (configs/locks/\S+?\.yaml)", text)
    return sorted({(ROOT / config, ROOT / lock) for config, lock in found})


def test_every_documented_environment_fits_its_lock() -> None:
    pairs = documented_pairs()
    assert {config.name for config, _ in pairs} == {"locked.yaml", "reviews-locked.yaml"}
    for path, lock in pairs:
        config = load_locked([str(path)], lock)
        check_sampling(config)
        assert config.env.group_size == load_lock(lock).grpo.group_size  # type: ignore[union-attr]


@pytest.mark.parametrize(("whole", "part"), [("atropos", "locked"), ("reviews", "reviews-locked")])
def test_an_environment_for_a_lock_is_the_shipped_one_without_locked_values(whole: str, part: str) -> None:
    values = {name: yaml.safe_load((ROOT / f"configs/env/{name}.yaml").read_text()) for name in (whole, part)}
    for section, given in values[part].items():
        assert given.items() <= values[whole][section].items()
    locked = {"model": {"base_url", "name", "sampling"}, "env": {"group_size", "reviews"}, "run": {"concurrency"}}
    for section, given in values[whole].items():
        assert set(given) - set(values[part].get(section, {})) <= locked.get(section, set())


def test_a_server_of_its_own_is_refused_under_a_lock(lock: Path) -> None:
    with pytest.raises(ConfigError, match="locks the rollout server to"):
        load_locked(["model.provider=vllm"], lock)


def test_the_environment_is_asked_under_a_lock(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="WORLD_SIZE=2: it would change batch_size"):
        load_locked([], lock)


def test_a_changed_lock_is_refused(lock: Path) -> None:
    lock.write_text(lock.read_text().replace("777", "778"))
    with pytest.raises(ConfigError, match="a locked field was changed by hand"):
        load_locked([], lock)
