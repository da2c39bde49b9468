"""`/cron`."""

import re
import shlex
import subprocess
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread

from hermes_lab.chat.live import LiveChat
from hermes_lab.commands.command import Command, CommandContext, Reply
from hermes_lab.cron.jobs import JobStore, definition_of, is_file_target, jobs_of
from hermes_lab.cron.listing import job_cells, next_of, ticker_line
from hermes_lab.cron.runs import RunStore
from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.processes import python_module
from hermes_lab.sessions import SessionKey, hermes_home

_ACTIONS = ("list", "create", "pause", "resume", "remove", "approve", "run")
_FIELDS = ("deliver", "skills", "model", "repeat", "zone", "missed", "retry")
_INTEGERS = ("repeat", "retry")
"""What `create` takes as NAME=VALUE; `skills` with commas."""
_CREATE = '/cron create "NAME" "0 9 * * *" "PROMPT" deliver=telegram'


async def _run(context: CommandContext, arguments: str) -> Reply:
    action, _, rest = (arguments or "list").partition(" ")
    if action not in _ACTIONS:
        raise ConfigError(f"/cron: no action {action!r}; there are: {', '.join(_ACTIONS)}")
    try:
        return Reply(await anyio.to_thread.run_sync(_done, action, rest, context.chat))
    except InfraError as error:  # the disk; the chat goes on
        raise ConfigError(" ".join(str(error).split())) from None


def _done(action: str, rest: str, chat: LiveChat) -> str:
    now = datetime.now(UTC)
    jobs, _ = jobs_of(hermes_home())
    if action == "create":
        return _created(jobs, rest, chat.key, now)
    if action == "list":
        if rest:
            raise ConfigError("/cron list takes no arguments")
        return _list(jobs, chat.held_at)
    name = rest.strip().strip('"“”')
    if not name:
        raise ConfigError(f"/cron {action}: give the name of a job")
    if action == "pause":
        return f"paused: {jobs.pause(name).name}"
    if action == "remove":
        return f"removed: {jobs.remove(name).name}"
    if action == "run":
        return _started(jobs, name, chat.sources)
    job = jobs.resume(name, now) if action == "resume" else jobs.approve(name, now)
    return f"{action}d: {job.name}; it runs next at {next_of(job)}{_nobody()}"


def _created(jobs: JobStore, rest: str, key: SessionKey, now: datetime) -> str:
    try:
        words = shlex.split(rest.replace("“", '"').replace("”", '"'))  # as phones write them
    except ValueError:
        raise ConfigError(f"/cron create: a quotation mark is not closed; as in {_CREATE}") from None
    if len(words) < 3:
        raise ConfigError(f"/cron create: give a name, a schedule and a prompt, as in {_CREATE}")
    name, schedule, prompt, *more = words
    fields: dict[str, Any] = {"name": name, "schedule": schedule, "prompt": prompt, "deliver": "origin"}
    for word in more:
        field, sign, value = word.partition("=")
        if not sign or field not in _FIELDS:
            known = ", ".join(f"{each}=..." for each in _FIELDS)
            raise ConfigError(f"/cron create: {word!r} is not one of {known}")
        fields[field] = _value(field, value)
    definition = definition_of(**fields)
    if key.platform != "cli" and is_file_target(definition.deliver):
        raise ConfigError("/cron create: deliver: a chat cannot write files of this machine; `hermes-lab cron add` can")
    job = jobs.add(definition, now, origin=str(key))
    where = "" if job.target else "; its results go to a file, cron/NAME/SLOT.txt of the Hermes home; see deliver="
    return f"created: {job.name}; it runs next at {next_of(job)}{where}{_nobody()}"


def _value(field: str, text: str) -> Any:
    """What a field is given by a word of a chat."""
    if field == "skills":
        return text.split(",")
    return int(text) if field in _INTEGERS and re.fullmatch(r"-?[0-9]{1,9}", text) else text


def _list(jobs: JobStore, key: SessionKey | None) -> str:
    """The jobs that were made in the chat with that key; None: all."""
    found = [job for job in jobs.all() if key is None or job.origin == str(key)]
    if not found:
        return f"no jobs{' of this chat' if key else ''}; {_CREATE} makes one"
    runs = RunStore(hermes_home())
    lines = []
    for job in found:
        name, state, schedule, zone, next, last, deliver, does = job_cells(job, runs.latest(1, job.name))
        lines.append(f"{name}: {state}, {schedule} ({zone}), next {next}, last {last}, to {deliver}: {does}")
    return "\n".join(lines) + _nobody()


def _started(jobs: JobStore, name: str, sources: Sequence[str]) -> str:
    """Starts the run in a separate process, which outlives the chat."""
    if jobs.find(name).state == "proposed":
        raise ConfigError(f"{name} is proposed: /cron approve {name} first")
    options = [word for source in sources for word in ("-c", source)]
    process = subprocess.Popen(
        python_module("hermes_lab", "cron", "trigger", *options, "--", name),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=process.wait, daemon=True).start()  # or it would stay as a zombie
    return f"{name} runs now; /cron list shows how it ends"


def _nobody() -> str:
    return "" if ticker_line(hermes_home()) else "\nnothing runs jobs now: start `hermes-lab cron run`, or the gateway"


def _names(context: CommandContext) -> Sequence[str]:
    del context
    names = [job.name for job in JobStore(hermes_home()).all()]
    return ["list", "create", *(f"{action} {name}" for action in _ACTIONS[2:] for name in names)]


COMMAND = Command(
    "cron",
    "List, create, pause, resume, remove, approve or run scheduled jobs",
    "Tools and skills",
    _run,
    hint="[create|pause|resume|remove|approve|run ...]",
    busy="now",
    arguments=_names,
    details=f"{_CREATE}\nmakes a job; its results come to this chat unless deliver= says otherwise. Further options: "
    "skills=a,b model=NAME repeat=N zone=Europe/Berlin missed=once retry=N. A job that the agent has proposed runs "
    "once you have approved it.",
)
