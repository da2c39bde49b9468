"""GRPO in short on-policy rounds: the newest version samples rollouts, and a few optimiser steps give the next one.

All state is on disk, so a killed training can continue with `--resume`.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from hermes_lab.envs.advice import Measured, add, measure
from hermes_lab.envs.groups import write_groups
from hermes_lab.envs.learning.worth import MeanValue
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.weights import Say
from hermes_lab.records import read_episodes, write_json
from hermes_lab.training.adapters import is_finished, new_version, write_card
from hermes_lab.training.collected import Collected, collected, held_out_keys
from hermes_lab.training.curriculum import FamilyRound, describe_rates, draw_groups, family_round
from hermes_lab.training.early_stop import EQUAL, Start, advice, partly, reason, review_advice, rounds_without_signal
from hermes_lab.training.group_filter import FilteredGroups, Rules, filter_groups, with_missing
from hermes_lab.training.grpo_card import check_card_of_round, grpo_card
from hermes_lab.training.grpo_config import (
    GrpoConfig,
    curriculum_lock,
    refuse_compression,
    round_batches,
    run_name,
    training_batch,
)
from hermes_lab.training.grpo_run import GrpoRun, OpenSampler, Sampler, prepare
from hermes_lab.training.grpo_steps import RoundBatch, take_steps
from hermes_lab.training.heldout import evaluate, heldout_summary
from hermes_lab.training.lock import load_lock
from hermes_lab.training.lora import require_libraries
from hermes_lab.training.rounds import FinishedRound, Policy, RoundTraining
from hermes_lab.training.select import refusals
from hermes_lab.types import Episode, GroupKind, ScoredGroup


def train_grpo(config: GrpoConfig, open_sampler: OpenSampler, say: Say, command: str = "") -> Path:
    """Trains all rounds and returns the folder of the last version. Cards record `command`.

    Raises `ConfigError` if the lock was changed, a resume does not match, a library is missing, or the training stopped
    because rounds had no group to train on.
    """
    locked = load_lock(Path(config.lock))
    refuse_compression(config)
    require_libraries(locked)
    grpo_run = prepare(config, locked, say, command)
    if not grpo_run.start.folder:
        say("no parent: training starts from the base model; use -c parent=ADAPTER to start from an adapter")
    with open_sampler(locked, grpo_run.rounds.log) as sampler:
        while not (ended := _ended(grpo_run)):
            if _has_trained(grpo_run):
                evaluate(grpo_run, sampler, say)
            _round(grpo_run, sampler, say)
        if _has_trained(grpo_run):
            evaluate(grpo_run, sampler, say, ended=ended)
    grpo_run.rounds.write_metrics()  # the training may have been killed just before the last write
    _stop_without_signal(grpo_run)
    say(_summary(grpo_run))
    return Path(grpo_run.rounds.done()[-1].version.folder)


def _has_trained(grpo_run: GrpoRun) -> bool:
    """Whether a round has taken steps. Before that nothing is evaluated: the training may be hopeless."""
    return any(each.used for each in grpo_run.rounds.done())


def _ended(grpo_run: GrpoRun) -> bool:
    done = grpo_run.rounds.done()
    return len(done) >= grpo_run.wanted or bool(_without_signal(grpo_run, done))


def _without_signal(grpo_run: GrpoRun, done: Sequence[FinishedRound]) -> int:
    """How many rounds without a usable group end the training here; 0: it goes on.

    With families, the first rounds end a training only after every family had rollouts: those that were not drawn yet
    may be easier. They are drawn next, which takes at most as many rounds as there are families.
    """
    used, families = [each.used for each in done], set(grpo_run.config.families)
    tried = {family for each in done for family, found in each.families.items() if found.rollouts}
    if not any(used) and families - tried and len(done) < len(families):
        return 0
    return rounds_without_signal(used)


def _stop_without_signal(grpo_run: GrpoRun) -> None:
    """Raises `ConfigError` with what was measured and advice if the last rounds ended the training."""
    done = grpo_run.rounds.done()
    last = done[len(done) - _without_signal(grpo_run, done) :]
    if not last:
        return
    measured = add([each.measured or _measured(grpo_run, each.round) for each in last])
    refused = Counter[str]()
    for each in last:
        refused.update(each.refused)
    reviews = [each.reviews for each in last if each.reviews]
    tips = _advice(reviews, measured, refused, grpo_run)
    kept = f"{last[-1].version.folder} is kept" if last[-1].steps else "there is no adapter"
    said = "; ".join(each.sentence() for each in reviews)
    if not reviews or grpo_run.config.objective == "both":
        solving = measured.sentence(grpo_run.grpo.max_reply_tokens, grpo_run.grpo.temperature)
        said = f"{said}; {solving}" if said else solving
    why = reason([each.round for each in last], said, refused, tips)
    grpo_run.rounds.stop(why, last[-1])
    raise ConfigError(f"train: {why}. The training stops, {kept}; rollouts: {grpo_run.rounds.folder(last[-1].round)}")


def _advice(
    reviews: Sequence[MeanValue], measured: Measured, refused: Mapping[str, int], grpo_run: GrpoRun
) -> list[str]:
    """What to change, for reviews if there are `reviews`, and for rollouts if the training is on these (too). It names
    the values of the first family."""
    start = _start(grpo_run)
    tips = review_advice(reviews, refused, start) if reviews else []
    if not reviews or grpo_run.config.objective == "both":
        tips += advice(measured, refused, start)
    return list(dict.fromkeys(tips))


def _start(grpo_run: GrpoRun) -> Start:
    run = training_batch(grpo_run.config, grpo_run.locked, 1, "", grpo_run.rounds.out, grpo_run.families[0]).config
    parent, families = bool(grpo_run.start.folder), bool(grpo_run.config.families)
    return Start(grpo_run.grpo, run, grpo_run.locked.max_token_length, parent, families)


class _Part(NamedTuple):
    """The groups of one kind: how many are used, the refused ones by reason, and their rollouts."""

    used: int
    refused: dict[str, int]
    measured: Measured


class _Selection(NamedTuple):
    """The groups of a round: all that were collected, those to train on, and both by kind. `untrained` is the round
    without steps."""

    found: Collected
    gated: FilteredGroups
    measured: Measured
    untrained: FinishedRound
    parts: dict[GroupKind, _Part]


def _round(grpo_run: GrpoRun, sampler: Sampler, say: Say) -> None:
    """Collects rollouts, trains on the usable groups, and records the round."""
    began, done = time.monotonic(), grpo_run.rounds.done()
    title = f"round {len(done) + 1}/{grpo_run.wanted}"
    by_family = _collect(grpo_run, done, grpo_run.policy(done), sampler, say)
    selection = _select(grpo_run, done, by_family)
    if len(done) > 1 and done[-2].version not in (selection.untrained.policy, grpo_run.start):
        sampler.retire(Path(done[-2].version.folder))
    finished = selection.untrained
    _report(grpo_run, selection, title, say)
    if finished.used:
        if not finished.steps:
            evaluate(grpo_run, sampler, say)  # only now, so that a hopeless training ends sooner
        sampler.rest()
        version = _train(grpo_run, finished, selection.gated, grpo_run.rounds.folder(finished.round), say)
        finished = replace(finished, version=version, steps=finished.steps + grpo_run.grpo.steps_per_round)
        _warn_of_few(grpo_run, selection, title, say)
    else:
        say(f"{title}: no usable group; the adapter is unchanged")
    finished = replace(finished, seconds=round(time.monotonic() - began, 1))
    grpo_run.rounds.finish(finished)
    grpo_run.rounds.write_metrics()
    left = finished.seconds * (grpo_run.wanted - finished.round)
    say(f"{title}: done in {finished.seconds:.0f} s{'' if _ended(grpo_run) else f', about {left:.0f} s left'}")


def _select(grpo_run: GrpoRun, done: list[FinishedRound], by_family: Mapping[str, list[Episode]]) -> _Selection:
    """Filters the groups of the collected episodes, and writes those to train on."""
    number, policy = len(done) + 1, grpo_run.policy(done)
    episodes = [episode for found in by_family.values() for episode in found]
    found = _found(grpo_run, number, episodes)
    rules = _rules(grpo_run, done, episodes)
    gated = filter_groups(found.groups, rules)
    gated = gated._replace(refused=with_missing(gated.refused, found.refused))
    write_groups(gated.groups, grpo_run.rounds.folder(number) / "groups.jsonl")
    reward, length = _means(found.groups)
    measured = measure(episodes, found.groups)
    untrained = FinishedRound(
        round=number,
        policy=policy,
        version=policy,
        steps=done[-1].steps if done else 0,
        used=len(gated.groups),
        refused=gated.refused,
        left_out=gated.left_out,
        reward=reward,
        length=length,
        seconds=0.0,
        measured=measured,
        reviews=found.reviews,
        families=_success(grpo_run, by_family, _drawn(grpo_run, done)) if grpo_run.config.families else {},
    )
    return _Selection(found, gated, measured, untrained, _parts(found, rules, episodes))


def _parts(found: Collected, rules: Rules, episodes: Sequence[Episode]) -> dict[GroupKind, _Part]:
    """The groups of each kind. A learning episode without a group counts as a missing group of reviews."""
    parts: dict[GroupKind, _Part] = {}
    missing: list[GroupKind] = ["review"] if found.reviews and found.refused else []
    for kind in dict.fromkeys([*missing, *(group.kind for group in found.groups)]):
        own = [group for group in found.groups if group.kind == kind]
        members = {key for group in own for key in group.episodes}
        kept = filter_groups(own, rules)
        refused = with_missing(kept.refused, found.refused if kind == "review" else {})
        parts[kind] = _Part(len(kept.groups), refused, measure([each for each in episodes if each.key in members], own))
    return parts


def _report(grpo_run: GrpoRun, selection: _Selection, title: str, say: Say) -> None:
    """Reports the rewards of the round, and how many of its groups are usable."""
    found, gated, measured, untrained, _ = selection
    left_out = f"; {gated.left_out} sequences excluded, since a prompt was rewritten" if gated.left_out else ""
    why = measured.equal() if EQUAL in gated.refused and not found.reviews else ""
    say(
        f"{title}: mean reward {untrained.reward:.3f}, {measured.solved} of {measured.rollouts} rollouts solved; "
        f"{len(gated.groups)} of {_wanted(grpo_run, found)} groups usable{refusals(gated.refused)}{why}{left_out}"
    )
    if found.reviews:
        say(f"{title}: {_review_sentence(found.reviews, gated.groups)}")


def _warn_of_few(grpo_run: GrpoRun, selection: _Selection, title: str, say: Say) -> None:
    """Warns, with advice, if fewer than half of the wanted groups are usable."""
    found, gated = selection.found, selection.gated
    if grpo_run.config.objective == "both":
        _warn_of_kinds(grpo_run, selection, title, say)
        return
    own = [found.reviews] if found.reviews else []
    tips = partial(_advice, own, selection.measured, gated.refused, grpo_run)
    if warning := partly(len(gated.groups), _wanted(grpo_run, found), tips):
        say(f"{title}: warning: {warning}")


def _warn_of_kinds(grpo_run: GrpoRun, selection: _Selection, title: str, say: Say) -> None:
    """Warns of reviews and of follow-ups apart: one kind may have no usable group while the other one has many."""
    start = _start(grpo_run)
    for kind, part in selection.parts.items():
        if kind == "review":
            own = [selection.found.reviews] if selection.found.reviews else []
            tips = partial(review_advice, own, part.refused, start)
        else:
            tips = partial(advice, part.measured, part.refused, start)
        if warning := partly(part.used, part.used + sum(part.refused.values()), tips):
            say(f"{title}: warning: {'reviews' if kind == 'review' else 'follow-ups'}: {warning}")


def _review_sentence(reviews: MeanValue, used: Sequence[ScoredGroup]) -> str:
    """The value of a round's reviews, and which groups are trained on."""
    kinds = Counter(group.kind for group in used)
    return f"{reviews.sentence()}; trained on {kinds['review']} groups of reviews and {kinds['solve']} of follow-ups"


