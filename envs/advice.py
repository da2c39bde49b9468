"""What was measured of rollouts that teach little, and what would raise the signal: the one place for such advice.

`hermes_lab.training.early_stop` says when a training stops for it, `hermes_lab.envs.atropos.watch` warns of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hermes_lab.analysis.stats.intervals import wilson
from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.group_checks import without_signal
from hermes_lab.envs.refusals import (
    CHANGED,
    ERRORED,
    FAILED,
    LIBRARIES,
    NO_REPLY,
    NO_REWARD,
    POLICIES,
    REWRITTEN,
    UNREVIEWED,
    UNSCORED,
    count_equal_rewards,
    other_reasons,
)
from hermes_lab.envs.signal import UNTOLD, knowledge_of
from hermes_lab.types import Episode, ScoredGroup

_BUDGETS = ("max_iterations", "max_seconds", "max_tokens", "max_cost", "context_full", "repeated")
_WARM = 0.5
"""Below this temperature, copies are expected."""


class Value(NamedTuple):
    """A value that advice may change: the name of its field, and where to change it, such as ` in a new lock`."""

    field: str
    now: float | None
    where: str = ""

    def above(self) -> str:
        """`grpo.group_size above 8 in a new lock`."""
        return f"{self.field} above {self.now:g}{self.where}" if self.now is not None else f"{self.field}{self.where}"


class Settings(NamedTuple):
    """The settings of the rollouts, as their user changes them.

    `run` is their configuration, and `where` where it is written, such as ` in rollouts`. `start` says how to get a
    better policy, `medium` how to get tasks of medium difficulty ("" if that is set already); `paid` is the section
    that says what a review is paid.
    """

    run: RunConfig
    group_size: Value
    temperature: Value
    reply_tokens: Value
    seconds: Value
    longest: Value
    start: str
    medium: str
    where: str = ""
    paid: str = "reviews"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Rollouts, used or not. Counts are of judged rollouts, except `errored` and those of groups.

    `low` and `high` are the smallest and the largest reward. `late` rollouts were accepted at a later submission;
    `untold` ones have a task with a hidden rule, and skills that `env.knowledge` did not choose. `cut` rollouts ended
    with a reply at its token limit, `unparsed` ones with a call in an unknown format, `budget` ones at another limit;
    `silent` ones called no tool. Of the `groups`, `failed` and `solved_groups` have equal rewards because no rollout,
    or every one, solved its task; `copies` have rollouts that are all the same tokens.
    """

    rollouts: int
    errored: int = 0
    solved: int
    late: int = 0
    untold: int = 0
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

    def sentence(self, reply_tokens: int | None, temperature: float | None) -> str:
        """What was measured, for a message."""
        parts = [
            f"{self.solved} of {self.rollouts} rollouts solved",
            *([f"{self.late} accepted after feedback"] if self.late else []),
            f"rewards {self.low:g} to {self.high:g}",
            f"{_percent(self.cut, self.rollouts)} cut at {reply_tokens or 'the limit of'} tokens",
            f"{_percent(self.unparsed, self.rollouts)} unparsed",
            f"{_percent(self.silent, self.rollouts)} without a tool call",
            *([f"temperature {temperature:g}"] if temperature is not None else []),
        ]
        return ", ".join([*parts, *([f"{self.errored} errored or not judged"] if self.errored else [])])

    def equal(self) -> str:
        """Why groups have equal rewards: ` (3 failed throughout, 1 solved throughout)`, or ""."""
        counts = {"failed throughout": self.failed, "solved throughout": self.solved_groups}
        found = [f"{count} {how}" for how, count in counts.items() if count]
        return f" ({', '.join(found)})" if found else ""


