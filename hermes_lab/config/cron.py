"""The configuration of scheduled jobs."""

import shlex
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from hermes_lab.config.section import Section
from hermes_lab.config.units import Unit
from hermes_lab.config.zones import check_zone

_LONGEST_NAME = 60


class CronJobConfig(Section):
    """One scheduled job (docs/cron.md)."""

    name: str
    """The job's unique name."""
    schedule: str
    """When it runs: five cron fields such as `0 9 * * mon-fri`; `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`;
    `every 2h` (s, m, h, d); or one time such as `2027-03-28 09:00`."""
    zone: str = ""
    """The time zone of the schedule, such as `Europe/Berlin`; empty: `user.timezone`, else that of the machine."""
    prompt: str = ""
    """What the agent is asked, in a new session."""
    command: tuple[str, ...] = ()
    """Instead of a prompt: one or more command lines of `hermes-lab`, run without a shell, until one fails. `{date}` is
    replaced by the date of the slot in the job's zone (2027-03-28), `{slot}` by its time in UTC (20270328T070000Z)."""
    skills: tuple[str, ...] = ()
    """Skills that are put before the prompt, as `/skill-name` does in a chat."""
    model: str = ""
    """Replaces `model.name`; empty: the model of chats."""
    toolsets: tuple[str, ...] | None = None
    """Replaces `agent.toolsets`; null: the tools of chats."""
    deliver: str = "local"
    """Where the result goes, besides its file in the Hermes home. `local`: nowhere. `origin`: to the chat where the job
    was made; a job of this file or of the command line has none. A path (beginning with `/`, `./`, `../` or `~`): to
    that file. A platform such as `telegram`, or the key of a chat such as `telegram:dm:123`: there."""
    files: tuple[str, ...] = ()
    """Files to deliver with the result, as paths or patterns such as `runs/night-{date}/*.png`; those that the run has
    not written are left out."""
    repeat: Annotated[int, Field(ge=1)] | None = None
    """Total number of runs; null: no limit."""
    missed: Literal["skip", "once"] = "skip"
    """What happens to slots that passed while no scheduler was running. `skip`: they are recorded as missed. `once`:
    the job runs once for all of them."""
    retry: Annotated[int, Field(ge=0)] = 0
    """How often a run is repeated that was interrupted, such as by a crash."""
    max_seconds: Annotated[float, Field(gt=0), Unit("seconds")] = 3600.0
    """Seconds after which a run is ended."""

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not name.strip() or name != name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
            raise ValueError(f"{name!r} cannot name a job: give one line of at most {_LONGEST_NAME} characters")
        if "/" in name or name.startswith((".", "-")):
            raise ValueError(f"{name!r} cannot name a job: use no `/`, and no `.` or `-` at the beginning")
        return name

    @field_validator("command", mode="before")
    @classmethod
    def _may_be_one_line(cls, command: Any) -> Any:
        if isinstance(command, str):
            return (command,) if command.strip() else ()
        return command or ()

    @field_validator("zone")
    @classmethod
    def _is_known(cls, zone: str) -> str:
        return check_zone(zone)

    @model_validator(mode="after")
    def _is_whole(self) -> "CronJobConfig":
        if bool(self.prompt.strip()) == bool(self.command):
            raise ValueError("give either `prompt` or `command`")
        for line in self.command:
            try:
                words = shlex.split(line)
            except ValueError as error:
                raise ValueError(f"`command` cannot be split into words: {error}") from None
            if not [word for word in words if word != "hermes-lab"]:
                raise ValueError("`command` says nothing after hermes-lab")
            if of_prompts := [name for name in ("skills", "model", "toolsets") if getattr(self, name)]:
                raise ValueError(f"`{of_prompts[0]}` is for a `prompt`; give a `command` its own options")
        return self
