"""Rounds of GRPO without a usable group: what was measured of their rollouts, when to stop, and advice by the cause."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hermes_lab.analysis.stats.intervals import wilson
from hermes_lab.config.schema import RunConfig
from hermes_lab.training.lock import HOW_TO_CHANGE, GrpoLock
from hermes_lab.types import Episode, ScoredGroup

_BUDGETS = ("max_iterations", "max_seconds", "max_tokens", "max_cost", "context_full", "repeated")
_WARM = 0.5
"""Below this temperature, copies are expected."""
EQUAL = "with equal rewards"
"""The refusal of a group whose rewards do not differ (`hermes_lab.training.group_filter`)."""
_REMEDIES = {
    "of another policy": "the server did not serve the policy in training: start a new server, and train again",
    "held out": "draw tasks that are not held out: rollouts with another suite.world, or check gate.held_out",
    "with errored rollouts": "rollouts failed on infrastructure: see their errors with `hermes-lab show`",
    "without a scored rollout": "nothing judged the rollouts: see their errors with `hermes-lab show`",
    "longer than max_token_length": "max_token_length above the longest rollout in a new lock, or less text: "
    "agent.prompt=compact, fewer agent.toolsets, a lower agent.max_iterations",
}
"""Advice by refusal."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The rollouts of a round, used or not. Counts are of judged rollouts, except `errored` and those of groups.

    `low` and `high` are the smallest and the largest reward. `cut` rollouts ended with a reply at its token limit,
    `unparsed` ones with a call in an unknown format, `budget` ones at another limit; `silent` ones called no tool.
    Of the `groups`, `failed` and `solved_groups` have equal rewards because no rollout, or every one, solved its task;
    `copies` have rollouts that are all the same tokens.
    """

    rollouts: int
    errored: int = 0
    solved: int
    low: float
    high: float
    cut: int = 0
    unparsed: int = 0
    budget: int = 0
    silent: int = 0
    groups: int
    failed: int = 0
    solved_groups: int = 0
    copies: int = 0

    def sentence(self, grpo: GrpoLock) -> str:
        """What was measured, for a message."""
        parts = [
            f"{self.solved} of {self.rollouts} rollouts solved",
            f"rewards {self.low:g} to {self.high:g}",
            f"{_percent(self.cut, self.rollouts)} cut at {grpo.max_reply_tokens} tokens",
            f"{_percent(self.unparsed, self.rollouts)} unparsed",
            f"{_percent(self.silent, self.rollouts)} without a tool call",
            f"temperature {grpo.temperature:g}",
        ]
        return ", ".join([*parts, *([f"{self.errored} errored or not judged"] if self.errored else [])])

    def equal(self) -> str:
        """Why groups have equal rewards: ` (3 failed throughout, 1 solved throughout)`, or ""."""
        counts = {"failed throughout": self.failed, "solved throughout": self.solved_groups}
        found = [f"{count} {how}" for how, count in counts.items() if count]
        return f" ({', '.join(found)})" if found else ""


def measure(episodes: Sequence[Episode], groups: Sequence[ScoredGroup]) -> Measured:
    """Measures the rollouts of a round and their groups."""
    judged = [each for each in episodes if each.reward is not None and each.trajectory is not None]
    rewards = [each.reward.value for each in judged if each.reward is not None]
    ends = [each.trajectory.stop_reason for each in judged if each.trajectory is not None]
    solved = {each.key for each in judged if each.success}
    equal = [group for group in groups if not any(group.advantages)]
    return Measured(
        rollouts=len(judged),
        errored=len(episodes) - len(judged),
        solved=len(solved),
        low=min(rewards, default=0.0),
        high=max(rewards, default=0.0),
        cut=ends.count("length"),
        unparsed=ends.count("unparsed"),
        budget=sum(end in _BUDGETS for end in ends),
        silent=sum(not _calls(each) for each in judged),
        groups=len(groups),
        failed=sum(solved.isdisjoint(group.episodes) for group in equal),
        solved_groups=sum(solved.issuperset(group.episodes) for group in equal),
        copies=sum(len(set(group.token_ids)) < 2 for group in groups),
    )


def _calls(episode: Episode) -> bool:
    messages = episode.trajectory.messages if episode.trajectory else ()
    return any(message.tool_calls for message in messages)


def partly(measured: Measured, used: int) -> str:
    """A warning if a round has usable groups, but fewer than half; else ""."""
    if not 0 < 2 * used < measured.groups:
        return ""
    hard = measured.failed >= measured.solved_groups
    return (
        f"only {used} of {measured.groups} groups are trained on, the other rollouts teach nothing: "
        f"{'easier tasks or SFT first' if hard else 'harder tasks'}, or more samples of a task, give more of them"
    )


def starved(used: Sequence[int]) -> int:
    """How many rounds without a usable group end the training here, given the usable groups of all rounds so far; 0:
    it goes on.

    The first round alone does: nothing shows that this policy can learn from these tasks. Later, one round may be bad
    luck, and the next one has new tasks; a second in a row by the same policy is not.
    """
    if used and not any(used):
        return len(used)
    return 2 if len(used) > 1 and not any(used[-2:]) else 0


def advice(
    measured: Measured, refused: Mapping[str, int], grpo: GrpoLock, run: RunConfig, *, parent: bool
) -> list[str]:
    """What to change, the most likely cause first. `run` is the configuration of the rollouts; `parent` is whether the
    training started from an adapter."""
    others = {reason: count for reason, count in refused.items() if reason != EQUAL}
    if others and sum(others.values()) >= refused.get(EQUAL, 0):
        return [_REMEDIES[reason] for reason in sorted(others, key=lambda reason: -others[reason])]
    return list(_causes(measured, grpo, run, parent=parent))


def _causes(measured: Measured, grpo: GrpoLock, run: RunConfig, *, parent: bool) -> Iterator[str]:
    more = f"more samples of a task: grpo.group_size above {grpo.group_size} in a new lock"
    sft = "train with SFT first (`hermes-lab train sft`) and start from it with parent=NAME"
    if parent:
        sft = "train the parent longer with SFT, on tasks of this kind"
    if measured.copies * 2 > measured.groups:
        how = f"grpo.temperature above {grpo.temperature:g} in a new lock (1 is usual)"
        if grpo.temperature >= _WARM:
            how = f"the server may ignore the temperature {grpo.temperature:g}, or the policy has no doubts left"
        yield f"the rollouts of a task are copies of each other: {how}"
    if measured.cut * 2 > measured.rollouts:
        yield f"most replies are cut: grpo.max_reply_tokens above {grpo.max_reply_tokens} in a new lock"
    if measured.unparsed * 2 > measured.rollouts:
        yield (
            "most replies are calls in a format that is not read: agent.tool_format or model.tool_parser in rollouts, "
            f"or {sft}"
        )
    elif measured.silent * 2 > measured.rollouts:
        yield f"most rollouts call no tool in the format {run.agent.tool_format!r}: {sft}, or another agent.tool_format"
    if measured.budget * 2 > measured.rollouts:
        yield (
            f"most rollouts end at a limit: agent.max_iterations above {run.agent.max_iterations} in rollouts, or "
            f"grpo.worker_timeout above {grpo.worker_timeout:g} in a new lock"
        )
    if not measured.solved:
        possible = 100 * wilson(0, measured.rollouts).high
        yield f"easier tasks: {_easier(run)}"
        yield sft
        yield f"{more} (a success rate of up to {possible:.0f} % would show no success in {measured.rollouts} rollouts)"
    elif measured.solved == measured.rollouts:
        yield f"every rollout solves its task, so nothing is left to learn here; harder tasks: {_harder(run)}"
    else:
        yield f"tasks are either solved or failed by all their rollouts: {more}"
        yield f"tasks of medium difficulty, such as `families` with a curriculum (docs/grpo.md); {sft}"


def _easier(run: RunConfig) -> str:
    options = run.suite.options
    rules = f"suite.options.ruled below {options['ruled']}" if options.get("ruled") else "fewer suite.options.ruled"
    pieces = "suite.options.pieces=1, " if options.get("pieces", 1) != 1 else ""
    oracle = "" if set(run.learning.arms) == {"oracle"} else "learning.arms=[oracle] (skills state the rules), "
    return f"in rollouts, {oracle}{pieces}{rules}, or another family (`hermes-lab tasks list`)"


def _harder(run: RunConfig) -> str:
    oracle = "learning.arms=[off] instead of oracle, " if "oracle" in run.learning.arms else ""
    return f"in rollouts, {oracle}suite.options.pieces=2, more suite.options.ruled, or another family"


def reason(
    numbers: Sequence[int], measured: Measured, refused: Mapping[str, int], grpo: GrpoLock, tips: Sequence[str]
) -> str:
    """The message with which a training stops after the rounds `numbers`, in one line."""
    rounds = f"round {numbers[0]}" if len(numbers) == 1 else f"rounds {numbers[0]} to {numbers[-1]}"
    refusals = ", ".join(f"{count} {why}" for why, count in refused.items())
    counted = "; ".join(f"({number}) {tip}" for number, tip in enumerate(tips, 1))
    return (
        f"no usable group in {rounds} ({refusals}): {measured.sentence(grpo)}. GRPO learns only where the rewards of a "
        f"task's rollouts differ. Try: {counted}{f' ({HOW_TO_CHANGE})' if 'new lock' in counted else ''}"
    )


def add(measured: Sequence[Measured]) -> Measured:
    """The rollouts of several rounds together."""
    totals: dict[str, Any] = {
        name: sum(getattr(each, name) for each in measured)
        for name in Measured.__struct_fields__
        if name not in ("low", "high")
    }
    return Measured(low=min(each.low for each in measured), high=max(each.high for each in measured), **totals)


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.0f} %" if total else "0 %"