def measure(episodes: Sequence[Episode], groups: Sequence[ScoredGroup]) -> Measured:
    """Measures rollouts and their groups."""
    judged = [each for each in episodes if each.reward is not None and each.trajectory is not None]
    rewards = [each.reward.value for each in judged if each.reward is not None]
    ends = [each.trajectory.stop_reason for each in judged if each.trajectory is not None]
    solved = {each.key for each in judged if each.success}
    equal = [group for group in groups if without_signal(group.kind, group.rewards)]
    return Measured(
        rollouts=len(judged),
        errored=len(episodes) - len(judged),
        solved=len(solved),
        late=sum(any(verdict.success for verdict in each.verdicts[1:]) for each in judged if not each.success),
        untold=sum(knowledge_of(each) == UNTOLD for each in judged),
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


def add(measured: Sequence[Measured]) -> Measured:
    """Several measurements together."""
    totals: dict[str, Any] = {
        name: sum(getattr(each, name) for each in measured)
        for name in Measured.__struct_fields__
        if name not in ("low", "high")
    }
    return Measured(low=min(each.low for each in measured), high=max(each.high for each in measured), **totals)


def advice(measured: Measured, settings: Settings) -> list[str]:
    """What to change where rewards are equal within groups, the most likely cause first."""
    return [*_of_rollouts(measured, settings), *_of_tasks(measured, settings)]


def tips(refused: Mapping[str, int], causes: Callable[[], list[str]], settings: Settings) -> list[str]:
    """What to change where groups are refused for these reasons: the remedies of the reasons, and the `causes` of equal
    rewards before them, if most groups are refused for these."""
    rest = other_reasons(refused)
    remedies = list(dict.fromkeys(_remedy(reason, settings) for reason in rest))
    equal = count_equal_rewards(refused)
    return remedies if rest and sum(rest.values()) >= equal else [*(causes() if equal else []), *remedies]


def _remedy(reason: str, settings: Settings) -> str:
    if reason.startswith("longer"):
        return (
            f"{settings.longest.above()}, or less text: agent.prompt=compact, fewer agent.toolsets, a lower "
            f"agent.max_iterations (groups are {reason})"
        )
    start_again = "start a new server, and train again"
    infrastructure = "rollouts failed on infrastructure: see their errors with `hermes-lab show`"
    unjudged = "nothing judged the rollouts: see their errors with `hermes-lab show`"
    remedies = {
        "of another policy": f"the server did not serve the policy in training: {start_again}",
        POLICIES: f"the server changed its weights between rollouts of a group: {start_again}",
        CHANGED: f"the server changed its weights between rollouts of a group: {start_again}",
        LIBRARIES: "rollouts did not start from the library that they should: this is a bug, please report it",
        "held out": "draw tasks that are not held out: rollouts with another suite.world, or check gate.held_out",
        ERRORED: infrastructure,
        FAILED: infrastructure,
        UNSCORED: unjudged,
        NO_REWARD: unjudged,
        NO_REPLY: "the prompt leaves no room for a reply: agent.prompt=compact, or fewer agent.toolsets",
        REWRITTEN: "the conversation filled the context in a review: a model with a longer context, or less text: "
        "agent.prompt=compact, fewer agent.toolsets, a lower agent.max_iterations",
        UNREVIEWED: "work that ends without an answer is not reviewed: agent.max_iterations above "
        f"{settings.run.agent.max_iterations}{settings.where}, or {settings.start}",
    }
    return remedies.get(reason, f"groups are refused: {reason}")


def listed(tips: Sequence[str]) -> str:
    """`(1) ...; (2) ...`."""
    return "; ".join(f"({number}) {tip}" for number, tip in enumerate(tips, 1))


def _calls(episode: Episode) -> bool:
    messages = episode.trajectory.messages if episode.trajectory else ()
    return any(message.tool_calls for message in messages)


def _of_rollouts(measured: Measured, settings: Settings) -> Iterator[str]:
    """Advice by how rollouts ended, whatever the tasks."""
    run, temperature = settings.run, settings.temperature
    if measured.copies * 2 > measured.groups:
        how = f"{temperature.above()} (1 is usual)"
        if temperature.now is None or temperature.now >= _WARM:
            now = "" if temperature.now is None else f" {temperature.now:g}"
            how = f"the server may ignore the temperature{now}, or the policy has become deterministic"
        yield f"the rollouts of a task are copies of each other: {how}"
    if measured.cut * 2 > measured.rollouts:
        yield f"most replies are cut: {settings.reply_tokens.above()}"
    if measured.unparsed * 2 > measured.rollouts:
        yield f"most replies {unread_calls(settings)}"
    elif measured.silent * 2 > measured.rollouts:
        yield (
            f"most rollouts call no tool in the format {run.agent.tool_format!r}: {settings.start}, or another "
            "agent.tool_format"
        )
    if measured.budget * 2 > measured.rollouts:
        yield (
            f"most rollouts end at a limit: agent.max_iterations above {run.agent.max_iterations}{settings.where}, or "
            f"{settings.seconds.above()}"
        )


def unread_calls(settings: Settings) -> str:
    """What to change where the calls of rollouts or reviews are not read."""
    return (
        "are calls in a format that is not read: agent.tool_format or model.tool_parser"
        f"{settings.where}, or {settings.start}"
    )


def _of_tasks(measured: Measured, settings: Settings) -> Iterator[str]:
    """Advice by what was solved."""
    more = f"more samples of a task: {settings.group_size.above()}"
    if measured.rollouts and measured.solved == measured.rollouts:
        yield f"every rollout solves its task, so nothing is left to learn here; harder tasks: {_harder(settings)}"
        return
    if measured.untold and not _given(settings.run):
        off = " with learning.arms=[off]" if settings.where else ""
        yield (
            f"skills that state hidden rules: env.knowledge=mixed{off}{settings.where} ({measured.untold} of "
            f"{measured.rollouts} rollouts have a rule that nothing states before the first submission)"
        )
    if measured.late and not {"recovered", "accepted"} & settings.run.reward.weights.keys():
        yield (
            f"a reward for work that is accepted after feedback: reward.recovered=1 with reward.score=0{settings.where}"
            f" ({measured.late} rollouts were, and it earns them nothing now)"
        )
    if not measured.solved:
        possible = 100 * wilson(0, measured.rollouts).high
        yield f"easier tasks: {_easier(settings)}"
        yield settings.start
        yield f"{more} (a success rate of up to {possible:.0f} % would show no success in {measured.rollouts} rollouts)"
        return
    yield f"tasks are either solved or failed by all their rollouts: {more}"
    yield f"tasks of medium difficulty, {settings.medium}; {settings.start}" if settings.medium else settings.start


def _given(run: RunConfig) -> bool:
    """Whether skills state rules already."""
    return run.env.knowledge != "none" or "oracle" in run.learning.arms


def _easier(settings: Settings) -> str:
    run, options = settings.run, settings.run.suite.options
    rules = f"suite.options.ruled below {options['ruled']}" if options.get("ruled") else "fewer suite.options.ruled"
    pieces = "suite.options.pieces=1, " if options.get("pieces", 1) != 1 else ""
    told = "" if settings.where else "env.knowledge=oracle (skills state the rules), "
    if settings.where and set(run.learning.arms) != {"oracle"}:
        told = "learning.arms=[oracle] (skills state the rules), "
    if run.env.knowledge != "none":
        told = "" if run.env.knowledge == "oracle" else "env.knowledge=oracle (skills state all rules), "
    return f"{_in(settings)}{told}{pieces}{rules}, or another family (`hermes-lab tasks list`)"


def _harder(settings: Settings) -> str:
    run = settings.run
    told = "learning.arms=[off] instead of oracle, " if settings.where and "oracle" in run.learning.arms else ""
    told = "env.knowledge=mixed instead of oracle, " if run.env.knowledge == "oracle" else told
    return f"{_in(settings)}{told}suite.options.pieces=2, more suite.options.ruled, or another family"


def _in(settings: Settings) -> str:
    return f"{settings.where.strip()}, " if settings.where else ""


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.0f} %" if total else "0 %"
