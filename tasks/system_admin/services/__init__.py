"""The family `services`: change a setting of a unit and apply it, by the convention of the site."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_json, read_text
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, TaskInstance, criterion, shell
from hermes_lab.tasks.system_admin.services.rules import RULES, Change, SiteConfig, Step, Wish, planned
from hermes_lab.tasks.words import read_file

TOOL = "svc"
APPLIED = ("reload", "restart", "respawn", "cycle")
LIMIT = 20_000


@dataclass(frozen=True, kw_only=True)
class Ticket(TaskInstance):
    """One change. `env` is the file with the unit's settings, `record` what the controller writes about the change."""

    env: str
    record: str
    settings: tuple[str, ...]
    """The lines of the file before the change."""
    wish: Wish


class Services(DataFamily[SiteConfig, Ticket]):
    """Every unit has helper units, and settings with a number to change and one that counts their versions.

    The controller records each step and the settings it ran with in the open change. Opening a change again starts its
    record over, so each attempt is judged alone.
    """

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The units and settings of a service."""
        words = self.words[entity.split]
        unit = entity.slug("service")
        return SiteConfig(
            unit=unit,
            helpers=tuple(f"{unit}-{helper}" for helper in draws.sample(words.helpers, draws.integer(2, 3))),
            numbers=tuple(draws.sample(words.numbers, 4)),
            texts=tuple(draws.sample(words.texts, 2)),
            serial=draws.choice(words.serials),
            tickets=draws.choice(words.tickets),
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Ticket:
        """A ticket, and the settings before the change."""
        ticket, key = f"{site_config.tickets}-{draws.integer(1000, 9999)}", draws.choice(site_config.numbers)
        serial = (site_config.serial, draws.integer(3, 90))
        wish = Wish(ticket, site_config.unit, key, draws.integer(201, 990), serial)
        envs = {f"etc/env/{unit}.env": _settings(site_config, serial, draws) for unit in site_config.units}
        env = f"etc/env/{site_config.unit}.env"
        record = f"var/changes/{ticket}.json"
        told: dict[str, Any] = {
            "ticket": ticket,
            "key": key,
            "n": wish.value,
            "file": env,
            "unit": site_config.unit,
            "record": record,
        }
        return Ticket(
            request=self.ask(entity, draws, env, key, **told),
            files={
                TOOL: read_file(__file__, "tool.py"),
                **{path: "\n".join(lines) + "\n" for path, lines in envs.items()},
            },
            inputs=(TOOL, *(path for path in envs if path != env)),
            outputs=(env, record),
            env=env,
            record=record,
            settings=envs[env],
            wish=wish,
        )

    async def judge(
        self, instance: Ticket, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the settings and the record of the change; the controller does not run."""
        right = planned(instance.wish, rule)
        record: Any = await read_json(workspace, instance.record, LIMIT)
        text = await read_text(workspace, instance.env, LIMIT)
        wanted = _edited(instance, right)
        closed = isinstance(record, dict) and isinstance(record.get("result"), str)
        return (
            criterion("recorded", closed, f"there is no record of a closed change {instance.wish.ticket}"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion(
                "settings",
                text is not None and _effective(text.splitlines()) == _effective(wanted),
                f"the settings in {instance.env} are not right",
                ruled=True,
            ),
            criterion(
                "carried_out",
                closed and _is_done(record, instance, right, wanted),
                "the change was not carried out in the right way",
                ruled=True,
            ),
        )

    def solve(self, instance: Ticket, rule: Rule | None) -> tuple[Action, ...]:
        """Writes the settings, then opens, makes and closes the change."""
        right = planned(instance.wish, rule)
        content = "\n".join(_edited(instance, right)) + "\n"
        calls = [f"open {instance.wish.ticket}{f' --by {right.by}' if right.by else ''}", *map(_typed, right.steps)]
        calls.append("close" if right.result == "done" else f"close --result {right.result}")
        return (
            Action("write_file", {"path": instance.env, "content": content}, "First the settings."),
            shell(" && ".join(f"./{TOOL} {call}" for call in calls), "Now the change itself."),
        )

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The paraphrase and the instruction; unit names keep their case."""
        return self.statement(rule, *site_config.units)


def _settings(site_config: SiteConfig, serial: tuple[str, int], draws: Draws) -> tuple[str, ...]:
    numbers = [f"{key}={draws.integer(1, 200)}" for key in site_config.numbers]
    return (f"{serial[0]}={serial[1]}", *draws.shuffled([*numbers, *site_config.texts]))


def _edited(instance: Ticket, right: Change) -> list[str]:
    """The lines of the settings after the change."""
    new = {instance.wish.key: right.lines[0], instance.wish.serial[0]: right.lines[1]}
    return [new.get(line.partition("=")[0], line) for line in instance.settings]


def _effective(lines: Sequence[str]) -> list[str]:
    """The assignments, in an order of their own: comments and order do not matter."""
    return sorted(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _is_done(record: dict[str, Any], instance: Ticket, right: Change, wanted: Sequence[str]) -> bool:
    """Whether the change was opened, carried out with the new settings, and closed as required."""
    steps = record.get("steps")
    if not isinstance(steps, list) or len(steps) != len(right.steps):
        return False
    for step, wish in zip(steps, right.steps, strict=True):
        if not isinstance(step, dict) or (step.get("verb"), step.get("unit")) != (wish.verb, wish.unit):
            return False
        if step.get("options") != dict(wish.options):
            return False
        if wish.verb in APPLIED and wish.unit.partition("@")[0] == instance.wish.unit:
            pairs = (line.removeprefix("export ").partition("=") for line in wanted)
            if step.get("settings") != {key: value for key, _, value in pairs}:
                return False
    return record.get("result") == right.result and (record.get("by") or "") == right.by


def _typed(step: Step) -> str:
    """The arguments of the controller for a step."""
    if step.verb == "tag":
        return f"tag {step.unit} {dict(step.options)['word']}"
    return " ".join([step.verb, step.unit, *(f"--{name} {shlex.quote(value)}" for name, value in step.options)])


FAMILY = Services(__file__, RULES)
