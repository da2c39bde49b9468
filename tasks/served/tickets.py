"""The family `tickets`: reports become tickets at help desks, which have their own rules for them. The tools are those
of an MCP server (`_server/desk.py`), and the verifier looks at the tickets that it holds.

The state is a file of the workspace, so an agent with a terminal could edit it without the server. That gains nothing,
since it would have to know the rule as well; leave the terminal out where calls of the tools are what you measure.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from hermes_lab.config.mcp import McpServerConfig
from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Criterion, Entity, Family, Rule, RuleType, TaskInstance, criterion, sentence
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec

SERVER = "desk"
STATE = "tickets.json"
_LIMIT = 1_000_000
Ticket = Mapping[str, Any]

_REQUESTS: Mapping[str, Sequence[str]] = {
    "train": (
        'Report {reference} is for {place}: "{title}", {details}. File it as a ticket.',
        'File a ticket for {place} about report {reference}. Title: "{title}". Details: "{details}".',
        '{reference} came in for {place}. The title is "{title}", the details are "{details}". It needs a ticket.',
    ),
    "validation": (
        'Please open a ticket with {place}: reference {reference}, title "{title}", details "{details}".',
        'We need a ticket with {place}. Reference {reference}, "{title}": "{details}".',
    ),
    "heldout": (
        'Someone called about "{title}" ({details}). Let {place} know with a ticket under {reference}.',
        'Log "{title}" with {place}, as {reference}. The caller said "{details}".',
    ),
}
_TITLES: Mapping[str, Sequence[str]] = {
    "train": ("gate does not open", "screen stays dark", "printer is jammed", "badge is refused", "heating is off"),
    "validation": ("lift is stuck", "door squeaks", "phone is silent"),
    "heldout": ("lamp flickers", "tap drips", "scanner beeps", "cart has no brakes"),
}
_DETAILS: Mapping[str, Sequence[str]] = {
    "train": ("since this morning", "for the second time", "on the ground floor", "only at night", "after the update"),
    "validation": ("as of noon", "near the stairs", "whenever it rains"),
    "heldout": ("all day long", "in the west wing", "from time to time", "ever since Monday"),
}
_NAMED: Mapping[str, Sequence[str]] = {
    "train": ('The server knows the desk as "{desk}".',),
    "validation": ('There it is called "{desk}".',),
    "heldout": ('Its name in the system is "{desk}".',),
}


def _change(field: str, literal: str) -> Callable[[Ticket, Rule], dict[str, Any]]:
    return lambda ticket, rule: {**ticket, field: rule[literal]}


_RULES: Mapping[str, tuple[RuleType, Callable[[Ticket, Rule], dict[str, Any]]]] = {
    "prefix": (
        RuleType(
            (
                "ticket titles begin with {mark}",
                "every title starts with {mark}",
                "{mark} is the first thing in a title",
            ),
            "put {mark} and a space before the title",
            lambda draws, config: {"mark": draws.choice(["[IN]", "(new)", "#desk", "->", "TODO:"])},
        ),
        lambda ticket, rule: {**ticket, "title": f"{rule['mark']} {ticket['title']}"},
    ),
    "queue": (
        RuleType(
            (
                "tickets go to the queue {queue}",
                "the queue for tickets is {queue}",
                "{queue} is the only queue in use",
            ),
            "set queue to {queue}",
            lambda draws, config: {"queue": draws.choice(["front", "field", "night", "depot", "triage"])},
        ),
        _change("queue", "queue"),
    ),
    "priority": (
        RuleType(
            (
                "tickets have the priority {priority}",
                "the priority of every ticket is {priority}",
                "{priority} is the only priority in use",
            ),
            "set priority to {priority}",
            lambda draws, config: {"priority": draws.choice(["low", "high", "urgent"])},
        ),
        _change("priority", "priority"),
    ),
    "tag": (
        RuleType(
            ("tickets carry the tag {tag}", "every ticket is tagged {tag}", "{tag} is the tag of all tickets"),
            "set tags to {tag} only",
            lambda draws, config: {"tag": draws.choice(["walk-in", "audit", "seasonal", "vendor", "pilot"])},
        ),
        lambda ticket, rule: {**ticket, "tags": [rule["tag"]]},
    ),
    "due": (
        RuleType(
            (
                "tickets are due within {days} days",
                "every ticket has a deadline of {days} days",
                "a ticket has to be done in {days} days",
            ),
            "set due_days to {days}",
            lambda draws, config: {"days": draws.integer(2, 9)},
        ),
        _change("due_days", "days"),
    ),
    "closing": (
        RuleType(
            (
                'details end with "{words}"',
                'the details always close with "{words}"',
                '"{words}" are the last words of the details',
            ),
            'put a full stop, a space and "{words}" after the details',
            lambda draws, config: {"words": draws.choice(["call back", "please confirm", "no rush", "bring keys"])},
        ),
        lambda ticket, rule: {**ticket, "details": f"{ticket['details']}. {rule['words']}"},
    ),
    "watcher": (
        RuleType(
            (
                "{role} watches every ticket",
                "tickets are watched by {role}",
                "{role} is notified of all tickets as a watcher",
            ),
            "set watchers to {role} only",
            lambda draws, config: {"role": draws.choice(["security", "stores", "finance", "porter"])},
            unseen=True,
        ),
        lambda ticket, rule: {**ticket, "watchers": [rule["role"]]},
    ),
    "loud": (
        RuleType(
            (
                "ticket titles are in capital letters",
                "every title is in upper case",
                "titles use capitals throughout",
            ),
            "write the title in capital letters",
            unseen=True,
        ),
        lambda ticket, rule: {**ticket, "title": ticket["title"].upper()},
    ),
}


@dataclass(frozen=True, kw_only=True)
class Report(TaskInstance):
    """A report, and the ticket that it becomes at a desk without a rule."""

    plain: Ticket
    others: Mapping[str, Ticket]


class Tickets(Family[None, Report]):
    """See the module."""

    name = "tickets"
    domain = "service_desk"
    noun = "helpdesk"
    summary = "file reports as tickets through an MCP server, as each help desk wants them"
    subject = "how tickets for {place} are filed"
    rules: Mapping[str, RuleType] = MappingProxyType({name: kind for name, (kind, _) in _RULES.items()})

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> None:
        """A desk has nothing of its own but its rule."""

    def instance(self, entity: Entity, site_config: None, draws: Draws) -> Report:
        """Draws a report; the server already holds tickets of other desks."""
        desk = entity.slug(self.noun)
        said = {
            "reference": f"REF-{draws.integer(1000, 4999)}",
            "title": draws.choice(_TITLES[entity.split]),
            "details": draws.choice(_DETAILS[entity.split]),
        }
        other = {
            **_defaults(),
            "reference": f"REF-{draws.integer(5000, 9999)}",
            "desk": "archive",
            "title": "box is full",
        }
        others = {other["reference"]: {**other, "details": "shelf 3"}}
        request = entity.phrase(draws, _REQUESTS).format(place=entity.called(self.noun), **said)
        return Report(
            request=f"{sentence(request)} {entity.phrase(draws, _NAMED).format(desk=desk)}",
            files={STATE: json.dumps(others, indent=1)},
            outputs=(STATE,),
            plain={**_defaults(), "desk": desk, **said},
            others=others,
        )

    def right(self, instance: Report, rule: Rule | None) -> Ticket:
        """The ticket under `rule`."""
        return instance.plain if rule is None else _RULES[rule.type][1](instance.plain, rule)

    def solve(self, instance: Report, rule: Rule | None) -> tuple[Action, ...]:
        """One call of the server."""
        ticket = dict(self.right(instance, rule))
        kept = {key: value for key, value in ticket.items() if _defaults().get(key) != value}
        return (Action(f"{SERVER}__file_ticket", kept, "I file the ticket."),)

    def explore(self, instance: Report) -> tuple[Action, ...]:
        """Lists the tickets."""
        return (Action(f"{SERVER}__list_tickets", {"desk": instance.plain["desk"]}, "First a look at its tickets."),)

    async def judge(
        self, instance: Report, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Compares the ticket with the right one."""
        del answer
        tickets = await _tickets(workspace)
        reference = instance.plain["reference"]
        found = tickets.get(reference)
        others = {key: each for key, each in tickets.items() if key != reference}
        return (
            criterion("filed", isinstance(found, dict), f"there is no ticket {reference}"),
            criterion("others_untouched", others == instance.others, "other tickets were added, changed or deleted"),
            criterion("correct", found == self.right(instance, rule), f"ticket {reference} is not right", ruled=True),
        )


