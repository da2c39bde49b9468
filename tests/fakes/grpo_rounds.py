"""GRPO trainings with made-up rollouts and steps."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from fakes.adapters import write_lora
from fakes.episodes import conversation, episode, trajectory, write_manifest, write_run
from fakes.training import smoke_lock
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.training import grpo
from hermes_lab.training import rounds as training_rounds
from hermes_lab.training.grpo import train_grpo
from hermes_lab.training.grpo_config import Batch, GrpoConfig
from hermes_lab.training.grpo_steps import RoundBatch
from hermes_lab.training.rounds import FinishedRound, Rounds, RoundTraining
from hermes_lab.types import EpisodeError, ModelIdentity, Reward, ScoredGroup, TaskInfo, TokenBranch

ROUNDS = 3


class Killed(BaseException):
    """Ends a training as a kill would: nothing is tidied up."""


def made_up_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, grpo_values: dict[str, Any] | None = None, **values: Any
) -> GrpoConfig:
    """Three rounds of one step, two groups of two, on weights that are a file."""
    monkeypatch.setattr(grpo, "take_steps", made_up_steps)
    base = tmp_path / "base"
    base.mkdir()
    (base / "model.safetensors").write_text("weights")
    for name in ("config.json", "tokenizer_config.json"):
        (base / name).write_text("{}")
    short = {"group_size": 2, "steps_per_eval": 2, "eval_limit_ratio": 0.5} | (grpo_values or {})
    given = {"total_steps": ROUNDS} | values
    lock = smoke_lock(tmp_path, "grpo", base_model=str(base), tokenizer=str(base), grpo=short, **given)
    return GrpoConfig(
        lock=lock,
        adapters=str(tmp_path / "adapters"),
        out=str(tmp_path / "out"),
        rollouts=("suite.name=ledger", "learning.arms=[off]", "learning.worlds=2", "suite.world=10"),
        heldout=("suite.name=ledger", "suite.split=heldout", "learning.arms=[off]"),
    )


def made_up_steps(
    locked: Any, grpo: Any, base: Path, round_batch: RoundBatch, training_run: RoundTraining, say: Any
) -> None:
    """An adapter that tells what it was made from."""
    made = {
        "after": round_batch.policy.digest,
        "of": [content_of(group) for group in round_batch.groups],
        "step": round_batch.end,
    }
    write_lora(training_run.folder, json.dumps(made))
    checkpoint = training_run.checkpoints / f"checkpoint-{round_batch.end}"
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "trainer_state.json").write_text("{}")
    training_run.write_manifest(round_batch.end)
    training_run.metrics.unlink(missing_ok=True)
    training_run.log({"step": round_batch.end, "loss": 0.0, "seconds": 1.0})


def content_of(group: ScoredGroup) -> list[Any]:
    """All that is trained on. The name of a version is not part of it: a killed training may leave one unused."""
    content = (group.kind, group.episodes, group.samples, group.token_ids, group.masks, group.logprobs)
    return list(map(to_builtins, (*content, group.rewards, group.advantages)))


class MadeUp:
    """Rollouts of which every second one is rewarded, but none in the rounds of `dull`, and those of the first `solved`
    tasks of every round all are; the prompt of the first `rewritten`
    ones was rewritten on the way, the first `errored` ones errored, the first `unjudged` ones have no verdict."""

    def __init__(
        self,
        *,
        dull: tuple[int, ...] = (),
        solved: int = 0,
        errored: int = 0,
        rewritten: int = 0,
        unjudged: int = 0,
    ) -> None:
        self.solved = solved
        self.dull, self.errored, self.rewritten, self.unjudged = dull, errored, rewritten, unjudged
        self.batches: list[Batch] = []
        self.retired: list[str] = []

    def collect(self, batch: Batch) -> None:
        self.batches.append(batch)
        model, number = batch.config.model, batch.config.suite.seed
        digest = adapter_digest(Path(model.adapter)) if model.adapter else ""
        episodes = []
        for n in range(batch.tasks * batch.samples):
            score = self.score(batch, n)
            branch = TokenBranch((1, 2, 3 + n % batch.samples), (0, 0, 1), (0.0, 0.0, -0.5))
            one = episode(
                f"task {number}.{n // batch.samples}",
                lane=f"off-r0-w{batch.first_world}",
                sample=n % batch.samples,
                task=TaskInfo("d", batch.config.suite.split, batch.first_world),
                model=ModelIdentity("openai", model.name, model.base_url, Path(model.adapter).name, digest),
                success=bool(score),
                score=score,
                reward=Reward(score, {"score": score}),
                trajectory=trajectory(conversation("Do it"), branches=(branch,) * (2 if n < self.rewritten else 1)),
            )
            if n < self.errored:
                failed = EpisodeError("model", "gone")
                one = episode(
                    one.task_id,
                    lane=one.lane,
                    model=one.model,
                    sample=one.sample,
                    status="errored",
                    error=failed,
                    verdicts=(),
                )
            if n < self.unjudged:
                one = replace(one, success=None, score=None, reward=None, verdicts=())
            episodes.append(one)
        write_run(batch.folder, *episodes)
        write_manifest(batch.folder, command="experiment", wanted=len(episodes))

    def score(self, batch: Batch, n: int) -> float:
        """The score of rollout n of a batch."""
        if batch.config.suite.split == "train" and batch.config.suite.seed in self.dull:
            return 0.0
        return float(n % 2 or n // batch.samples < self.solved)

    def rest(self) -> None:
        """Shares no GPU."""

    def retire(self, version: Path) -> None:
        self.retired.append(version.name)


def train(config: GrpoConfig, rollouts: MadeUp, say: Callable[[str], None] = print) -> Path:
    @contextmanager
    def opened(*_: Any) -> Iterator[MadeUp]:
        yield rollouts

    return train_grpo(config, opened, say)


def silent(message: str) -> None:
    del message


def done(config: GrpoConfig) -> list[FinishedRound]:
    return Rounds(Path(config.out)).done()


def countdown(patch: pytest.MonkeyPatch, writes: int) -> None:
    """Kills the training before it writes for the so manieth time."""
    left = writes

    def counted(write: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return write(*args, **kwargs)

        return call

    for module, names in (
        (grpo, ("write_json", "write_groups", "take_steps", "write_card")),
        (training_rounds, ("write_json", "write_atomic")),
    ):
        for name in names:
            patch.setattr(module, name, counted(getattr(module, name)))


def outcome(config: GrpoConfig) -> Any:
    rounds = [(d.policy.digest, d.version.digest, d.steps, d.used, d.refused) for d in done(config)]
    return rounds, (Path(config.out) / "metrics.jsonl").read_text()
