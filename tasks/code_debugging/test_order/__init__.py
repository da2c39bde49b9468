"""The family `test_order`: tests depend on their order through a module's state, which a reset has to restore."""

from collections.abc import Sequence

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.code_debugging._runner import fix_fields, read_mended, run_sessions, share, share_right
from hermes_lab.tasks.code_debugging.test_order.files import MOST_LINES, TESTS, draw_files, draw_reset
from hermes_lab.tasks.code_debugging.test_order.rules import RULES, SiteConfig, State, reset_change, reset_code
from hermes_lab.tasks.code_debugging.test_order.sessions import (
    Leak,
    play_reset,
    play_use,
    same_in_all_orders,
    shuffled_tests,
)
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell


class LeakedState(DataFamily[SiteConfig, Leak]):
    """Every module has state for every convention to change: numbers, a step, a mode, a log, an archive."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The words of a site."""
        words = self.words[entity.split]
        return SiteConfig(
            package=draws.choice(words.packages),
            modes=tuple(draws.sample(words.modes, 5)),
            guests=tuple(draws.sample(words.guests, 3)),
            lines=tuple(draws.sample(words.lines, 3)),
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Leak:
        """A module whose reset is incomplete and never called."""
        words, module = self.words[entity.split], entity.slug(self.noun)
        path = f"{site_config.package}/{module}.py"
        start = State(draws.choice((0, 1, 1, 2, 10)), site_config.modes[0])
        verb, listing = draws.choice(words.verbs), draws.choice(words.lists)
        broken = draw_reset(draws)
        people = tuple(draws.sample(words.people, 6))
        names = {
            "package": site_config.package,
            "module": module,
            "verb": verb,
            "listing": listing,
            "first": start.next,
            "begin": start.mode,
            "mode": site_config.modes[1],
            **dict(zip(("one", "two", "three"), people, strict=False)),
        }
        request = self.ask(entity, draws, path, **{**names, "path": path, "tests": TESTS})
        files = draw_files(names, broken, draws)
        return Leak(
            request=request,
            **fix_fields(path, files),
            site_config=site_config,
            verb=verb,
            listing=listing,
            start=start,
            broken=broken,
            people=people,
        )

    async def judge(
        self, instance: Leak, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Runs the module without a reset, other tests in several orders, and a reset."""
        mended = await read_mended(workspace, instance, MOST_LINES)
        if not mended.sound:
            return mended.criteria
        package = instance.path.split("/")[0]
        sources = {path: text.encode() for path, text in instance.files.items() if path.startswith(f"{package}/")}
        use, around = play_use(instance), play_reset(instance, rule)
        sessions = [use.steps, around.steps, *shuffled_tests(instance)]
        ran = await run_sessions(workspace, {**sources, instance.path: mended.module}, sessions)
        return (
            *mended.criteria,
            criterion("runs", ran is not None, f"{instance.path} does not load, or does not finish"),
            share(
                "use", share_right(ran[0] if ran else None, use.wanted), f"{instance.path} no longer works as before"
            ),
            criterion(
                "any_order",
                ran is not None and same_in_all_orders(instance, ran[2:]),
                "what a test sees still depends on the tests before it",
            ),
            share(
                "reset",
                share_right(ran[1] if ran else None, around.wanted),
                "the state after a reset is not what it should be",
                ruled=True,
            ),
        )

    def solve(self, instance: Leak, rule: Rule | None) -> tuple[Action, ...]:
        """Writes the complete reset and runs the tests."""
        text = instance.files[instance.path].replace(instance.broken, reset_code(rule, instance.module))
        return (
            Action("write_file", {"path": instance.path, "content": text}, "I complete the reset and register it."),
            shell(TESTS, "Now the tests, in several orders."),
        )

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The paraphrase, the instruction, and the difference between the right reset and the obvious one."""
        module = entity.slug(self.noun)
        told = self.statement(rule, *site_config.guests)
        return f"{told} In {site_config.package}/{module}.py:\n\n```diff\n{reset_change(rule, module)}```"


FAMILY = LeakedState(__file__, RULES)