def _defaults() -> dict[str, Any]:
    return {"queue": "inbox", "priority": "normal", "tags": [], "watchers": [], "due_days": 0}


async def _tickets(workspace: Workspace) -> dict[str, Any]:
    """The tickets that the server holds; empty if there are none, or the file is damaged."""
    try:
        found = json.loads(await workspace.read(STATE, _LIMIT))
    except (ToolError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


FAMILY = Tickets()


class TicketSuite(WorldSuite):
    """Tasks of the family, with its server."""

    # The sandbox's own Python, found there by `env`: that of this process would bring the lab's virtual environment,
    # with the rules, into the sandbox. Resolved, because each link to the folder would be mounted, too.
    servers: ClassVar[Mapping[str, McpServerConfig]] = {
        SERVER: McpServerConfig(
            command="/usr/bin/env",
            args=("python3", "-I", str(Path(__file__).resolve().with_name("_server") / "desk.py")),
            scope="episode",
        )
    }


def load(**world: Any) -> TicketSuite:
    """The suite of the family. Raises `ConfigError` for several tickets in one task, as they would share the server."""
    spec = WorldSpec(**world)
    if spec.pieces > 1:
        raise ConfigError("suite.options.pieces: tickets has one ticket per task")
    if spec.size == "small":
        raise ConfigError("suite.options.size: tickets has no small tasks")
    return TicketSuite("tickets", (FAMILY,), spec)
