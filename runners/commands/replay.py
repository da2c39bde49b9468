"""`replay`: an episode once more, from its recorded replies or with the live model, and where it went another way."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
import typer

from hermes_lab.config import RunConfig, config_digest
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.models import open_model
from hermes_lab.models.replay import ReplayModel
from hermes_lab.records import read_episodes
from hermes_lab.rollout import Job, Lab, run_episode
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.skills.library import Library
from hermes_lab.types import Child, Episode, Message, Trajectory
from runners.commands import options
from runners.plan import plan_learn, plan_run
from runners.snapshots import knowledge_of
from tasks import load_suite


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "replay",
        help="Run an episode again: same task, skills and sandbox, and the model's recorded replies. Says whether "
        "every message is the same, byte for byte; exits 1 at a difference.\n\n"
        "hermes-lab replay runs/first --episode 'ledger|train-w0-s0-000|main|0|0'\n\n"
        "hermes-lab replay runs/first --episode 0   (the first episode of the log)\n\n"
        "hermes-lab replay runs/first --episode 0 --live   (ask the model again)",
    )(replay)


def replay(
    run: options.Run,
    episode: Annotated[str, typer.Option("--episode", "-e", help="An episode's key, or its number in the log.")],
    live: Annotated[bool, typer.Option("--live", help="Ask the model again instead of the recording.")] = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab replay`."""
    manifest = read_manifest(run)
    recorded = find_episode(run, episode)
    if recorded.trajectory is None:
        raise ConfigError(f"--episode: {recorded.key} errored, so there is nothing to compare with")
    again = anyio.run(_again, run, manifest, recorded, live, options.say_nothing if json else options.say)
    if again.error:
        difference = f"it errored: {again.error.kind}: {again.error.message}"
    else:
        difference = _difference(_spoken(recorded), _spoken(again))
    count = len(_spoken(recorded))
    if json:
        report = {"episode": recorded.key, "messages": count, "same": not difference, "difference": difference}
        typer.echo(msgspec.json.encode(report).decode())
    else:
        typer.echo(f"{recorded.key}: {difference or f'the same {count} messages, byte for byte'}")
    return 1 if difference else 0


def find_episode(run: Path, wanted: str) -> Episode:
    """The episode of that key, or of that number in the log. Raises `ConfigError` where there is none."""
    for number, episode in enumerate(read_episodes(run)):
        if wanted in (episode.key, str(number)):
            return episode
    raise ConfigError(f"--episode: {run} holds no {wanted!r}; give a key as in its episodes, or a number from 0")


async def _again(
    run: Path, manifest: RunManifest, recorded: Episode, live: bool, say: Callable[[str], None]
) -> Episode:
    config = RunConfig.model_validate(manifest.config)
    job = _job(config, manifest, recorded)
    knowledge = knowledge_of(run, recorded)
    await probe(config.sandbox)
    suite = load_suite(config.suite)
    lab = partial(Lab, config, config_digest(config), suite, open_sandbox=partial(open_sandbox, config.sandbox))
    if not live:
        return await run_episode(lab(model=ReplayModel([recorded])), job, knowledge)
    opening = open_model(
        config.model, tool_format=config.agent.tool_format, log=run / "server.log", concurrency=1, say=say
    )
    async with opening as model:
        return await run_episode(lab(model=model), job, knowledge)


def _job(config: RunConfig, manifest: RunManifest, recorded: Episode) -> Job:
    """The rollout as it was planned."""
    plan = plan_learn if manifest.command == "learn" else plan_run
    # The lane's first library does not matter: the episode names its own.
    for lane in plan(config, load_suite(config.suite), Library()):
        if lane.name == recorded.lane:
            for job in lane.jobs(recorded.round):
                if job.key == recorded.key:
                    return replace(job, review="always" if recorded.review else "never")
    raise ConfigError(f"--episode: the suite no longer makes the task of {recorded.key}")


def _spoken(episode: Episode) -> list[Message]:
    """All that was said, by child agents too, and the review."""
    trajectories = [episode.trajectory, *_of_children(episode.children)]
    trajectories.append(episode.review.trajectory if episode.review else None)
    return [message for trajectory in trajectories if trajectory for message in trajectory.messages]


def _of_children(children: Sequence[Child]) -> Iterator[Trajectory | None]:
    for child in children:
        yield child.trajectory
        yield from _of_children(child.children)


def _difference(then: Sequence[Message], now: Sequence[Message]) -> str:
    """The first difference in words, or nothing."""
    for number, (a, b) in enumerate(zip(then, now, strict=False)):
        if (a.role, a.content) != (b.role, b.content):
            at = next((i for i, (x, y) in enumerate(zip(a.content, b.content, strict=False)) if x != y), 0)
            was, is_ = a.content[max(at - 20, 0) :][:80], b.content[max(at - 20, 0) :][:80]
            return f"message {number} ({a.role}) differs at character {at}: it was {was!r}, now {is_!r}"
    return "" if len(then) == len(now) else f"there were {len(then)} messages, now {len(now)}"
