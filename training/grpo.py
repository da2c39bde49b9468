"""GRPO in short on-policy rounds: the newest version samples rollouts, and a few optimiser steps give the next one.

All state is on disk, so a killed training can continue with `resume=true`.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from hermes_lab.config.schema import config_digest
from hermes_lab.envs.groups import build_groups, write_groups
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import values_digest
from hermes_lab.records import read_episodes, write_json
from hermes_lab.training.adapters import is_finished, new_version, write_card
from hermes_lab.training.group_filter import FilteredGroups, Rules, filter_groups
from hermes_lab.training.grpo_card import check_card_of_round, grpo_card
from hermes_lab.training.grpo_config import Batch, GrpoConfig, grpo_lock, heldout_batch, training_batch
from hermes_lab.training.grpo_steps import RoundBatch, take_steps
from hermes_lab.training.lock import GrpoLock, LockedConfig, load_lock, lock_digest
from hermes_lab.training.lora import Say, find_parent, require_libraries
from hermes_lab.training.rounds import Check, FinishedRound, Policy, Rounds, RoundTraining
from hermes_lab.training.select import is_held_out, refusals, task_digest
from hermes_lab.types import Episode, ScoredGroup


class Sampler(Protocol):
    """Collects rollouts and owns the inference server."""

    def collect(self, batch: Batch) -> None:
        """Runs the rollouts missing from the batch's folder. Some may stay errored. Raises `KeyboardInterrupt`."""
        ...

    def rest(self) -> None:
        """Leaves the GPU to the steps, if the training says so; the next `collect` takes it back."""
        ...

    def retire(self, version: Path) -> None:
        """Unloads a superseded version from the server."""
        ...


OpenSampler = Callable[[LockedConfig, Path], AbstractContextManager[Sampler]]
"""Opens a sampler; the server it starts logs to the given path."""


class GrpoRun(NamedTuple):
    """A training with resolved inputs."""

    config: GrpoConfig
    locked: LockedConfig
    grpo: GrpoLock
    base: Path
    start: Policy
    rounds: Rounds
    held_out: frozenset[str]
    command: str

    @property
    def wanted(self) -> int:
        """Rounds of the whole training."""
        return self.locked.total_steps // self.grpo.steps_per_round


def train_grpo(config: GrpoConfig, open_sampler: OpenSampler, say: Say, command: str = "") -> Path:
    """Trains all rounds and returns the folder of the last version. Cards record `command`.

    Raises `ConfigError` if the lock was changed, a resume does not match, a library is missing, or no round had a group
    to train on.
    """
    locked = load_lock(Path(config.lock))
    if config.gate.compress:
        raise ConfigError("gate.compress: not supported by GRPO, which trains on the sampled tokens")
    require_libraries(locked)
    grpo_run = _prepare(config, locked, say, command)
    if not grpo_run.start.folder:
        say("no parent: training starts from the base model; use -c parent=ADAPTER to start from an adapter")
    with open_sampler(locked, grpo_run.rounds.log) as sampler:
        _evaluate(grpo_run, sampler, say)
        for number in range(len(grpo_run.rounds.done()) + 1, grpo_run.wanted + 1):
            _round(grpo_run, number, sampler, say)
            _evaluate(grpo_run, sampler, say)
    grpo_run.rounds.write_metrics()  # the training may have been killed just before the last write
    done = grpo_run.rounds.done()
    if not any(each.used for each in done):
        raise ConfigError(
            f"train: no usable group in {grpo_run.wanted} rounds, so there is no adapter; all rollouts of "
            f"a task had equal rewards, or see the refusals above (rollouts: {grpo_run.rounds.out})"
        )
    say(_summary(done))
    return Path(done[-1].version.folder)