def _measured(grpo_run: GrpoRun, number: int) -> Measured:
    episodes = [episode for found in _episodes(grpo_run, number).values() for episode in found]
    return measure(episodes, _found(grpo_run, number, episodes).groups)


def _found(grpo_run: GrpoRun, number: int, episodes: Sequence[Episode]) -> Collected:
    """The groups of a collected round."""
    folder = grpo_run.rounds.folder(number)
    runs = [folder / run_name(family) for family in grpo_run.families]
    return collected(episodes, runs, grpo_run.config.objective)


def _wanted(grpo_run: GrpoRun, found: Collected) -> int:
    """The groups that a round should give. How many follow-ups of learning episodes do depends on their reviews."""
    if grpo_run.config.objective != "both":
        return grpo_run.grpo.groups_per_round
    return len(found.groups) + sum(found.refused.values())


def _episodes(grpo_run: GrpoRun, number: int) -> dict[str, list[Episode]]:
    """The episodes of a collected round, by family; by "" if there are none."""
    folder = grpo_run.rounds.folder(number)
    runs = {family: folder / run_name(family) for family in grpo_run.families}
    return {family: list(read_episodes(run)) for family, run in runs.items() if run.exists()}


def _drawn(grpo_run: GrpoRun, done: Sequence[FinishedRound]) -> dict[str, int]:
    """The groups of the next round, by family."""
    groups = grpo_run.grpo.groups_per_round
    if not grpo_run.config.families:
        return {"": groups}
    lock = curriculum_lock(grpo_run.config, grpo_run.locked)
    return draw_groups(grpo_run.families, [each.families for each in done], lock, groups, grpo_run.locked.seed)


