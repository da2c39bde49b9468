"""`HermesLabAtroposEnv` under atroposlib's own commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.ledger_sampler import LedgerSampler
from fakes.openai_server import FakeOpenAIServer, running
from test_serve import check_group
from trajectory_server import RunApi, require_run_api

pytestmark = pytest.mark.long  # atroposlib imports transformers

ROOT = Path(__file__).parents[3]


MODULE = "hermes_lab.envs.atropos.base_env"


def given(verb: str, url: str, *options: str) -> list[str]:
    hermes_lab = "suite.count=6 run.concurrency=4 env.eval_count=4"
    return [
        *(verb, "--openai.base_url", url, "--openai.model_name", "fake"),
        *("--env.hermes_lab", hermes_lab, "--env.max_token_length", "100000", "--env.use_wandb", "false"),
        *options,
    ]


def command(verb: str, url: str, *options: str) -> list[str]:
    return [sys.executable, "-m", MODULE, *given(verb, url, *options)]


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=900, cwd=ROOT)


BOTH = f"""
import json, sys
from {MODULE} import HermesLabAtroposEnv

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["base_env", *arguments]
    try:
        HermesLabAtroposEnv.cli()
    except SystemExit as ended:
        if ended.code:
            raise
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `process` and `evaluate` write, both in one process: it takes seconds to load atroposlib."""
    require_run_api()
    folder = tmp_path_factory.mktemp("written")
    groups = ("--env.data_path_to_save_groups", str(folder / "groups.jsonl"))
    held_out = LedgerSampler(4, splits=("heldout",))
    with running(FakeOpenAIServer(LedgerSampler(6))) as model, running(FakeOpenAIServer(held_out)) as other:
        process = given("process", model.base_url, *groups, "--env.total_steps", "2", "--env.group_size", "4")
        evaluate = given("evaluate", other.base_url, "--env.data_dir_to_save_evals", str(folder))
        done = run([sys.executable, "-c", BOTH, json.dumps([process, evaluate])])
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_process_writes_whole_groups_and_a_page(written: Path) -> None:
    groups = [json.loads(line) for line in (written / "groups.jsonl").read_text().splitlines()]
    assert len(groups) == 2
    for group in groups:
        check_group(group)
    assert "Reward:" in (written / "groups.html").read_text()


def test_evaluate_writes_the_rate_as_atroposlib_does(written: Path) -> None:
    results = json.loads((written / "metrics.json").read_text())["results"]["all"]
    assert results["eval/success"] == 1.0
    assert results["eval/success_low"] > 0.4


def test_serve_feeds_the_server(api: RunApi, tmp_path: Path) -> None:
    api.start_trainer(num_steps=1)
    with running(FakeOpenAIServer(LedgerSampler(6))) as model, (tmp_path / "log").open("w") as log:
        arguments = command("serve", model.base_url, "--env.rollout_server_url", api.url, "--env.total_steps", "1")
        serving = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=ROOT, env={**os.environ})
        try:
            batch = api.next_batch()
        except AssertionError:
            raise AssertionError((tmp_path / "log").read_text()[-3000:]) from None
        finally:
            serving.terminate()
            serving.wait()
    assert sum(len(group["tokens"]) for group in batch) == 8
    for group in batch:
        check_group(group)


def test_it_warns_of_groups_that_teach_nothing(tmp_path: Path) -> None:
    """Its `process` would try again for ever."""
    require_run_api()
    with running(FakeOpenAIServer(["Done."])) as model:
        options = ("--env.data_path_to_save_groups", str(tmp_path / "groups.jsonl"), "--env.group_size", "2")
        started = subprocess.Popen(
            command("process", model.base_url, *options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT
        )
        assert started.stderr is not None
        try:
            lines = (line.decode() for line in started.stderr)
            said = next((line for line in lines if "warning: too few usable groups" in line), "")
        finally:
            started.kill()
            started.communicate()
    assert "0/8 (0-32 %) of the first groups can be trained on" in said


def test_without_atroposlib_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['atroposlib'] = None\nimport hermes_lab.envs.atropos.base_env"
    done = run([sys.executable, "-c", code])
    assert "needs atroposlib" in done.stderr.splitlines()[-1]
    assert "hermes-lab[atropos]" in done.stderr.splitlines()[-1]