def _prepare(config: GrpoConfig, locked: LockedConfig, say: Say, command: str) -> GrpoRun:
    grpo = grpo_lock(config, locked)
    out = Path(config.out)
    held_out = frozenset(task_digest(e) for run in config.gate.held_out for e in read_episodes(Path(run)))
    # Report errors in the run configurations before writing anything.
    made_from = {
        "lock": lock_digest(locked),
        "rollouts": config_digest(training_batch(config, locked, 1, "", out).config),
        "heldout": config_digest(heldout_batch(config, locked, "", out).config) if config.heldout else "",
        "gate": values_digest({"splits": sorted(config.gate.splits), "held_out": sorted(held_out)}),
        "name": config.name,
        "adapters": str(Path(config.adapters)),
    }
    parent = find_parent(config, locked)
    base = weights.resolve(locked.base_model, say)
    start = Policy(str(parent), adapter_digest(parent)) if parent else Policy("", locked.base_model)
    made_from |= {"parent": start.digest, "base model": weights.training_digest(locked.base_model, base)}
    made_from |= {"tokenizer": weights.tokenizer_digest(weights.resolve(locked.tokenizer, say))}
    return GrpoRun(
        config, locked, grpo, base, start, Rounds.begin(out, made_from, resume=config.resume), held_out, command
    )


def _policy(grpo_run: GrpoRun, done: list[FinishedRound]) -> Policy:
    return done[-1].version if done else grpo_run.start


def _round(grpo_run: GrpoRun, number: int, sampler: Sampler, say: Say) -> None:
    began, done = time.monotonic(), grpo_run.rounds.done()
    policy, steps = _policy(grpo_run, done), done[-1].steps if done else 0
    folder = grpo_run.rounds.folder(number)
    title = f"round {number}/{grpo_run.wanted}"
    episodes = _collect(grpo_run, number, policy, sampler, say)
    if len(done) > 1 and done[-2].version not in (policy, grpo_run.start):
        sampler.retire(Path(done[-2].version.folder))
    groups = list(build_groups(episodes))
    gated = filter_groups(groups, _rules(grpo_run, done, episodes))
    if lost := len({(episode.lane, episode.task_id) for episode in episodes}) - len(groups):
        gated = gated._replace(refused={**gated.refused, "without a scored rollout": lost})
    write_groups(gated.groups, folder / "groups.jsonl")
    reward, length = _means(groups)
    finished = FinishedRound(
        round=number,
        policy=policy,
        version=policy,
        steps=steps,
        used=len(gated.groups),
        refused=gated.refused,
        left_out=gated.left_out,
        reward=reward,
        length=length,
        seconds=0.0,
    )
    left_out = f"; {gated.left_out} sequences before a rewritten prompt excluded" if gated.left_out else ""
    say(
        f"{title}: {len(groups)} groups collected, mean reward {finished.reward:.3f}, {len(gated.groups)} usable"
        f"{refusals(gated.refused)}{left_out}"
    )
    if gated.groups:
        sampler.rest()
        version = _train(grpo_run, finished, gated, folder, say)
        finished = replace(finished, version=version, steps=steps + grpo_run.grpo.steps_per_round)
    else:
        say(f"{title}: no usable group; the adapter is unchanged")
    finished = replace(finished, seconds=round(time.monotonic() - began, 1))
    grpo_run.rounds.finish(finished)
    grpo_run.rounds.write_metrics()
    left = finished.seconds * (grpo_run.wanted - number)
    say(f"{title}: done in {finished.seconds:.0f} s, about {left:.0f} s left")


def _collect(grpo_run: GrpoRun, number: int, policy: Policy, sampler: Sampler, say: Say) -> list[Episode]:
    """Collects the round's rollouts. Errored ones are not retried once collection has finished."""
    folder = grpo_run.rounds.folder(number)
    run, mark = folder / "run", folder / "collected.json"
    if not mark.exists():
        size = f"{grpo_run.grpo.groups_per_round} groups of {grpo_run.grpo.group_size}"
        say(f"round {number}/{grpo_run.wanted}: {size} by {_name(policy)}")
        sampler.collect(training_batch(grpo_run.config, grpo_run.locked, number, policy.folder, run))
    episodes = list(read_episodes(run))
    ok = sum(episode.status == "ok" for episode in episodes)
    if not ok:
        raise ModelError(f"{run}: no rollout finished; see its episodes, then continue with resume=true")
    write_json(mark, {"finished": ok, "errored": len(episodes) - ok})
    return episodes