def _collect(
    grpo_run: GrpoRun, done: Sequence[FinishedRound], policy: Policy, sampler: Sampler, say: Say
) -> dict[str, list[Episode]]:
    """Collects the next round's rollouts. Errored ones are not retried once collection has finished."""
    number, drawn = len(done) + 1, _drawn(grpo_run, done)
    folder = grpo_run.rounds.folder(number)
    mark = folder / "collected.json"
    if not mark.exists():
        size = f"{grpo_run.grpo.groups_per_round} groups of {grpo_run.grpo.group_size}"
        say(f"round {number}/{grpo_run.wanted}: {size} by {policy.name}{_choice(grpo_run, done, drawn)}")
        for batch in round_batches(grpo_run.config, grpo_run.locked, number, policy.folder, folder, drawn):
            sampler.collect(batch)
    episodes = _episodes(grpo_run, number)
    ends = [episode.status for found in episodes.values() for episode in found]
    if not (ok := ends.count("ok")):
        raise ModelError(f"{folder}: no rollout finished; see its episodes, then continue with --resume")
    write_json(mark, {"finished": ok, "errored": len(ends) - ok})
    return episodes


def _choice(grpo_run: GrpoRun, done: Sequence[FinishedRound], drawn: Mapping[str, int]) -> str:
    """What the curriculum has drawn and why, or ""."""
    if not grpo_run.config.families:
        return ""
    lock = curriculum_lock(grpo_run.config, grpo_run.locked)
    rates = describe_rates(grpo_run.families, [each.families for each in done], lock)
    return f": {', '.join(f'{count} {family}' for family, count in drawn.items())}; success so far: {rates}"


