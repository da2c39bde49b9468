"""Rounds of GRPO on reviews, with made-up learning episodes."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fakes.episodes import conversation, episode, trajectory, write_manifest, write_run
from fakes.grpo_rounds import MadeUp
from hermes_lab.envs.groups import build_groups, write_groups
from hermes_lab.envs.learning.groups import LearningGroups, review_group
from hermes_lab.envs.learning.lanes import LearningLane
from hermes_lab.envs.learning.records import GROUPS, write_learned
from hermes_lab.envs.learning.run import Reviewed
from hermes_lab.envs.learning.worth import ReviewValue
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.training.grpo_config import Batch
from hermes_lab.types import Episode, ModelIdentity, Review, Reward, ScoredGroup, TaskInfo, TokenBranch


class MadeUpReviews(MadeUp):
    """Learning episodes in which every second review is worth 0.5, and the others nothing; all are worth nothing in the
    rounds of `dull`. `refused` counts what gave no group. Every second follow-up is solved, none without `solves`."""

    def __init__(
        self, *, dull: tuple[int, ...] = (), refused: dict[str, int] | None = None, solves: bool = True
    ) -> None:
        super().__init__(dull=dull)
        self.refused = refused or {}
        self.solves = solves

    def collect(self, batch: Batch) -> None:
        if batch.reviews is None:
            super().collect(batch)
            return
        self.batches.append(batch)
        groups, values, episodes = self.made(batch)
        write_run(batch.folder, *episodes)
        self.finish(batch, groups, values)

    def made(self, batch: Batch) -> tuple[list[ScoredGroup], list[ReviewValue], list[Episode]]:
        """What the learning episodes of a batch give: the groups, the values of reviews, and the rollouts."""
        assert batch.reviews is not None
        groups, values, episodes = list[ScoredGroup](), list[ReviewValue](), list[Episode]()
        for number in range(batch.tasks * batch.reviews.tasks):
            work, own = self.reviewed(batch, number)
            follow = [self.followup(batch, number, sample) for sample in range(batch.reviews.repeats)]
            reviewed = Reviewed(LearningLane(work.lane, "on", (), (), Knowledge()), 0, work, Knowledge(), ())
            groups += [review_group(reviewed, own), *build_groups(follow)]
            values += own
            episodes += [work, *follow]
        return groups, values, episodes

    def finish(self, batch: Batch, groups: list[ScoredGroup], values: list[ReviewValue]) -> None:
        """Writes the files of finished learning episodes."""
        write_manifest(batch.folder, command="reviews", wanted=0)
        write_groups(groups, batch.folder / GROUPS)
        write_learned(batch.folder, LearningGroups(groups, values, self.refused))

    def reviewed(self, batch: Batch, number: int) -> tuple[Episode, list[ReviewValue]]:
        """A finished episode with its reviews and their values."""
        seed = batch.config.suite.seed
        reviews = [
            Review(
                trajectory(conversation("Review"), branches=(TokenBranch((1, 2, 3 + n), (0, 0, 1), (0.0, 0.0, -0.5)),))
            )
            for n in range(batch.samples)
        ]
        work = replace(
            self.record(batch, f"work {seed}.{number}", number, 0), review=reviews[0], forks=tuple(reviews[1:])
        )
        values = [
            ReviewValue(
                episode=work.key,
                fork=n,
                policy=work.model.policy,
                before="b",
                after="a" if n % 2 else "b",
                rollouts=2 * (n % 2),
                solved_before=0,
                solved_after=n % 2,
                listed=0.0,
                body=0.0,
                reward=Reward(worth, {"with": worth, "without": 0.0, "listed": 0.0, "body": 0.0}),
            )
            for n in range(batch.samples)
            for worth in [0.0 if seed in self.dull else 0.5 * (n % 2)]
        ]
        return work, values

    def followup(self, batch: Batch, number: int, sample: int) -> Episode:
        """A rollout of a follow-up."""
        score = float(self.solves and sample % 2)
        name = f"follow {batch.config.suite.seed}.{number}"
        return replace(
            self.record(batch, name, number, sample),
            success=bool(score),
            score=score,
            reward=Reward(score),
            phase="heldout",
        )

    def record(self, batch: Batch, name: str, number: int, sample: int) -> Any:
        """An episode by the batch's policy."""
        model = batch.config.model
        digest = adapter_digest(Path(model.adapter)) if model.adapter else ""
        branch = TokenBranch((1, 2, 5 + sample), (0, 0, 1), (0.0, 0.0, -0.5))
        return episode(
            name,
            lane=f"on-r0-w{batch.first_world + number}",
            sample=sample,
            task=TaskInfo("d", batch.config.suite.split, batch.first_world + number),
            model=ModelIdentity("openai", model.name, model.base_url, Path(model.adapter).name, digest),
            success=False,
            score=0.0,
            reward=Reward(0.0),
            trajectory=trajectory(conversation(f"Do {name}"), branches=(branch,)),
        )
