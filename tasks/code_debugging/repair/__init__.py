"""The family `repair`: fix a function of a module that follows an unwritten convention."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.code_debugging import _modules as code
from hermes_lab.tasks.code_debugging._runner import (
    fix_fields,
    module_name,
    read_mended,
    run_sessions,
    share,
    share_right,
)
from hermes_lab.tasks.code_debugging._topics import TOPICS, UNSEEN
from hermes_lab.tasks.code_debugging._topics.topic import Args, Json, Topic
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import (
    Action,
    Criterion,
    Entity,
    Rule,
    RuleType,
    criterion,
    shell,
)
from hermes_lab.tasks.words import load_words

FILES = load_words(__file__, dict[str, str], "files")


@dataclass(frozen=True)
class Component:
    """A module of a package. All its bugs are of one topic."""

    type: str
    """A key of `TOPICS`."""
    package: str
    others: tuple[str, ...]
    """The other modules of the package."""


def _rule_type(name: str, topic: Topic) -> RuleType:
    return RuleType(
        paraphrases=topic.paraphrases,
        instruction=topic.instruction,
        draw=lambda draws, site_config: {"rule": draws.choice(topic.rules)},
        unseen=name in UNSEEN,
    )


RULES = {name: _rule_type(name, topic) for name, topic in TOPICS.items()}


class Repair(DataFamily[Component, code.BugTask]):
    """The obvious fix and the fix by the convention agree on every call that a bug report or a test shows."""

    def kinds(self, site_config: Component) -> tuple[str, ...]:
        """The topic alone: its convention has several parameters."""
        return (site_config.type,)

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> Component:
        """The package of a module, and the topic of the module's functions."""
        words = self.words[entity.split]
        return Component(kind, draws.choice(words.packages), tuple(draws.sample(words.modules, 4)))

    def instance(self, entity: Entity, site_config: Component, draws: Draws) -> code.BugTask:
        """A bug in one function, and two failing tests."""
        module = entity.slug(self.noun)
        defect = code.draw_defect(site_config.type, entity.split, draws)
        path = f"{site_config.package}/{module}.py"
        told = {"path": path, "function": defect.function, "tests": code.TESTS}
        request = self.ask(entity, draws, path, complaint=defect.complaint, **told)
        files = _draw_files(site_config, module, defect, draws)
        return code.BugTask(
            request=request,
            **fix_fields(path, files),
            defect=defect,
            key=f"{draws.chance()}",
        )

    async def judge(
        self, instance: code.BugTask, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the module by its results: its text runs with the other modules in their original state."""
        defect, function = instance.defect, instance.defect.function
        draws = Draws("repair", "calls", instance.key)
        agreed = code.draw_agreed_calls(defect, code.CALLS, draws)
        telling = _draw_telling_calls(defect, draws)
        mended = await read_mended(workspace, instance, code.MOST_LINES)
        if not mended.sound:
            return mended.criteria
        package = instance.path.split("/")[0]
        sources = {path: text.encode() for path, text in instance.files.items() if path.startswith(f"{package}/")}
        calls = [*defect.reported, *agreed, *telling]
        ran = await run_sessions(
            workspace,
            {**sources, instance.path: mended.module},
            [code.steps_of(module_name(instance.path), function, calls)],
        )
        found = ran[0] if ran else [[] for _ in calls]
        reported = share_right(found[:2], defect.plain(defect.reported))
        behaviour = share_right(found[2 : 2 + code.CALLS], defect.plain(agreed))
        convention = share_right(found[2 + code.CALLS :], [_right(defect, rule, args) for args in telling])
        return (
            *mended.criteria,
            criterion("runs", ran is not None, f"{function}() of {instance.path} does not run, or does not finish"),
            share("reported", reported, "the reported calls are still wrong"),
            share("behaviour", behaviour, f"other calls of {function}() give wrong results"),
            share("convention", convention, f"some calls of {function}() do not return what they should", ruled=True),
        )

    def solve(self, instance: code.BugTask, rule: Rule | None) -> tuple[Action, ...]:
        """Fixes the function and runs the tests."""
        topic = instance.defect.topic
        body = topic.house_fix(rule["rule"]) if rule else topic.plain_code
        return (
            Action("write_file", {"path": instance.path, "content": instance.mended(body)}, "I fix the function."),
            shell(code.TESTS, "Now the tests."),
        )

    def skill_body(self, entity: Entity, site_config: Component, rule: Rule) -> str:
        """The paraphrase, the instruction, and a function body that follows them."""
        body = TOPICS[rule.type].house_fix(rule["rule"])
        return f"{self.statement(rule)} A body that does this:\n\n```python\n{body}\n```"


def _draw_files(site_config: Component, module: str, defect: code.Defect, draws: Draws) -> dict[str, str]:
    """The workspace: the module with the broken function, and two whose functions have no topic."""
    package = site_config.package
    common = f"{package}.common"
    functions = draws.shuffled([defect.text, *draws.sample(code.HELPERS, draws.integer(1, 3))])
    about = f"Helpers for the {module}"
    files = {f"{package}/{module}.py": code.write_module(about, common, functions, defect.constant_line)}
    for other in draws.sample(site_config.others, 2):
        functions = draws.sample(code.HELPERS, draws.integer(2, 3))
        files[f"{package}/{other}.py"] = code.write_module(f"Helpers for the {other}", common, functions)
    return {
        **dict(sorted(files.items())),
        f"{package}/__init__.py": f'"""{package.title()}: helpers for our departments."""\n',
        f"{package}/common.py": code.COMMON,
        f"tests/test_{module}.py": code.write_test(f"from {package} import {module}", module, defect),
        "README.md": FILES["readme"].format(package=package, tests=code.TESTS, lines=code.MOST_LINES),
        "CHANGELOG.md": code.write_changelog([module, *site_config.others], draws),
    }


def _draw_telling_calls(defect: code.Defect, draws: Draws) -> list[Args]:
    """Calls that tell apart the obvious fix and the convention with each of its parameters, pair by pair.

    The judged module sees its calls. They are drawn without the rule, so they reveal nothing about it.
    """
    topic, constant = defect.topic, defect.constant

    def apart(one: Json, other: Callable[..., Json]) -> Args | None:
        args = topic.call(draws, constant, one)
        return args if topic.house(constant, one, *args) != other(constant, *args) else None

    calls = [args for one in topic.rules for args in code.distinct_calls(partial(apart, one, topic.plain), 2)]
    for one, two in combinations(topic.rules, 2):
        calls += code.distinct_calls(partial(apart, one, lambda c, *args, two=two: topic.house(c, two, *args)), 1)
    return draws.shuffled(calls)


def _right(defect: code.Defect, rule: Rule | None, args: Args) -> Json:
    topic = defect.topic
    return topic.house(defect.constant, rule["rule"], *args) if rule else topic.plain(defect.constant, *args)


FAMILY = Repair(__file__, RULES)