def _success(
    grpo_run: GrpoRun, episodes: Mapping[str, list[Episode]], drawn: Mapping[str, int]
) -> dict[str, FamilyRound]:
    rounds = {}
    for family, found in episodes.items():
        reward = training_batch(grpo_run.config, grpo_run.locked, 1, "", grpo_run.rounds.out, family).config.reward
        rounds[family] = family_round(drawn[family], found, reward)
    return rounds


def _rules(grpo_run: GrpoRun, done: list[FinishedRound], episodes: list[Episode]) -> Rules:
    policies = list(dict.fromkeys([grpo_run.start.digest, *(each.version.digest for each in done)]))
    return Rules(
        group_size=grpo_run.grpo.group_size,
        max_tokens=grpo_run.locked.max_token_length,
        policies=policies[-1 - grpo_run.grpo.max_batches_offpolicy :],
        splits=grpo_run.config.gate.splits,
        held_out=held_out_keys(episodes, grpo_run.held_out, grpo_run.config.objective),
    )


def _train(grpo_run: GrpoRun, finished: FinishedRound, gated: FilteredGroups, folder: Path, say: Say) -> Policy:
    """Trains the round's version: optimiser steps, adapter and card. Skips what already exists."""
    version = _version(grpo_run, folder)
    constants: dict[str, Any] = {
        "round": finished.round,
        "policy": finished.policy.digest,
        "reward": finished.reward,
        "length": finished.length,
        "groups_used": finished.used,
        "groups_refused": finished.refused,
        "sequences_left_out": finished.left_out,
    }
    if finished.reviews:
        constants |= {"review_value": finished.reviews.value, "review_uplift": finished.reviews.uplift}
        if finished.reviews.error is not None:
            constants["review_value_error"] = finished.reviews.error
    if finished.families:
        constants["families"] = {name: to_builtins(each) for name, each in finished.families.items()}
    history = [*(each.families for each in grpo_run.rounds.done()), finished.families] if finished.families else ()
    round_training = RoundTraining(version, grpo_run.config.lock, grpo_run.rounds.checkpoints, constants, history)
    if is_finished(version):
        check_card_of_round(version, grpo_run.locked, finished.policy, gated.groups)
    else:
        round_batch = RoundBatch(
            gated.groups, finished.policy, begin=finished.steps, end=finished.steps + grpo_run.grpo.steps_per_round
        )
        take_steps(grpo_run.locked, grpo_run.grpo, grpo_run.base, round_batch, round_training, say)
        card = grpo_card(
            grpo_run.locked,
            grpo_run.base,
            round_batch,
            round_training,
            refused=gated.refused,
            runs=[folder / run_name(family) for family in finished.families or [""]],
            heldout=[check.on_card for check in grpo_run.rounds.checks() if check.step <= finished.steps],
            command=grpo_run.command,
        )
        write_card(version, card)
        say(f"{version}: {card.sentence()}")
    return Policy(str(version), adapter_digest(version))


