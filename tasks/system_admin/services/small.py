"""Small tasks of `services` (`suite.options.size: small`): one unit with one settings file, and rules that do not
involve other units."""

import shlex

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, Rule, shell
from hermes_lab.tasks.system_admin.services import Services, Ticket
from hermes_lab.tasks.system_admin.services.rules import RULES, SiteConfig, planned

LEFT_OUT = ("before", "after", "serial")
"""Rules about other units, and the one that needs arithmetic."""


class SmallServices(Services):
    """A look at the file, and one command that edits it and makes the change."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """One unit with three settings, one of them the version counter."""
        words = self.words[entity.split]
        return SiteConfig(
            unit=entity.slug("service"),
            helpers=(),
            numbers=tuple(draws.sample(words.numbers, 2)),
            texts=(),
            serial=draws.choice(words.serials),
            tickets=draws.choice(words.tickets),
        )

    def solve(self, instance: Ticket, rule: Rule | None) -> tuple[Action, ...]:
        """Edits the setting in place, then opens, makes and closes the change."""
        key, line = instance.wish.key, planned(instance.wish, rule).lines[0]
        # An earlier attempt may have put a word before the key.
        edit = shlex.join(["sed", "-i", f"s/.*{key}=.*/{line}/", instance.env])
        *_, change = super().solve(instance, rule)
        return (shell(f"{edit} && {change.arguments['command']}", "First the settings, then the change."),)

    def explore(self, instance: Ticket) -> tuple[Action, ...]:
        """A look at the settings."""
        return (shell(f"cat {instance.env}", "What are its settings?"),)


FAMILY = SmallServices(__file__, {name: kind for name, kind in RULES.items() if name not in LEFT_OUT})
