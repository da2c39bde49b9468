"""The plan of a GRPO training; and a probe, which collects a few groups to see whether it can learn."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hermes_lab.config.schema import RunConfig
from hermes_lab.envs.advice import listed, measure
from hermes_lab.envs.groups import one_sequence_each
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.envs.signal import Rated, rate_group, rate_missing, signal_of
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.harness.check import check_agent
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.records import read_episodes
from hermes_lab.returned import load_tasks
from hermes_lab.tasks.registry import load_suite, wrap_suite_errors
from hermes_lab.text.counted import counted
from hermes_lab.training.adapters import find_adapter
from hermes_lab.training.batch_tasks import batch_tasks
from hermes_lab.training.collected import Collected, collected, held_out_keys
from hermes_lab.training.curriculum import draw_groups
from hermes_lab.training.early_stop import Start, advice, reason, review_advice
from hermes_lab.training.evaluations import read_evaluations
from hermes_lab.training.group_filter import Rules, filter_groups, refusal, with_missing
from hermes_lab.training.grpo_config import (
    Batch,
    GrpoConfig,
    curriculum_lock,
    grpo_lock,
    heldout_batch,
    refuse_compression,
    round_batches,
    training_batch,
    unshared,
)
from hermes_lab.training.grpo_run import Sampler, check_inputs, held_out_digests
from hermes_lab.training.lock import GrpoLock, LockedConfig
from hermes_lab.training.lora import require_libraries
from hermes_lab.training.plan import Plan, Row, plan_grpo_steps
from hermes_lab.training.review_plan import most_groups, review_rows
from hermes_lab.training.rounds import Rounds
from hermes_lab.types import Episode
from hermes_lab.verification import check_judge

_RATES = (0.01, 0.05, 0.2, 0.5, 0.8, 0.95)


def plan_grpo(config: GrpoConfig, locked: LockedConfig) -> Plan:
    """What `train_grpo` would run and need. Loads the suites, but no model; asks no server, writes nothing, and
    downloads no weights.

    Raises `ConfigError` for what the training would refuse before it samples.
    """
    refuse_compression(config)
    grpo = grpo_lock(config, locked)
    require_libraries(locked, planned=True)
    check_inputs(config, locked, weights.silent, planned=True)
    rows = grpo_rows(config, locked, grpo)
    most = grpo.model_copy(update={"groups_per_round": most_groups(config, locked, grpo)})
    return plan_grpo_steps(config.lock, locked, most, rows)


def grpo_rows(config: GrpoConfig, locked: LockedConfig, grpo: GrpoLock) -> list[Row]:
    """The lines of a plan that say what is sampled, and how likely a group is usable."""
    parent = find_adapter(config.parent, Path(config.adapters)) if config.parent else None
    rounds = locked.total_steps // grpo.steps_per_round
    size = grpo.groups_per_round * grpo.group_size
    first = [training_batch(config, locked, 1, "", Path(), family) for family in config.families or [""]]
    for batch in first:
        _check_tasks(batch)
    sampled = [
        (
            "rounds",
            f"{rounds}, each {grpo.groups_per_round} groups of {grpo.group_size} rollouts at temperature "
            f"{grpo.temperature:g}, then {counted(grpo.steps_per_round, 'step')} on the "
            f"usable groups: {rounds * size:,} rollouts, {locked.total_steps} steps",
        ),
        *_task_rows(config, locked, rounds, first),
        *_known(config, locked, first),
        ("held-out", _heldout(config, locked, grpo)),
        ("tokens", _tokens(locked, grpo, first, rounds * size)),
        ("usable", _usable(grpo)),
        ("variance", _variance()),
    ]
    if first[0].reviews:
        sampled = [
            *review_rows(config, locked, grpo, first[0]),
            *_task_rows(config, locked, rounds, first),
            ("held-out", _heldout(config, locked, grpo)),
        ]
    rows = [
        ("policy", _policy(parent, locked)),
        *_server(config, locked),
        *sampled,
        ("stops", f"{_first_end(config, grpo)}, later after two such rounds in a row"),
        ("output", f"{config.out}; versions {Path(config.adapters) / config.name}-vN{_so_far(config, rounds)}"),
    ]
    return [*rows, *_scores(parent)]


def probe(config: GrpoConfig, locked: LockedConfig, sampler: Sampler, groups: int, folder: Path) -> list[Row]:
    """Collects the first `groups` groups of the training, by the policy that it would start from.

    The lines say how many are usable and how their rewards vary, in all and by what their skills know, and if few are
    usable, what would raise it. Raises `ConfigError` with advice if none is usable, `ModelError` if no rollout
    finished.
    """
    grpo = grpo_lock(config, locked)
    parent = find_adapter(config.parent, Path(config.adapters)) if config.parent else None
    drawn = {"": groups}
    if config.families:
        drawn = draw_groups(list(config.families), [], curriculum_lock(config, locked), groups, locked.seed)
    batches = round_batches(config, locked, 1, str(parent or ""), folder, drawn)
    for batch in batches:
        sampler.collect(batch)
    episodes = [episode for batch in batches for episode in read_episodes(batch.folder)]
    if not any(episode.status == "ok" for episode in episodes):
        raise ModelError(f"{folder}: no rollout finished; see its episodes")
    found = collected(episodes, [batch.folder for batch in batches], config.objective)
    policy = adapter_digest(parent) if parent else locked.base_model
    held_out = held_out_keys(episodes, held_out_digests(config), config.objective)
    rules = Rules(grpo.group_size, locked.max_token_length, [policy], config.gate.splits, held_out)
    used = filter_groups(found.groups, rules).groups
    signal = signal_of(_rated(found, rules, episodes))
    refused = with_missing(filter_groups(found.groups, rules).refused, found.refused)
    measured = measure(episodes, found.groups)
    start = Start(grpo, batches[0].config, locked.max_token_length, bool(parent), bool(config.families))
    if found.reviews:
        tips, said = review_advice([found.reviews], refused, start), found.reviews.sentence()
    else:
        tips, said = advice(measured, refused, start), measured.sentence(grpo.max_reply_tokens, grpo.temperature)
    if not used:
        raise ConfigError(f"probe: {reason([1], said, refused, tips)}; rollouts: {folder}")
    whole, note = _wanted(batches, groups)
    wanted = len(found.groups) + sum(found.refused.values()) if config.objective == "both" else whole
    none = (1 - len(used) / wanted) ** grpo.groups_per_round
    equal = "" if found.reviews else measured.equal()
    a_round = f"about {grpo.groups_per_round * len(used) / wanted:.1f} of {grpo.groups_per_round} in a round, "
    chance = "" if config.objective == "both" else f"{a_round}none with probability {_percent(none)}; "
    return [
        ("probe", f"{len(used)} of {wanted} groups usable{equal}{note}: {said}; {chance}rollouts: {folder}"),
        *signal.rows(),
        *([("advice", listed(tips))] if signal.few else []),
    ]


def _wanted(batches: Sequence[Batch], groups: int) -> tuple[int, str]:
    """The groups that the batches give, and what to say if they are more than those asked for."""
    wanted = sum(batch.tasks * (batch.reviews.tasks if batch.reviews else 1) for batch in batches)
    if wanted == groups:
        return wanted, ""
    return wanted, f" ({groups} were asked for, and a learning episode gives {wanted // batches[0].tasks})"


def _rated(found: Collected, rules: Rules, episodes: Sequence[Episode]) -> list[Rated]:
    by_key = {episode.key: episode for episode in episodes}
    singles = [one_sequence_each(group) for group in found.groups]
    made = [rate_group(group, by_key, refusal(group, rules) or "") for group in singles]
    return [*made, *rate_missing(found.refused)]


def group_chance(success: float, group_size: int) -> float:
    """The probability that a group is usable, neither failed nor solved throughout, if every rollout of its task solves
    it with probability `success`."""
    return 1 - success**group_size - (1 - success) ** group_size


def evaluation_steps(locked: LockedConfig, grpo: GrpoLock) -> list[int]:
    """The steps at which a training is evaluated, if every round has a usable group."""
    if not grpo.steps_per_eval:
        return []
    ends = range(0, locked.total_steps + 1, grpo.steps_per_round)
    due = [end for end in ends[1:] if end // grpo.steps_per_eval != (end - grpo.steps_per_round) // grpo.steps_per_eval]
    return sorted({0, *due, locked.total_steps})


def _check_tasks(batch: Batch) -> None:
    """Raises `ConfigError` for what the run of a batch would refuse of its suite, its agent and its judge."""
    run = batch.config
    suite = load_suite(run.suite, run.sandbox)
    TaskKnowledge(run, suite)
    if batch.reviews:  # learning episodes draw their tasks themselves
        with wrap_suite_errors(suite):
            load_tasks(suite, split=run.suite.split, count=1, seed=run.suite.seed, world=batch.first_world)
        return
    tasks = [task for _, _, tasks in batch_tasks(batch, suite) for task in tasks]
    check_agent(run, suite, tasks)
    check_judge(run, suite, tasks)


def _known(config: GrpoConfig, locked: LockedConfig, first: Sequence[Batch]) -> list[Row]:
    """What the tasks of the first round know where `env.knowledge` chooses, for each family that it draws from; how
    many have a rule that nothing states, where there are no skills."""
    if config.families:
        lock = curriculum_lock(config, locked)
        drawn = draw_groups(list(config.families), [], lock, first[0].tasks, locked.seed)
        chosen = [
            (f"{name}: ", batch._replace(tasks=drawn[name])) for name, batch in _named(config, first) if name in drawn
        ]
    else:
        chosen = [("", batch) for batch in first]
    texts = [(name, _knowledge(batch)) for name, batch in chosen]
    return [("knowledge", f"{name}{text}") for name, text in texts if text]


def _knowledge(batch: Batch) -> str:
    run = batch.config
    suite = load_suite(run.suite, run.sandbox)
    tasks = [task for _, _, tasks in batch_tasks(batch, suite) for task in tasks]
    whole = counted(len(tasks), "task")
    if run.env.knowledge != "none":
        chosen = TaskKnowledge(run, suite)
        counts = Counter(chosen.of(task).label for task in tasks)
        return f"of {whole}: " + "; ".join(f"{count} {label}" for label, count in sorted(counts.items()))
    ruled = sum(bool(task.triggers) for task in tasks)
    if not ruled or run.learning.arms != ("off",):
        return ""
    has = "has" if ruled == 1 else "have"
    return (
        f"{ruled} of {whole} {has} a hidden rule that nothing states before the first submission, so few "
        "of their rollouts solve them: set env.knowledge=mixed in rollouts"
    )


def _task_rows(config: GrpoConfig, locked: LockedConfig, rounds: int, first: Sequence[Batch]) -> list[Row]:
    if not config.families:
        worlds = first[0].config.learning.worlds
        last = first[0].first_world + rounds * worlds - 1
        return [("tasks", f"{_where(first[0].config)}; worlds {first[0].first_world} to {last}, {worlds} a round")]
    lock = curriculum_lock(config, locked)
    window = f"{100 * lock.min_success:.0f}-{_percent(lock.max_success)}"
    drawn = draw_groups(list(config.families), [], lock, first[0].tasks, locked.seed)
    return [
        *((f"tasks {n}", f"{name}: {_where(one.config)}") for n, (name, one) in enumerate(_named(config, first), 1)),
        (
            "families",
            f"first round {', '.join(f'{count} {family}' for family, count in drawn.items())}; later rounds use "
            f"families with a success rate of {window} over the last {lock.memory_rounds} rounds, and untried ones",
        ),
    ]


def _named(config: GrpoConfig, first: Sequence[Batch]) -> list[tuple[str, Batch]]:
    return list(zip(config.families, first, strict=True))


def _where(run: RunConfig) -> str:
    options = ", ".join(f"{name}={value}" for name, value in run.suite.options.items())
    named = run.suite.name or run.suite.path
    skills = f"arms {', '.join(run.learning.arms)}"
    if run.env.knowledge != "none":
        skills = f"knowledge {run.env.knowledge}"
    return f"{named} ({run.suite.split}{f', {options}' if options else ''}), {skills}"


def _heldout(config: GrpoConfig, locked: LockedConfig, grpo: GrpoLock) -> str:
    steps = evaluation_steps(locked, grpo)
    if not (config.heldout and steps):
        return "no held-out evaluation (heldout, grpo.steps_per_eval), so improvement will not be measured"
    batch = heldout_batch(config, locked, "", Path())
    _check_tasks(batch)
    at = ", ".join(map(str, steps))
    sampling = f"temperature {batch.config.model.sampling.temperature:g}"
    return f"at steps {at}: {batch.tasks} tasks each of {_where(batch.config)}, {sampling}; {_certainty(batch.tasks)}"


def _certainty(tasks: int) -> str:
    return f"a rate is known to about {100 * 1.96 * (0.25 / tasks) ** 0.5:.0f} points"


def _tokens(locked: LockedConfig, grpo: GrpoLock, first: Sequence[Batch], rollouts: int) -> str:
    replies = max(batch.config.agent.max_iterations for batch in first)
    sampled = rollouts * replies * grpo.max_reply_tokens
    trained = rollouts * locked.max_token_length
    return (
        f"at most {replies} replies of {grpo.max_reply_tokens} tokens a rollout, {sampled:,} sampled in all; rollouts "
        f"above {locked.max_token_length} tokens are refused, so at most {trained:,} tokens are trained on, each "
        f"{grpo.steps_per_round} times"
    )


def _usable(grpo: GrpoLock) -> str:
    chances = [(rate, group_chance(rate, grpo.group_size)) for rate in _RATES]
    usable = ", ".join(f"{_percent(rate)} -> {_percent(chance)}" for rate, chance in chances)
    none = ", ".join(
        f"{_percent((1 - chance) ** grpo.groups_per_round)} at {_percent(rate)} solved" for rate, chance in chances[:3]
    )
    return (
        f"a group is usable if its rewards differ; expected usable groups by success rate: {usable}; chance that the "
        f"first round has none: {none}"
    )


def _variance() -> str:
    expected = ", ".join(f"{_percent(rate)} -> {rate * (1 - rate):.2g}" for rate in _RATES)
    return f"within a group, expected by success rate p, p (1 - p) for rewards of 0 or 1: {expected}"


def _server(config: GrpoConfig, locked: LockedConfig) -> list[Row]:
    refused = unshared(locked, config.turns, config.server_gpu)
    return [("server", f"refused, unless it already runs at {locked.rollout_server_url}: {refused}")] if refused else []


def _first_end(config: GrpoConfig, grpo: GrpoLock) -> str:
    if len(config.families) > grpo.groups_per_round:  # not all are drawn in the first round
        return "once every family has had rollouts, if no round has a usable group"
    return "after the first round if it has no usable group"


def _policy(parent: Path | None, locked: LockedConfig) -> str:
    if parent:
        return f"the adapter {parent.name} of the base model {locked.base_model}"
    return f"the base model {locked.base_model}, without an adapter (parent=ADAPTER starts from one)"


def _scores(parent: Path | None) -> list[Row]:
    return [("score", f"{parent.name}: {each.sentence()}") for each in read_evaluations(parent)] if parent else []


def _so_far(config: GrpoConfig, rounds: int) -> str:
    found = Rounds(Path(config.out))
    if not found.begun:
        return ""
    return f"; {len(found.done())} of {rounds} rounds are done"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
