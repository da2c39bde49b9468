"""The whole line on the real model: demonstrations -> locked LoRA -> vLLM -> the held-out split again, better."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from fakes import command

from hermes_lab.envs.groups import read_groups, validate_group
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.records import read_episodes

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

PLAIN = ["learning.arms=[off]", "agent.toolsets=[terminal]", "suite.options.ruled=0"]
"""No hidden rule, no skill, and one tool: what is learnt is to call it, from short rows."""
SHOWN = [*PLAIN, "suite.options.plain=6", "suite.options.drift_at=0", "learning.worlds=20", "learning.rounds=2"]
ASKED = [
    *(*PLAIN, "suite.options.plain=4", "learning.worlds=12", "learning.rounds=1", "learning.round_size=2"),
    *("model.token_ids=true", "model.sampling.max_tokens=128"),
]


def lab(*args: str | Path) -> str:
    """What a station of the line prints."""
    done = subprocess.run([sys.executable, "-m", "hermes_lab", *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def said(*args: str | Path) -> str:
    """What a command that only reads runs prints."""
    done = command.lab(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def given(sources: Sequence[str]) -> list[str]:
    return [part for source in sources for part in ("-c", source)]


@pytest.fixture(scope="module")
def line(vllm_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs every station through the command line, once for all tests of this file."""
    root = tmp_path_factory.mktemp("line")
    lab("experiment", *given(["configs/demonstrations.yaml", *SHOWN]), "--out", root / "demonstrations")
    shown = ["configs/train/sft.yaml", "lock=configs/locks/sft-smoke.yaml", f"data=[{root}/demonstrations]"]
    lab("train", "sft", *given([*shown, f"adapters={root}/adapters"]))
    asked = ["configs/heldout.yaml", *ASKED]
    there = ["model.provider=openai", f"model.base_url={vllm_url}", "model.merge=false"]
    lab("experiment", *given([*asked, *there]), "--out", root / "base")
    lab("experiment", *given([*asked, f"model.adapter={root}/adapters/sft-v1"]), "--out", root / "tuned")
    return root


def test_calls_and_success_rise_from_nothing_on_held_out_worlds(line: Path) -> None:
    report = json.loads(said("compare", line / "base", line / "tuned", "--json"))
    (found,) = (c for c in report["comparisons"] if c["metric"] == "success")
    assert found["before"]["rate"] <= 0.1
    assert found["after"]["rate"] >= 0.5
    assert found["p_value"] < 0.01
    # The untuned model asks for no tool, so its first calls are not compared.
    for name, calls in (("base", 0), ("tuned", 24)):
        (group,) = json.loads(said("summary", line / name, "--json"))["groups"]
        assert group["first_call_ok"]["of"] == calls
        assert group["first_call_ok"]["count"] >= 0.9 * calls


def test_the_served_adapters_digest_is_in_every_episode_and_in_its_card(line: Path) -> None:
    folder = line / "adapters" / "sft-v1"
    digest = adapter_digest(folder)
    assert json.loads((folder / "card.json").read_text())["digest"] == digest
    assert {episode.model.adapter_digest for episode in read_episodes(line / "tuned")} == {digest}
    assert {episode.model.adapter_digest for episode in read_episodes(line / "base")} == {""}


def test_tokens_of_every_episode_are_those_that_vllm_sampled(line: Path) -> None:
    branches = []
    for episode in read_episodes(line / "tuned"):
        assert episode.trajectory is not None
        sampled = sum(sum(branch.mask) for branch in episode.trajectory.branches)
        assert sampled == episode.trajectory.usage.completion_tokens
        branches.append(len(episode.trajectory.branches))
    # The text format extends its own tokens, but where a model sampled other tokens than its text is read as.
    assert branches.count(1) >= 0.9 * len(branches)


def test_scored_groups_are_exported_and_whole(line: Path) -> None:
    path = line / "groups.jsonl"
    said("export", line / "tuned", "--format", "groups", "-o", path)
    groups = read_groups(path)  # checks each of them
    assert len({key for group in groups for key in group.episodes}) == 24


def test_the_fit_is_drawn_and_does_not_claim_what_so_few_episodes_cannot_show(line: Path) -> None:
    assert said("fit", line / "base", line / "tuned").count("not identified") == 2
    assert (line / "base" / "plots" / "learning-curve.png").stat().st_size > 10_000


def test_grpo_rounds_are_each_by_the_version_before_with_rollouts_on_ray(line: Path, tmp_path: Path) -> None:
    # What is always solved has nothing to compare: so names that no demonstration had, sampled more at random.
    parent = line / "adapters" / "sft-v1"
    values = yaml.safe_load(Path("configs/locks/grpo-smoke.yaml").read_text())
    del values["digest"]
    card = json.loads((parent / "card.json").read_text())
    values |= {"max_token_length": 2048, "total_steps": 2} | {
        field: card["locked"][field] for field in ("lora_rank", "lora_alpha")
    }
    values["grpo"] |= {"temperature": 1.5, "max_reply_tokens": 128}  # a call has about 70
    source, lock = tmp_path / "values.yaml", tmp_path / "lock.yaml"
    source.write_text(yaml.safe_dump(values))
    said("train", "lock", source, "-o", lock)
    hard = [*PLAIN, "suite.options.plain=7", "suite.options.names=many", "agent.max_iterations=3", "run.executor=ray"]
    last = lab(
        *("train", "grpo", "-c", "configs/train/grpo.yaml", "-c", f"lock={lock}"),
        *("-c", f"rollouts={json.dumps(['configs/rollouts.yaml', *hard])}"),
        *("-c", f"parent={parent}", "-c", f"out={tmp_path}/rounds", "-c", f"adapters={tmp_path}/adapters"),
    )
    policy = adapter_digest(parent)
    used = 0
    for number in (1, 2):
        folder = tmp_path / "rounds" / f"round-{number}"
        done = json.loads((folder / "done.json").read_text())
        assert {episode.model.adapter_digest for episode in read_episodes(folder / "run")} == {policy}
        groups = read_groups(folder / "groups.jsonl")
        assert {group.policy for group in groups} <= {policy}
        for group in groups:
            validate_group(group)
        if done["used"]:
            used += 1
            assert done["version"]["digest"] != policy
        policy = done["version"]["digest"]
    assert used, "no round had a group whose rewards differ"
    assert adapter_digest(Path(last.strip())) == policy
