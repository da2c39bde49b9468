"""The family `services`: a setting of a unit is changed and made to count, by the convention of its house."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_json, read_text
from hermes_lab.tasks.family import Criterion, Family, Move, Rule, Scene, Site, criterion, sentence, shell
from hermes_lab.tasks.system_admin.services.rules import RULES, Change, Shape, Step, Wish, planned
from hermes_lab.tasks.system_admin.services.words import CLOSINGS, REQUESTS, VOCABULARIES

TOOL = "svc"
APPLIED = ("reload", "restart", "respawn", "cycle")
LIMIT = 20_000


@dataclass(frozen=True, kw_only=True)
class Ticket(Scene):
    """One change. `env` is the file with the unit's settings, `record` what the controller writes of the change."""

    env: str
    record: str
    settings: tuple[str, ...]
    """The lines of the file, as they are found."""
    wish: Wish


class Services(Family[Shape, Ticket]):
    """Every unit has helpers beside it, and settings with a number to change and one that counts their versions.

    The controller writes down what it did, with what settings, in the change that is open: so a change that is begun
    again is judged by itself.
    """

    name = "services"
    domain = "system_admin"
    noun = "service"
    summary = "change a setting of a unit and make it count, by the convention of its house"
    subject = "how settings of {place} are changed"
    rules = RULES

    def shape(self, site: Site, kind: str, draws: Draws) -> Shape:
        """The units and settings of a service."""
        words, unit = VOCABULARIES[site.split], site.slug("service")
        return Shape(
            unit=unit,
            helpers=tuple(f"{unit}-{helper}" for helper in draws.sample(words.helpers, draws.integer(2, 3))),
            numbers=tuple(draws.sample(words.numbers, 4)),
            texts=tuple(draws.sample(words.texts, 2)),
            serial=draws.choice(words.serials),
            tickets=draws.choice(words.tickets),
        )

    def scene(self, site: Site, shape: Shape, draws: Draws) -> Ticket:
        """A ticket, and the settings as they are."""
        ticket, key = f"{shape.tickets}-{draws.integer(1000, 9999)}", draws.choice(shape.numbers)
        serial = (shape.serial, draws.integer(3, 90))
        wish = Wish(ticket, shape.unit, key, draws.integer(201, 990), serial)
        envs = {f"etc/env/{unit}.env": _settings(shape, serial, draws) for unit in (shape.unit, *shape.helpers)}
        env = f"etc/env/{shape.unit}.env"
        words = {
            "place": site.called(self.noun),
            "ticket": ticket,
            "key": key,
            "n": str(wish.value),
            "file": env,
            "unit": shape.unit,
            "record": f"var/changes/{ticket}.json",
        }
        request = site.phrase(draws, REQUESTS).format(**words)
        return Ticket(
            request=f"{sentence(request, env, key)} {site.phrase(draws, CLOSINGS).format(**words)}",
            files={TOOL: tool_text(), **{path: "\n".join(lines) + "\n" for path, lines in envs.items()}},
            inputs=(TOOL, *(path for path in envs if path != env)),
            outputs=(env, words["record"]),
            env=env,
            record=words["record"],
            settings=envs[env],
            wish=wish,
        )

    async def judge(
        self, scene: Ticket, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the settings and the record of the change; the controller does not run."""
        right = planned(scene.wish, rule)
        record: Any = await read_json(workspace, scene.record, LIMIT)
        text = await read_text(workspace, scene.env, LIMIT)
        wanted = _edited(scene, right)
        closed = isinstance(record, dict) and isinstance(record.get("result"), str)
        return (
            criterion("recorded", closed, f"there is no record of a change {scene.wish.ticket} that was closed"),
            await inputs_untouched(workspace, scene.files, scene.inputs),
            criterion(
                "settings",
                text is not None and _effective(text.splitlines()) == _effective(wanted),
                f"the settings in {scene.env} are not right",
                ruled=True,
            ),
            criterion(
                "carried_out",
                closed and _is_done(record, scene, right, wanted),
                "the change was not carried out as it should be",
                ruled=True,
            ),
        )

    def moves(self, scene: Ticket, rule: Rule | None) -> tuple[Move, ...]:
        """The settings, then the change, from its opening to its end."""
        right = planned(scene.wish, rule)
        content = "\n".join(_edited(scene, right)) + "\n"
        calls = [f"open {scene.wish.ticket}{f' --by {right.by}' if right.by else ''}", *map(_typed, right.steps)]
        calls.append("close" if right.result == "done" else f"close --result {right.result}")
        return (
            Move("write_file", {"path": scene.env, "content": content}, "First the settings."),
            shell(" && ".join(f"./{TOOL} {call}" for call in calls), "Now the change itself."),
        )

    def looks(self, scene: Ticket) -> tuple[Move, ...]:
        """The settings and the state of the units."""
        return (shell(f"cat {scene.env} && ./{TOOL} status", "What does it run with?"),)

    def howto(self, site: Site, shape: Shape, rule: Rule) -> str:
        """The clause and the recipe, with units as they are called."""
        return f"{sentence(rule.clauses[0], shape.unit, *shape.helpers)}.\n\n{sentence(rule.recipe)}."


def _settings(shape: Shape, serial: tuple[str, int], draws: Draws) -> tuple[str, ...]:
    numbers = [f"{key}={draws.integer(1, 200)}" for key in shape.numbers]
    return (f"{serial[0]}={serial[1]}", *draws.shuffled([*numbers, *(f"{key}={text}" for key, text in shape.texts)]))


def _edited(scene: Ticket, right: Change) -> list[str]:
    """The lines of the settings after the change."""
    new = {scene.wish.key: right.lines[0], scene.wish.serial[0]: right.lines[1]}
    return [new.get(line.partition("=")[0], line) for line in scene.settings]


def _effective(lines: Sequence[str]) -> list[str]:
    """The lines that set something, whatever their order."""
    return sorted(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _is_done(record: dict[str, Any], scene: Ticket, right: Change, wanted: Sequence[str]) -> bool:
    """Whether a change was opened, carried out with the new settings, and closed as is right."""
    steps = record.get("steps")
    if not isinstance(steps, list) or len(steps) != len(right.steps):
        return False
    for step, wish in zip(steps, right.steps, strict=True):
        if not isinstance(step, dict) or (step.get("verb"), step.get("unit")) != (wish.verb, wish.unit):
            return False
        if step.get("options") != dict(wish.options):
            return False
        if wish.verb in APPLIED and wish.unit.partition("@")[0] == scene.wish.unit:
            pairs = (line.removeprefix("export ").partition("=") for line in wanted)
            if step.get("settings") != {key: value for key, _, value in pairs}:
                return False
    return record.get("result") == right.result and (record.get("by") or "") == right.by


def _typed(step: Step) -> str:
    """A step as it is typed."""
    if step.verb == "tag":
        return f"tag {step.unit} {dict(step.options)['word']}"
    return " ".join([step.verb, step.unit, *(f"--{name} {shlex.quote(value)}" for name, value in step.options)])


@cache
def tool_text() -> str:
    """The controller, as it lies in every workspace."""
    return Path(__file__).with_name("tool.py").read_text()


FAMILY = Services()
