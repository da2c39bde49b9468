"""Verdicts of a recording, for a replay that cannot bring the workspace into the state that they judged."""

from dataclasses import dataclass

from hermes_lab.errors import VerifierError
from hermes_lab.protocols import Suite, Workspace
from hermes_lab.types import Task, Verdict


@dataclass(frozen=True)
class RecordedVerdicts:
    """A suite that repeats the verdicts of one episode."""

    suite: Suite
    verdicts: tuple[Verdict, ...]

    @property
    def name(self) -> str:
        """See `Suite.name`."""
        return self.suite.name

    @property
    def splits(self) -> tuple[str, ...]:
        """See `Suite.splits`."""
        return self.suite.splits

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """See `Suite.load`."""
        return self.suite.load(split=split, count=count, seed=seed, world=world)

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        """The recorded verdict of that submission; None if there was no verifier."""
        del workspace, answer
        if not self.verdicts:
            return None
        if attempt > len(self.verdicts):
            raise VerifierError(f"{task.id}: the record has no verdict of submission {attempt}")
        return self.verdicts[attempt - 1]
