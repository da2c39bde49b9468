"""GRPO without signal: when a training stops, what it says, and what it leaves."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import conversation, rollout, trajectory
from fakes.grpo_rounds import MadeUp, made_up_config, train

from hermes_lab.config.sources import load_config
from hermes_lab.envs.advice import measure
from hermes_lab.envs.groups import build_groups
from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import read_card
from hermes_lab.training.early_stop import Start, advice, partly, rounds_without_signal
from hermes_lab.training.evaluations import read_evaluations
from hermes_lab.training.grpo_config import GrpoConfig
from hermes_lab.training.lineage import lineage
from hermes_lab.training.lock import GrpoLock, load_lock
from hermes_lab.training.rounds import Rounds, stopped
from hermes_lab.training.status import status
from hermes_lab.types import Episode, Message, TokenBranch


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrpoConfig:
    return made_up_config(tmp_path, monkeypatch)


def heldout(rollouts: MadeUp) -> int:
    return sum(batch.config.suite.split == "heldout" for batch in rollouts.batches)


def test_a_hopeless_training_ends_within_its_first_round(config: GrpoConfig) -> None:
    rollouts = MadeUp(dull=(1, 2, 3))
    with pytest.raises(ConfigError, match="no usable group in round 1 ") as stop:
        train(config, rollouts)
    assert len(rollouts.batches) == 1
    assert heldout(rollouts) == 0
    for part in ("0 of 4 rollouts solved", "rewards 0 to 0", "0 % cut at 192 tokens", "0 % unparsed", "temperature 1"):
        assert part in str(stop.value)
    assert not Path(config.adapters).exists()
    assert status(Path(config.out))["status"] == "stopped"
    assert stopped(Path(config.out)) in str(stop.value)


def test_a_stopped_training_says_so_again_and_samples_nothing(config: GrpoConfig) -> None:
    with pytest.raises(ConfigError) as first:
        train(config, MadeUp(dull=(1, 2, 3)))
    rollouts = MadeUp()
    with pytest.raises(ConfigError) as again:
        train(config.model_copy(update={"resume": True}), rollouts)
    assert str(again.value) == str(first.value)
    assert rollouts.batches == []


def test_a_hopeless_round_of_an_older_training_is_measured_from_its_rollouts(config: GrpoConfig) -> None:
    with pytest.raises(ConfigError) as first:
        train(config, MadeUp(dull=(1, 2, 3)))
    path = Path(config.out) / "round-1" / "done.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"measured": None}))
    with pytest.raises(ConfigError) as again:
        train(config.model_copy(update={"resume": True}), MadeUp())
    assert str(again.value) == str(first.value)


def test_two_later_rounds_without_a_usable_group_end_a_training_that_keeps_its_adapter(config: GrpoConfig) -> None:
    rollouts = MadeUp(dull=(2, 3))
    with pytest.raises(ConfigError, match=r"no usable group in rounds 2 to 3 .*: 0 of 8 rollouts .*grpo-v1 is kept"):
        train(config, rollouts)
    version = Path(config.adapters) / "grpo-v1"
    assert read_card(version).steps == 1
    assert "rounds 2 to 3" in stopped(version)
    assert any(line.startswith("  stopped   no usable group") for line in lineage(version, version.parent).lines())
    assert [check.step for check in Rounds(Path(config.out)).checks()] == [0, 1]  # it is evaluated before it ends


@pytest.mark.parametrize(
    ("used", "rounds"),
    [((), 0), ((2,), 0), ((0,), 1), ((2, 0), 0), ((2, 0, 0), 2), ((2, 0, 1, 0), 0), ((0, 2, 0), 0), ((0, 0), 2)],
)
def test_the_rounds_that_end_a_training(used: tuple[int, ...], rounds: int) -> None:
    assert rounds_without_signal(used) == rounds


def test_groups_that_teach_nothing_are_counted_and_explained(config: GrpoConfig) -> None:
    said: list[str] = []
    train(config.model_copy(update={"heldout": ()}), MadeUp(solved=1), said.append)
    first = "3 of 4 rollouts solved; 1 of 2 groups usable; refused: 1 with equal rewards (1 solved throughout)"
    assert any(line.startswith("round 1/3: mean reward 0.750") and line.endswith(first) for line in said)
    assert "3 of 6 groups in 3 rounds were usable" in said[-1]
    assert not any("warning" in line for line in said)  # half of them are used


def test_a_round_of_which_little_is_used_warns() -> None:
    assert partly(1, 3, lambda: ["easier tasks"]) == "only 1 of 3 groups are trained on. Try: (1) easier tasks"
    assert partly(0, 3, lambda: ["easier tasks"]) == "only 0 of 3 groups are trained on. Try: (1) easier tasks"
    assert partly(2, 3, list) == partly(0, 0, list) == ""


def made(*rollouts: tuple[float, str], samples: int = 2, calls: bool = True, copies: bool = False) -> Any:
    """Episodes and groups of tasks with `samples` rollouts of (reward, stop reason)."""
    messages = conversation("Do it")
    if not calls:
        messages = (*messages[:2], Message(role="assistant", content="No."))
    episodes: list[Episode] = []
    for n, (reward, end) in enumerate(rollouts):
        tokens = TokenBranch((1, 2, 3 if copies else 3 + n), (0, 1, 1), (0.0, -0.5, -0.1))
        done = trajectory(messages, stop_reason=end, branches=(tokens,))
        task = {"task_id": f"t{n // samples}", "success": reward == 1.0, "trajectory": done}
        episodes.append(rollout(n % samples, reward, tokens, **task))
    return episodes, list(build_groups(episodes))


def tips(
    episodes: Any, *, refused: dict[str, int] | None = None, parent: bool = False, temperature: float = 1.0
) -> str:
    lock = load_lock(Path("configs/locks/grpo-smoke.yaml")).grpo
    assert lock
    grpo: GrpoLock = lock.model_copy(update={"temperature": temperature})
    run = load_config(["suite.name=ledger", "suite.options.ruled=5", "learning.arms=[off]"])
    return " | ".join(advice(measure(*episodes), refused or {"with equal rewards": 2}, Start(grpo, run, 1536, parent)))


def test_nothing_solved_asks_for_easier_tasks_sft_and_samples() -> None:
    found = tips(made(*[(0.0, "answered")] * 4))
    assert found.startswith("easier tasks: in rollouts, learning.arms=[oracle]")
    assert "suite.options.ruled below 5" in found
    assert "`hermes-lab train sft`" in found
    assert "up to 49 % would show no success in 4 rollouts" in found
    assert "train the parent longer" in tips(made(*[(0.0, "answered")] * 4), parent=True)


def test_everything_solved_asks_for_harder_tasks() -> None:
    assert tips(made(*[(1.0, "answered")] * 4)).startswith("every rollout solves its task")


def test_tasks_that_are_solved_or_failed_as_a_whole_ask_for_more_samples() -> None:
    found = tips(made(*[(1.0, "answered")] * 2, *[(0.0, "answered")] * 2))
    assert found.startswith("tasks are either solved or failed by all their rollouts")
    assert "grpo.group_size above 4" in found


@pytest.mark.parametrize(
    ("end", "first"),
    [
        ("length", "most replies are cut: grpo.max_reply_tokens above 192"),
        ("unparsed", "most replies are calls in a format that is not read: agent.tool_format"),
        ("max_iterations", "most rollouts end at a limit: agent.max_iterations above"),
        ("context_full", "most rollouts end at a limit"),
    ],
)
def test_the_way_rollouts_end_comes_first(end: str, first: str) -> None:
    assert tips(made(*[(0.0, end)] * 3, (0.0, "answered"))).startswith(first)
    assert first not in tips(made(*[(0.0, end)] * 2, *[(0.0, "answered")] * 2))


def test_rollouts_without_a_call_are_no_question_of_the_tasks() -> None:
    assert tips(made(*[(0.0, "answered")] * 4, calls=False)).startswith("most rollouts call no tool")


def test_copies_are_a_question_of_temperature() -> None:
    copies = made(*[(0.0, "answered")] * 4, copies=True)
    assert "grpo.temperature above 0.01 in a new lock" in tips(copies, temperature=0.01)
    assert "the server may ignore the temperature 1" in tips(copies)


@pytest.mark.parametrize(
    ("reason", "first"),
    [
        ("of another policy", "the server did not serve"),
        ("held out", "draw tasks that are not held out"),
        ("with errored rollouts", "rollouts failed on infrastructure"),
        ("without a scored rollout", "nothing judged"),
        ("longer than max_token_length", "max_token_length above"),
    ],
)
def test_groups_refused_for_another_reason_are_no_question_of_rewards(reason: str, first: str) -> None:
    assert tips(made(*[(0.0, "answered")] * 4), refused={reason: 2}).startswith(first)


def test_held_out_success_has_intervals_on_cards_and_in_the_summary(config: GrpoConfig) -> None:
    said: list[str] = []
    last = train(config, MadeUp(), said.append)
    assert "step 0: 1 of 2 held-out tasks solved, 50 % (9-91 %)" in said
    assert [each.step for each in read_card(last).heldout] == [0, 2]
    assert read_card(last).heldout[0].sentence() == "1 of 2 held-out tasks solved, 50 % (9-91 %)"
    assert "Held-out success after 2 steps: 1 of 2" in (last / "README.md").read_text()
    assert "50 % (9-91 %) after 3 steps; on 2 tasks of both +0 points" in said[-1]
    rows = [json.loads(line) for line in (Path(config.out) / "metrics.jsonl").read_text().splitlines()]
    checks = [row for row in rows if "heldout_success" in row]
    assert [round(row["heldout_low"], 2) for row in checks] == [0.09] * 3


def test_an_evaluation_of_a_version_is_among_its_scores(config: GrpoConfig) -> None:
    last = train(config, MadeUp())
    scores = [read_evaluations(Path(config.adapters) / f"grpo-v{n}") for n in (1, 2, 3)]
    assert [len(each) for each in scores] == [0, 1, 1]  # steps_per_eval is 2
    assert (scores[2][0].n, scores[2][0].solved, scores[2][0].adapter_digest) == (2, 1, read_card(last).digest)
    train(config.model_copy(update={"resume": True}), MadeUp())
    assert read_evaluations(last) == scores[2]


def test_an_incomplete_evaluation_is_not_among_the_scores(config: GrpoConfig) -> None:
    said: list[str] = []
    last = train(config, MadeUp(errored=1), said.append)
    assert read_evaluations(last) == []
    assert any("grpo-v3: its score is not recorded next to its card: " in line and "missing" in line for line in said)
