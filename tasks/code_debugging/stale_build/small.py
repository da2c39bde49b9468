"""Small tasks of `stale_build` (`suite.options.size: small`): a package of one function in one file, and rules about
the arguments of the build alone."""

import shlex
from typing import ClassVar

from hermes_lab.tasks.code_debugging import _modules as code
from hermes_lab.tasks.code_debugging._topics import SEEN, TOPICS
from hermes_lab.tasks.code_debugging._topics.topic import Topic
from hermes_lab.tasks.code_debugging.stale_build import Release, StaleBuild, build_command, tool_files
from hermes_lab.tasks.code_debugging.stale_build.rules import RULES, SiteConfig, ordered
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Entity, Rule, shell
from hermes_lab.tasks.words import load_phrases

LEFT_OUT = ("first", "without", "banner")
"""Rules about other files."""


def _short(topic: Topic) -> bool:
    return all("\n" not in code and len(code) <= 72 for code in (topic.plain_code, *topic.broken_code))


class SmallStaleBuild(StaleBuild):
    """A look at the source, and one command that replaces its last line and builds it."""

    topics: ClassVar[tuple[str, ...]] = tuple(name for name in SEEN if _short(TOPICS[name]))

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The words of a site that has no other files."""
        words = self.words[entity.split]
        return SiteConfig(
            parts=(),
            banners=(),
            channels=tuple(draws.sample(words.channels, 3)),
            codenames=tuple(draws.sample(words.codenames, 3)),
            seals=words.seals,
        )

    def files(
        self, name: str, site_config: SiteConfig, defect: code.Defect, draws: Draws
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """The source with the bug, the build tool, and an old build."""
        part = f"{name}.py"
        source = f"{defect.constant_line}\n\n{defect.text}" if defect.constant_line else defect.text
        return {f"src/{part}": source, **tool_files(name, {part: source})}, (part,)

    def solve(self, instance: Release, rule: Rule | None) -> tuple[Action, ...]:
        """Fixes the last line, which is the body of the function, and builds the source."""
        edit = shlex.join(["sed", "-i", f"$s|.*|{instance.defect.topic.plain_code}|", instance.path])
        build = build_command(ordered(instance.order, rule))
        return (shell(f"{edit} && {build}", "I fix the source and build it."),)

    def explore(self, instance: Release) -> tuple[Action, ...]:
        """A look at the source."""
        return (shell(f"cat {instance.path}", "This is the source."),)

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The paraphrase and the instruction."""
        return self.statement(rule)


FAMILY = SmallStaleBuild(__file__, {name: kind for name, kind in RULES.items() if name not in LEFT_OUT})
FAMILY.prompt = {"requests": FAMILY.prompt["requests"], "closings": load_phrases(__file__, "small")}
