"""`show`: prints a run's episodes, one per line, or a single one in full."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from textwrap import shorten
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from hermes_lab.analysis.summaries.warnings import ending
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.records import read_episodes
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.runners.engine.lane_history import RoundMerge, describe_merge, read_histories, shown_library
from hermes_lab.runners.episodes import Place, find_episode
from hermes_lab.runners.tables import table
from hermes_lab.text.printable import printable
from hermes_lab.types import Child, Episode, Judgement, MemoryWrite, Message, SkillWrite, Trajectory
from hermes_lab.types.episode import CHAT, Phase

_HEADER = ("#", "LANE", "ROUND", "RESULT", "LIBRARY", "LOADED", "WROTE", "TASK")
_LAST = (inf,)  # sorts after every episode of a round
_MESSAGE = 200
"""Characters of an error in the list; `--episode` shows all of it."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "show",
        help="List a run's episodes, or print one in full. The list shows, lane by lane, the result, the initial "
        "library, the skills loaded and written, and how each round changed the library. --episode prints messages, "
        "verdicts, writes, and the traceback of an error. Episode numbers do not change with --lane.\n\n"
        "hermes-lab show runs/one-rule --lane on\n\n"
        "hermes-lab show runs/one-rule --episode 0\n\n"
        "hermes-lab show runs/one-rule --lane off --episode train-w0-s1427366890-000001   (a task, in one arm)",
    )(show)


def show(
    run: options.Run,
    episode: Annotated[str, typer.Option("--episode", "-e", help="An episode's key, its number, or its task.")] = "",
    lane: Annotated[str, typer.Option(help="Only lanes whose names start with this, such as an arm.")] = "",
    json: options.Json = False,
) -> None:
    """`hermes-lab show`."""
    manifest = read_manifest(run)
    histories = read_histories(run)
    lost = {(w.episode, w.name): w.won for merges in histories.values() for merge in merges for w in merge.dropped}
    if episode:
        found = find_episode(run, episode, lane)
        if json:
            output.print_json(found)
        else:
            typer.echo("\n".join(_whole(found, lost)))
        return
    lines = sorted((_line(each, lost) for each in read_episodes(run)), key=_order)
    for number, line in enumerate(lines):
        line.number = number
    chosen = [line for line in lines if line.lane.startswith(lane)]
    if lane and not chosen:
        names = ", ".join(sorted({line.lane for line in lines}))
        raise ConfigError(f"--lane: no lane starts with {lane!r}; lanes: {names or 'none'}")
    histories = {name: merges for name, merges in histories.items() if name.startswith(lane)}
    if json:
        output.print_json({"episodes": chosen, "round_merges": histories})
        return
    if manifest.agent:
        typer.echo(f"{manifest.agent}, {manifest.config.get('model', {}).get('name', '')}\n")
    for text in _listed(chosen, histories):
        typer.echo(text)


Lost = Mapping[tuple[str, str], str]
"""Writes dropped when their round was merged: (episode, skill name) to the episode whose write was kept."""


class _Line(Struct):
    """An episode's row in the list. `number` is its place in the list of all, `place` that in its round or among the
    held-out tasks."""

    number: int
    key: str
    lane: str
    round: int
    phase: Phase
    place: tuple[int, int]
    task_id: str
    result: str
    success: bool | None
    stop_reason: str
    error: str
    snapshot: str
    loaded: tuple[str, ...]
    wrote: tuple[str, ...]
    said: str = ""
    """What the person said, in a chat."""


def _listed(chosen: Sequence[_Line], histories: Mapping[str, Sequence[RoundMerge]]) -> Iterator[str]:
    """The lines of the list; a round whose merge changed anything is followed by a line about it."""
    rows = [(_order(line), _cells(line), _first_line(line.error or line.said)) for line in chosen]
    for lane, merges in histories.items():
        for merge in merges:
            if what := describe_merge(merge):
                cells = ("--", lane, f"{merge.round}->{merge.round + 1}", *[""] * (len(_HEADER) - 3))
                rows.append(((lane, merge.round, _LAST), cells, printable(what)))
    rows.sort()
    header, *lines = table(_HEADER, [cells for _, cells, _ in rows])
    yield header
    for line, (_, _, rest) in zip(lines, rows, strict=True):
        yield f"{line}  {rest}".rstrip()


def _first_line(message: str) -> str:
    return printable(message.strip().partition("\n")[0])[:_MESSAGE]


def _order(line: _Line) -> Place:
    return line.lane, line.round, (line.phase == "heldout", *line.place)


def _line(episode: Episode, lost: Lost) -> _Line:
    wrote = [_write(write) + " (dropped)" * ((episode.key, write.name) in lost) for write in _writes(episode)]
    wrote += [f"{note.action} in {note.target}" for note in _notes(episode)]
    if episode.phase == "heldout":
        wrote = [f"{what} (not kept)" for what in wrote]
    return _Line(
        number=0,
        key=episode.key,
        lane=episode.lane,
        round=episode.round,
        phase=episode.phase,
        place=(episode.place, episode.sample),
        task_id=episode.task_id,
        result=_result(episode),
        success=episode.success,
        stop_reason=episode.trajectory.stop_reason if episode.trajectory else "",
        error=episode.error.message if episode.error else "",
        snapshot=episode.skills.snapshot,
        loaded=episode.skills.loaded,
        wrote=tuple(wrote),
        said=episode.prompt if episode.suite == CHAT else "",
    )