def _version(grpo_run: GrpoRun, folder: Path) -> Path:
    """The folder of the round's version, stable across restarts."""
    path = folder / "version.json"
    if path.exists():
        version = Path(json.loads(path.read_text())["folder"])
        version.mkdir(parents=True, exist_ok=True)  # `prune` removes unfinished versions
        return version
    version = new_version(Path(grpo_run.config.adapters), grpo_run.config.name)
    write_json(path, {"folder": str(version)})
    return version


def _means(groups: Sequence[ScoredGroup]) -> tuple[float, float]:
    """Mean reward and mean sampled tokens per rollout or review. One with several sequences counts once."""
    rewards: dict[tuple[str, str, int], float] = {}
    lengths: Counter[tuple[str, str, int]] = Counter()
    for group in groups:
        rows = zip(group.episodes, group.samples, group.rewards, group.masks, strict=True)
        for episode, sample, reward, mask_T in rows:
            rewards[group.kind, episode, sample] = reward
            lengths[group.kind, episode, sample] += sum(mask_T)
    return _mean(list(rewards.values())), _mean(list(lengths.values()))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _summary(grpo_run: GrpoRun) -> str:
    done = grpo_run.rounds.done()
    rewards = " -> ".join(f"{each.reward:.3f}" for each in done)
    groups = grpo_run.grpo.groups_per_round * len(done)
    of = "" if grpo_run.config.objective == "both" else f" of {groups}"
    reviews = " -> ".join(f"{each.reviews.value:+.3f}" for each in done if each.reviews)
    values = f"; mean value of a review {reviews}" if reviews else ""
    heldout = heldout_summary(grpo_run)
    return (
        f"{done[-1].version.folder}: {sum(each.used for each in done)}{of} groups in {len(done)} rounds were "
        f"usable; mean reward {rewards}{values}{f'; {heldout}' if heldout else ''}"
    )