def _rules(grpo_run: GrpoRun, done: list[FinishedRound], episodes: list[Episode]) -> Rules:
    policies = list(dict.fromkeys([grpo_run.start.digest, *(each.version.digest for each in done)]))
    return Rules(
        group_size=grpo_run.grpo.group_size,
        max_tokens=grpo_run.locked.max_token_length,
        policies=policies[-1 - grpo_run.grpo.max_batches_offpolicy :],
        splits=grpo_run.config.gate.splits,
        held_out=frozenset(e.key for e in episodes if is_held_out(e, grpo_run.held_out)),
    )


def _train(grpo_run: GrpoRun, finished: FinishedRound, gated: FilteredGroups, folder: Path, say: Say) -> Policy:
    """Trains the round's version: optimiser steps, adapter and card. Skips what already exists."""
    version = _version(grpo_run, folder)
    constants = {
        "round": finished.round,
        "policy": finished.policy.digest,
        "reward": finished.reward,
        "length": finished.length,
        "groups_used": finished.used,
        "groups_refused": finished.refused,
        "sequences_left_out": finished.left_out,
    }
    round_training = RoundTraining(version, grpo_run.config.lock, grpo_run.rounds.checkpoints, constants)
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
            run=folder / "run",
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


def _evaluate(grpo_run: GrpoRun, sampler: Sampler, say: Say) -> None:
    """Evaluates before the first round, every `steps_per_eval` steps, and after the last round."""
    done = grpo_run.rounds.done()
    policy, step = _policy(grpo_run, done), done[-1].steps if done else 0
    every = grpo_run.grpo.steps_per_eval
    if not (grpo_run.config.heldout and every) or grpo_run.rounds.check(step):
        return
    before = done[-2].steps if len(done) > 1 else 0
    if done and step // every == before // every and len(done) < grpo_run.wanted:
        return
    run = grpo_run.rounds.check_run(step)
    batch = heldout_batch(grpo_run.config, grpo_run.locked, policy.folder, run)
    say(f"step {step}: {batch.tasks} held-out tasks by {_name(policy)}")
    sampler.collect(batch)
    solved = [episode.success for episode in read_episodes(run) if episode.success is not None]
    if not solved:
        raise ModelError(f"{run}: no held-out rollout was judged; see its episodes, then continue with resume=true")
    unscored = batch.tasks - len(solved)
    check = Check(
        step=step,
        policy=policy.digest,
        heldout_success=_mean(solved),
        heldout_tasks=len(solved),
        heldout_unscored=unscored,
    )
    grpo_run.rounds.finish_check(check)
    grpo_run.rounds.write_metrics()
    lost = f", {unscored} errored or not judged" if unscored else ""
    say(f"step {step}: {sum(solved)} of {len(solved)} held-out tasks solved{lost}")


def _name(policy: Policy) -> str:
    return Path(policy.folder).name or policy.digest


def _means(groups: Sequence[ScoredGroup]) -> tuple[float, float]:
    """Mean reward and mean sampled tokens per rollout. A rollout with several sequences counts once."""
    rewards: dict[str, float] = {}
    lengths: Counter[str] = Counter()
    for group in groups:
        for episode, reward, mask_T in zip(group.episodes, group.rewards, group.masks, strict=True):
            rewards[episode] = reward
            lengths[episode] += sum(mask_T)
    return _mean(list(rewards.values())), _mean(list(lengths.values()))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _summary(done: Sequence[FinishedRound]) -> str:
    used = [each for each in done if each.used]
    rewards = " -> ".join(f"{each.reward:.3f}" for each in done)
    return (
        f"{done[-1].version.folder}: {len(used)} of {len(done)} rounds had a group to train on; mean reward {rewards}"
    )