def _cells(line: _Line) -> tuple[str, ...]:
    loaded, wrote = ", ".join(line.loaded) or "-", ", ".join(line.wrote) or "-"
    result = f"held out: {line.result}" if line.phase == "heldout" else line.result
    return (
        str(line.number),
        line.lane,
        str(line.round),
        result,
        shown_library(line.snapshot),
        loaded,
        wrote,
        line.task_id,
    )


def _result(episode: Episode) -> str:
    if episode.error:
        return f"errored: {episode.error.kind}"
    return f"{_judged(episode)}{_ending(episode)}"


def _judged(episode: Episode) -> str:
    if episode.success is None:
        return "not judged"
    if episode.success:
        return "solved"
    return "solved after feedback" if any(verdict.success for verdict in episode.verdicts) else "not solved"


def _ending(episode: Episode) -> str:
    """How the episode ended, unless with an answer."""
    stop = episode.trajectory.stop_reason if episode.trajectory else "answered"
    return "" if stop == "answered" else f", {ending(stop)}"


def _writes(episode: Episode) -> tuple[SkillWrite, ...]:
    return episode.skills.writes + (episode.review.writes if episode.review else ())


def _notes(episode: Episode) -> tuple[MemoryWrite, ...]:
    return episode.memory.writes + (episode.review.memory if episode.review else ())


def _write(write: SkillWrite) -> str:
    return f"{write.action} {write.name}{f'/{write.path}' if write.path else ''}"


def _whole(episode: Episode, lost: Lost) -> Iterator[str]:
    program = f"{episode.program.shown}, " if episode.program else ""
    yield f"{episode.key}: {_result(episode)}, {episode.seconds:.1f} s, {program}{episode.model.name}"
    if episode.error:
        yield printable(f"{episode.error.message}\n{episode.error.detail}".rstrip(), keep="\n")
    if episode.trajectory:
        yield from _conversation(episode.trajectory)
    for verdict in episode.verdicts:
        criteria = ", ".join(f"{name} {value:g}" for name, value in verdict.criteria.items())
        yield f"\n[verdict] score {verdict.score:g}{f' ({criteria})' if criteria else ''}"
        for name, why in verdict.reasons.items():
            yield f"  {printable(name)}: {printable(why)}"
    for judgement in episode.judgements:
        yield from _judgement(judgement)
    if (again := episode.rescored) and again.problem:
        yield f"[rescored] not possible: {printable(again.problem)}; the old score was {_score(again.score)}"
    elif again:
        yield f"[rescored] by verifier {again.verifier[:8]}; the old score was {_score(again.score)}"
    for child in episode.children:
        yield from _child(child)
    reviews = [episode.review, *episode.forks] if episode.review else []
    for number, review in enumerate(reviews, 1):
        which = f" {number} of {len(reviews)}" if episode.forks else ""
        yield f"\n======== review{which}, {review.seconds:.1f} s"
        if review.error:
            yield f"failed: {review.error.message}"
        if review.trajectory:
            yield from _conversation(review.trajectory)
    yield f"\n[library] {shown_library(episode.skills.snapshot, whole=True)}, listed {len(episode.skills.listed)}"
    for trace in episode.skills.traces:
        stages = ("eligible", "listed", "loaded", "followed")
        answers = (f"{stage}: {_yes_no(getattr(trace, stage))}" for stage in stages)
        yield f"[skill] {trace.name}: {', '.join(answers)}"
    for write in _writes(episode):
        won = lost.get((episode.key, write.name))
        dropped = f"; dropped when the round was merged, since {printable(won)} came first" if won else ""
        change = " -> ".join(shown_library(each, whole=True) for each in (write.snapshot, write.after))
        yield f"[write] {_write(write)} by {write.origin}: {change}{dropped}"
    for note in _notes(episode):
        yield f"[note] {note.action} in {note.target} by {note.origin}: {printable(note.text or note.old)}"


def _judgement(judgement: Judgement) -> Iterator[str]:
    """The votes of a judge, with its replies but not its prompts, which `--json` has."""
    passed = {True: "passed", False: "not passed", None: "no verdict"}[judgement.passed]
    yield f"\n[judge] submission {judgement.submission}, {printable(judgement.model.name)}: {passed}"
    for number, vote in enumerate(judgement.votes, 1):
        tokens = f"{vote.usage.prompt_tokens + vote.usage.completion_tokens:,} tokens"
        told = "no usage" if vote.usage.uncounted else tokens
        yield f"(vote {number}: {vote.grade or printable(vote.error)}, {told})"
        if vote.reply:
            yield printable(vote.reply, keep="\n\t")


def _score(score: float | None) -> str:
    return "none" if score is None else f"{score:g}"


def _child(child: Child) -> Iterator[str]:
    yield f"\n======== child agent: {shorten(printable(child.goal), 100, placeholder=' ...')}"
    if child.error:
        yield f"failed: {child.error.message}"
    if child.trajectory:
        yield from _conversation(child.trajectory)
    for grandchild in child.children:
        yield from _child(grandchild)


def _conversation(trajectory: Trajectory) -> Iterator[str]:
    for message in trajectory.messages:
        yield f"\n[{message.role}]"
        yield from _message(message)
    yield f"\n[end] {trajectory.stop_reason}, {len(trajectory.steps)} model calls"


def _message(message: Message) -> Iterator[str]:
    if message.reasoning:
        yield f"(thinking) {printable(message.reasoning, keep=chr(10))}"
    if message.content:
        yield printable(message.content, keep="\n\t")
    if message.role == "assistant" and "<tool_call>" not in message.content:
        for call in message.tool_calls:
            yield f"{call.name} {printable(call.raw or msgspec.json.encode(call.arguments).decode())}"


def _yes_no(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"
