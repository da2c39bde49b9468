"""The rounds of a GRPO training as a table, read from its folder; the adapters and the model are not needed."""

from pathlib import Path
from typing import Any

import msgspec

from hermes_lab.errors import ConfigError
from hermes_lab.training.rounds import Check, FinishedRound, Rounds, stopped


class RoundTable(msgspec.Struct, frozen=True, kw_only=True):
    """The finished rounds and held-out evaluations of a training, and why it stopped early ("" if it did not)."""

    rounds: list[FinishedRound]
    checks: list[Check]
    stopped: str = ""

    def header(self) -> list[str]:
        """The columns of `rows`. Those about reviews are there if a round was trained on any."""
        columns = ["ROUND", "POLICY", "GROUPS USED", "REWARD", "SOLVED", "TOKENS"]
        return [*columns, "VALUE OF A REVIEW", "WROTE", "FOLLOW-UPS SOLVED"] if self._has_reviews else columns

    def rows(self) -> list[list[str]]:
        """A row for each round: the policy that sampled it, the groups that could be trained on, the mean reward, the
        rollouts that solved their task, and the mean number of sampled tokens. With reviews also the mean value of one
        with its standard error, how many changed the library, and the follow-ups solved before and after these."""
        return [[*_cells(done), *(_of_reviews(done) if self._has_reviews else [])] for done in self.rounds]

    def evaluations(self) -> list[str]:
        """A line for each held-out evaluation."""
        return [f"step {check.step}: {check.on_card.sentence()}" for check in self.checks]

    def to_dict(self) -> dict[str, Any]:
        """All of it as data."""
        return dict(msgspec.to_builtins(self))

    @property
    def _has_reviews(self) -> bool:
        return any(done.reviews for done in self.rounds)


def read_rounds(folder: Path) -> RoundTable:
    """The rounds of the training in this folder (its `out`). Raises `ConfigError` if there is none, or a record cannot
    be read."""
    rounds, found = Rounds(folder), []
    damaged = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
    try:
        for done in rounds.records():
            found.append(done)
    except damaged as error:
        raise ConfigError(f"{rounds.record_of(len(found) + 1)}: not a record of a GRPO training: {error}") from None
    try:
        checks = rounds.checks()
    except damaged as error:
        raise ConfigError(f"{folder}: a check.json is damaged: {error}") from None
    if not found and not checks:
        raise ConfigError(f"{folder}: no finished round of a GRPO training; give the `out` of its configuration")
    return RoundTable(rounds=found, checks=checks, stopped=stopped(folder))


def _cells(done: FinishedRound) -> list[str]:
    groups = f"{done.used}/{done.used + sum(done.refused.values())}"
    solved = f"{done.measured.solved}/{done.measured.rollouts}" if done.measured else "-"
    return [str(done.round), done.policy.name, groups, f"{done.reward:+.3f}", solved, f"{done.length:.0f}"]


def _of_reviews(done: FinishedRound) -> list[str]:
    if not (reviews := done.reviews):
        return ["-", "-", "-"]
    value = f"{reviews.value:+.3f}" + ("" if reviews.error is None else f" ± {reviews.error:.3f}")
    change = f"{100 * reviews.without:.0f} % -> {100 * reviews.with_:.0f} %" if reviews.wrote else "-"
    return [value, f"{reviews.wrote}/{reviews.reviews}", change]
