"""The weights as a factor, up to the wire; and what a resume takes for the same experiment."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from fakes.adapters import write_lora
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, running
from fakes.training import bare_adapter

from hermes_lab.manifest import config_differences, read_manifest
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.records import read_episodes


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return bare_adapter(tmp_path)


def test_every_lanes_requests_name_its_adapter_and_all_are_served_at_once(adapter: Path, tmp_path: Path) -> None:
    out, digest = tmp_path / "run", adapter_digest(adapter)
    tuned = f"tuned-{digest[:12]}"
    with running(FakeOpenAIServer(lambda body: f"I am {body['model']}.", models=["fake", "served"])) as server:
        args = [
            *(
                "experiment",
                "-c",
                "suite.name=ledger",
                "-c",
                f"model.base_url={server.base_url}",
                "-c",
                "model.name=fake",
            ),
            *("-c", "learning.rounds=2", "-c", "learning.heldout.tasks=1", "-c", "run.concurrency=6"),
            *("-c", f'learning.adapters=["", "{adapter}", served]'),
        ]
        done = lab(*args, "--out", out)
        assert done.returncode == 0, done.stderr
        assert "plan: 2 arms (off, on) x 1 replicate x 1 world x 3 weights (no adapter, " in done.stderr
        asked = {body["model"] for body in server.requests}
        live = lab("replay", out, "--episode", next(e.key for e in read_episodes(out) if "-a1" in e.lane), "--live")
        assert (live.returncode, server.requests[-1]["model"]) == (0, tuned), live.stdout
    assert asked == {"fake", tuned, "served"}
    episodes = list(read_episodes(out))
    assert len(episodes) == 2 * 3 * (2 + 2)
    expected = {"a0": ("fake", "", ""), "a1": (tuned, tuned, digest), "a2": ("served", "served", "")}
    tasks = defaultdict(set)
    for episode in episodes:
        said, *identity = expected[episode.lane[-2:]]
        assert episode.trajectory.final_response == f"I am {said}."
        assert [episode.model.adapter, episode.model.adapter_digest] == identity
        tasks[episode.lane].add((episode.task_id, episode.round))
    assert len(tasks) == 6
    assert len({frozenset(each) for each in tasks.values()}) == 1
    write_lora(adapter, "others")
    refused = lab(*args, "--out", out, "--resume")
    assert (refused.returncode, "the weights of learning.adapters have changed since" in refused.stderr) == (2, True)


def test_a_wrong_adapter_is_said_of_the_field_that_names_it(tmp_path: Path) -> None:
    with running(FakeOpenAIServer(["x"])) as server:
        args = [
            "experiment",
            "-c",
            "suite.name=ledger",
            "-c",
            f"model.base_url={server.base_url}",
            "-c",
            "model.name=fake",
        ]
        for adapters, message in (
            ('["", nope]', "learning.adapters: 'nope' is neither a folder nor served"),
            (f'["", "{tmp_path}"]', "adapter_config.json is missing"),
        ):
            done = lab(*args, "-c", f"learning.adapters={adapters}", "--quiet", "--out", tmp_path / "out")
            (line,) = done.stderr.splitlines()
            assert (done.returncode, message in line, "learning.adapters" in line) == (2, True, True), line


PLAN = ["experiment", "-c", "configs/experiment.yaml", "--plan"]


def test_a_plan_writes_nothing_and_starts_no_model(tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    unreachable = ["-c", "model.provider=openai", "-c", "model.base_url=http://127.0.0.1:9/v1"]
    done = lab(*PLAN, *unreachable, "--out", tmp_path / "run")
    assert (done.returncode, done.stderr, sorted(tmp_path.iterdir())) == (0, "", before)
    assert done.stdout.startswith("plan: 4 arms")
    assert "with power" in done.stdout
    told = json.loads(lab(*PLAN, "--json", "--quiet").stdout)
    assert (told["lanes"], told["lanes_per_arm"], told["budget"]["tasks"]["used"]) == (80, 20, 0)
    assert 0 < told["power"][1]["power"] < 1


LEARN = [
    *(
        "experiment",
        "-c",
        "model.provider=scripted",
        "-c",
        "model.name=hermes_lab.tasks.learner:noop",
        "-c",
        "suite.name=ledger",
    ),
    *("-c", "learning.rounds=1"),
]


def test_a_run_from_before_a_field_was_there_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = lab(*LEARN, "--quiet", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    path = out / "run.json"
    old = json.loads(path.read_bytes())
    for field in ("blocks", "order", "heldout", "adapters", "expect"):
        del old["config"]["learning"][field]
    del old["config"]["budget"]
    path.write_text(json.dumps(old))
    (out / "plan.json").unlink()  # an old run has none, and the expected effect may differ
    assert lab(*LEARN, "-c", "learning.expect.effect=0.1", "--resume", "--out", out).returncode == 0
    refused = lab(*LEARN, "-c", "learning.order=latin", "--resume", "--out", out)
    assert (refused.returncode, "was started with learning.order=drawn, now latin" in refused.stderr) == (2, True)
    told = lab(*LEARN, "-c", "budget.tasks=1", "--plan", "--out", out)
    assert "in all: 2 episodes, 2 of them finished" in told.stdout


def test_a_config_of_which_a_field_is_gone_is_compared_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert lab(*LEARN, "--quiet", "--out", out).returncode == 0
    now = read_manifest(out)
    path = out / "run.json"
    strange = json.loads(path.read_bytes())
    strange["config"]["learning"]["gone"] = 1
    path.write_text(json.dumps(strange))
    assert list(config_differences(read_manifest(out), now)) == [("learning.gone", 1, None)]
