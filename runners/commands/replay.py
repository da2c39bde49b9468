"""`replay`: reruns an episode from its recorded replies or with the live model, and reports the first difference."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer

from hermes_lab.agent.loop import REPLAY_LOG
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.harness.installed import find_installed
from hermes_lab.harness.programs import find_program
from hermes_lab.harness.state import states_of
from hermes_lab.harness.worker import ReviewWhen
from hermes_lab.lane import lane_key
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.mcp.recorded import RecordedServers
from hermes_lab.mcp.servers import open_servers
from hermes_lab.models import open_auxiliary, open_model
from hermes_lab.models.replay import ReplayModel, first_difference, stripped
from hermes_lab.prompts_version import PROMPTS
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.engine.folder import with_kept_suite
from hermes_lab.runners.engine.plan import Command, plan_run, tasks_digest
from hermes_lab.runners.engine.snapshots import knowledge_of
from hermes_lab.runners.engine.weights import weights_of
from hermes_lab.runners.episodes import find_episode
from hermes_lab.runners.experiments.experiment import plan_learn
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.skills.library import Library
from hermes_lab.suites import SessionSuite, servers_of
from hermes_lab.tasks import load_suite
from hermes_lab.tasks_version import other_versions
from hermes_lab.text.printable import printable
from hermes_lab.types import Child, Episode, Message, Trajectory
from hermes_lab.types.episode import CHAT
from hermes_lab.verification import RecordedJudge, RecordedVerdicts, open_judge


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "replay",
        help="Rerun an episode and compare all messages byte for byte. It gets the same task, skills, sandbox and "
        "recorded replies. Exits 1 if a message differs.\n\n"
        "hermes-lab replay runs/first --episode 'ledger|train-w0-s0-000|main|0|0'\n\n"
        "hermes-lab replay runs/first --episode 0   (the first that `show` lists)\n\n"
        "hermes-lab replay runs/first --episode 0 --live   (query the model again)",
    )(replay)


def replay(
    run: options.Run,
    episode: Annotated[
        str, typer.Option("--episode", "-e", help="An episode's key, its number in `show`, or its task.")
    ],
    live: Annotated[
        bool, typer.Option("--live", help="Query the model instead of replaying its recorded replies.")
    ] = False,
    json: options.Json = False,
) -> int:
    """`hermes-lab replay`."""
    manifest = read_manifest(run)
    if manifest.command == CHAT:
        raise ConfigError(f"{run}: holds turns of chats, which cannot be replayed: their skills and files have changed")
    recorded = find_episode(run, episode)
    if recorded.trajectory is None:
        raise ConfigError(f"--episode: {recorded.key} errored, so there is nothing to replay")
    if manifest.prompts != PROMPTS and not json:
        told = f"version {manifest.prompts} of the prompts, and this Hermes Lab has version {PROMPTS}"
        output.say(f"{run}: was made with {told}; expect other messages")
    with _changed_results() as changed:
        again = anyio.run(_rerun, run, manifest, recorded, live, output.say_nothing if json else output.say)
    if again.error:
        difference = f"the replay errored: {again.error.kind}: {again.error.message}"
    else:
        volatile = _volatile(manifest)
        was, now = ([stripped(each, volatile) for each in _messages(episode)] for episode in (recorded, again))
        difference = first_difference(was, now)
    count = len(_messages(recorded))
    if json:
        report = {"episode": recorded.key, "messages": count, "same": not difference, "difference": difference}
        output.print_json(report | {"answers_now": changed})
        return 1 if difference else 0
    same = f"all {count} messages are the same, byte for byte{_left_out(manifest)}"
    typer.echo(f"{recorded.key}: {difference or same}")
    if changed:
        output.say(
            f"{len(changed)} tool results differ when the tools are run again; the first: {printable(changed[0])}"
        )
    return 1 if difference else 0


def _volatile(manifest: RunManifest) -> Callable[[str], str]:
    return find_program(manifest.program.name).volatile if manifest.program else str


def _left_out(manifest: RunManifest) -> str:
    return f", but for what {manifest.program.name} varies from run to run, such as the day" if manifest.program else ""


@contextmanager
def _changed_results() -> Iterator[list[str]]:
    """Collects what the agent logs about tool results that differ from the recorded ones."""
    handler = _CollectingHandler()
    REPLAY_LOG.addHandler(handler)
    REPLAY_LOG.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        REPLAY_LOG.removeHandler(handler)


class _CollectingHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def _rerun(
    run: Path, manifest: RunManifest, recorded: Episode, live: bool, say: Callable[[str], None]
) -> Episode:
    config = with_kept_suite(run, RunConfig.model_validate(manifest.config))
    if not live:  # the recording itself says when the time limit was reached
        config = config.model_copy(update={"agent": config.agent.model_copy(update={"max_seconds": 1e9})})
    knowledge = knowledge_of(run, recorded)
    spec, weights = _planned_rollout(config, manifest, recorded, knowledge.library, say)
    await probe(config.sandbox)
    suite = load_suite(config.suite, config.sandbox)
    program = find_installed(config.agent)
    if program and program.use() != manifest.program:
        say(f"{program.name} is another installation ({program.version or 'no version'}) than that of the run")
    context = partial(
        RolloutContext,
        config,
        manifest.config_digest,
        suite=suite,
        open_sandbox=partial(open_sandbox, config.sandbox),
        program=program,
        states=states_of(config, run, keeps=False),
    )
    if not live:
        model = ReplayModel([recorded], explains=True, volatile=_volatile(manifest))
        judge = RecordedJudge(recorded.judgements)
        servers = RecordedServers(recorded) if recorded.mcp else None
        if servers and not isinstance(suite, SessionSuite):
            # What they did is not done again, so the verifier would see another workspace.
            context = partial(context, suite=RecordedVerdicts(suite, recorded.verdicts))
        episode = await run_episode(context(model=model, judge=judge, servers=servers), spec, knowledge)
        if model.other_tools:
            say("the tool schemas have changed since this episode was recorded; replayed with its recorded replies")
        return episode
    asked = config.model.model_copy(update={"adapter": weights})
    opening = open_model(asked, tool_format=config.agent.tool_format, log=run / "server.log", concurrency=1, say=say)
    async with (
        opening as live_model,
        open_auxiliary(config, say=say) as auxiliary,
        open_judge(config, say=say) as live_judge,
        open_servers(servers_of(config.mcp, suite), partial(open_sandbox, config.sandbox)) as live_servers,
    ):
        given = live_servers if live_servers.config.servers else None
        asked_again = context(model=live_model, auxiliary=auxiliary, judge=live_judge, servers=given)
        return await run_episode(asked_again, spec, knowledge)


def _planned_rollout(
    config: RunConfig, manifest: RunManifest, recorded: Episode, library: Library, say: Callable[[str], None]
) -> tuple[RolloutSpec, str]:
    """The rollout as planned, and the adapter that it ran with. `library` is the one that the episode started with."""
    command: Command = "learn" if manifest.command == "learn" else "uplift" if manifest.command == "uplift" else "run"
    plan = plan_run if command == "run" else plan_learn
    # Plan only this arm: another one may need a different library.
    if key := lane_key(recorded.lane):
        config = config.model_copy(update={"learning": config.learning.model_copy(update={"arms": (key.arm,)})})
    lanes = plan(config, load_suite(config.suite, config.sandbox), library)
    if other := other_versions(manifest.tasks_digest, tasks_digest(lanes[:1])):
        say(f"the run has version {other[0]} of the tasks, now it is {other[1]}, so messages differ")
    for lane in lanes:
        if lane.name == recorded.lane:
            # An uplift reruns tasks of any round, as the held-out tasks of its only check.
            steps = lane.steps if command == "uplift" else (recorded.round,)
            for planned in (spec for step in steps for spec in lane.jobs(step)):
                spec = replace(planned, round=recorded.round, experience=recorded.experience, phase=recorded.phase)
                if _same_task(spec.key, recorded.key, rescored=manifest.rescored is not None):
                    review: ReviewWhen = "always" if recorded.review else "never"
                    return replace(spec, review=review), weights_of(command, config)[lane.weights]
    raise ConfigError(f"--episode: the task of {recorded.key} no longer exists in the suite")


def _same_task(planned: str, recorded: str, *, rescored: bool) -> bool:
    """Whether two keys are the same. A run may be rescored with a suite of another name, and keeps its keys."""
    return planned == recorded or (rescored and planned.partition("|")[2] == recorded.partition("|")[2])


def _messages(episode: Episode) -> list[Message]:
    """All messages of an episode: its own, those of child agents, and the review's."""
    trajectories = [episode.trajectory, *_child_trajectories(episode.children)]
    trajectories.append(episode.review.trajectory if episode.review else None)
    return [message for trajectory in trajectories if trajectory for message in trajectory.messages]


def _child_trajectories(children: Sequence[Child]) -> Iterator[Trajectory | None]:
    for child in children:
        yield child.trajectory
        yield from _child_trajectories(child.children)
