"""The family `plugins`: fix a plugin and register it in the manifest, by the convention of the house."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.code_debugging import _modules as code
from hermes_lab.tasks.code_debugging._runner import module_name, read_mended, run_sessions, share, share_right
from hermes_lab.tasks.code_debugging._topics import SEEN
from hermes_lab.tasks.code_debugging.plugins.rules import (
    CONSTANTS,
    RULES,
    SORTED,
    Entry,
    Plugin,
    SiteConfig,
    plain_entry,
    registered,
)
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import read_json
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell
from hermes_lab.tasks.words import load_words

MANIFEST = "plugins.json"

FILES = load_words(__file__, dict[str, str], "files")


@dataclass(frozen=True, kw_only=True)
class Draft(code.BugTask):
    """A plugin to fix and register."""

    plugin: Plugin
    entries: tuple[Entry, ...]
    """Those that the manifest has."""


class Plugins(DataFamily[SiteConfig, Draft]):
    """Every manifest has unordered entries of several priorities, and every plugin's name has several words."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The words of a site."""
        words = self.words[entity.split]
        return SiteConfig(entity.slug(self.noun), draws.choice(words.keys), tuple(draws.sample(words.owners, 3)))

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Draft:
        """A plugin with a bug, and a manifest without it."""
        words = self.words[entity.split]
        defect = code.draw_defect(draws.choice(SEEN), entity.split, draws)
        name = f"{draws.choice(words.kinds)}_{defect.function}"
        priority, entries = _draw_entries(site_config.package, words.others, draws)
        plugin = Plugin(site_config.package, name, defect.function, priority)
        told = {"name": name, "path": plugin.path, "priority": priority, "tests": code.TESTS}
        request = self.ask(entity, draws, plugin.path, complaint=defect.complaint, **told)
        files = _draw_files(plugin, entries, defect, draws)
        outputs = (plugin.path, MANIFEST)
        return Draft(
            request=request,
            files=files,
            inputs=tuple(path for path in files if path not in outputs),
            outputs=outputs,
            path=plugin.path,
            plugin=plugin,
            defect=defect,
            entries=entries,
            key=f"{draws.chance()}",
        )

    async def judge(
        self, instance: Draft, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the plugin by its results, and the manifest by the entry that the harness derives."""
        defect, plugin = instance.defect, instance.plugin
        calls = instance.plain_calls(self.name)
        mended = await read_mended(workspace, instance, code.MOST_LINES)
        if not mended.sound:
            return mended.criteria
        module, common = module_name(plugin.path), f"{plugin.package}/common.py"
        steps = code.steps_of(module, defect.function, calls) + [(module, constant, None) for constant in CONSTANTS]
        sources = {
            **dict.fromkeys((f"{plugin.package}/__init__.py", f"{plugin.package}/plugins/__init__.py"), b""),
            common: instance.files[common].encode(),
            plugin.path: mended.module,
        }
        ran = await run_sessions(workspace, sources, [steps])
        found = ran[0] if ran else [[] for _ in steps]
        right = share_right(found[: len(calls)], defect.plain(calls))
        constants = {name: value[0] for name, value in zip(CONSTANTS, found[len(calls) :], strict=True) if value}
        entries = await read_json(workspace, MANIFEST, limit=20_000)
        wanted = registered(instance.entries, plugin, mended.module, rule)
        one_more = _holds_all(entries, instance.entries) and len(entries) == len(instance.entries) + 1
        fit = entries == list(wanted.entries) and constants == wanted.constants
        return (
            *mended.criteria,
            share("function", right, f"calls of {defect.function}() in {plugin.path} give wrong results"),
            criterion("one_more", one_more, f"{MANIFEST} does not have its old entries and exactly one new one"),
            criterion("registered", fit, f"the server does not load {plugin.name}", ruled=True),
        )

    def solve(self, instance: Draft, rule: Rule | None) -> tuple[Action, ...]:
        """Fixes, registers and tests the plugin."""
        plugin = instance.plugin
        constants = registered(instance.entries, plugin, b"", rule).constants
        source = instance.mended() + "".join(f"\n\n{name} = {value}\n" for name, value in constants.items())
        state = registered(instance.entries, plugin, source.encode(), rule)
        return (
            Action("write_file", {"path": plugin.path, "content": source}, "I fix the function."),
            Action("write_file", {"path": MANIFEST, "content": write_manifest(state.entries)}, "Now the manifest."),
            shell(code.TESTS, "And the tests."),
        )

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The paraphrase, the instruction, and an example entry."""
        some = Plugin(site_config.package, "some_plugin", "plugin", 40)
        state = registered([], some, b"", rule)
        shown = "" if rule.type == "signed" else f" An entry like this: {json.dumps(state.entries[0])}"
        return f"{self.statement(rule)}{shown}"


def write_manifest(entries: Sequence[Entry]) -> str:
    """The manifest, one entry per line."""
    return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in entries) + "\n]\n"


def _holds_all(entries: object, before: Sequence[Entry]) -> bool:
    return isinstance(entries, list) and all(entry in entries for entry in before)


def _name_of(helper: str) -> str:
    return helper.removeprefix("def ").partition("(")[0]


def _draw_entries(package: str, words: Sequence[str], draws: Draws) -> tuple[int, tuple[Entry, ...]]:
    """A priority, and four or five entries in an order that no sorting gives.

    The priority is neither the lowest nor the highest.
    """
    while True:
        others = draws.sample(words, draws.integer(4, 5))
        helpers = draws.sample(code.HELPERS, len(others))
        numbers = sorted(draws.sample(range(1, 19), len(others) + 1))
        priority = 5 * numbers.pop(draws.integer(1, len(others) - 1))
        entries = [
            plain_entry(Plugin(package, f"{other}_{_name_of(helper)}", _name_of(helper), 5 * number))
            for other, helper, number in zip(others, helpers, draws.shuffled(numbers), strict=True)
        ]
        orders = {tuple(entry["id"] for entry in sorted(entries, key=key)) for key in SORTED.values()}
        if len({*orders, tuple(entry["id"] for entry in entries)}) == len(SORTED) + 1:
            return priority, tuple(entries)


def _draw_files(plugin: Plugin, entries: Sequence[Entry], defect: code.Defect, draws: Draws) -> dict[str, str]:
    """The workspace: the plugin, and others that work."""
    package, others = plugin.package, [entry["id"] for entry in entries]
    texts = {_name_of(helper): helper for helper in code.HELPERS}
    common = f"{package}.common"
    return {
        plugin.path: code.write_module(f"Plugin {plugin.name}", common, [defect.text], defect.constant_line),
        **{
            f"{package}/plugins/{other}.py": code.write_module(
                f"Plugin {other}", common, [texts[other.partition("_")[2]]]
            )
            for other in others
        },
        f"{package}/__init__.py": f'"""{package.title()}: plugins and what they share."""\n',
        f"{package}/plugins/__init__.py": '"""The plugins, one file each."""\n',
        f"{package}/common.py": code.COMMON,
        MANIFEST: write_manifest(entries),
        f"tests/test_{plugin.name}.py": code.write_test(
            f"from {package}.plugins import {plugin.name}", plugin.name, defect
        ),
        "tests/test_manifest.py": FILES["manifest_test"].format(count=len(entries) + 1),
        "README.md": FILES["readme"].format(package=package, tests=code.TESTS, lines=code.MOST_LINES),
        "CHANGELOG.md": code.write_changelog([plugin.name, *others], draws),
    }


FAMILY = Plugins(__file__, RULES)
