"""The family `stale_build`: fix a source file and build its release, by the convention of the site."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.code_debugging import _modules as code
from hermes_lab.tasks.code_debugging._runner import read_mended, run_sessions, share, share_right
from hermes_lab.tasks.code_debugging._topics import SEEN
from hermes_lab.tasks.code_debugging.stale_build.rules import RULES, Order, SiteConfig, ordered
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import read_json, read_text
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell
from hermes_lab.tasks.words import load_words, read_file

TOOL = "tools/build.py"
TOLD = "dist/build.json"

FILES = load_words(__file__, dict[str, str], "files")
BANNERS = load_words(__file__, tuple[str, ...], "banners")
"""Contents of banners."""


@dataclass(frozen=True, kw_only=True)
class Release(code.BugTask):
    """One bug to fix and release."""

    name: str
    parts: tuple[str, ...]
    """As parts.txt lists them; the last is the one with the bug."""
    order: Order

    @property
    def made(self) -> str:
        """The delivered file."""
        return f"dist/{self.name}.py"


class StaleBuild(DataFamily[SiteConfig, Release]):
    """Every package has something for every convention to change: parts, banners, a channel, a label, a date."""

    topics: ClassVar[tuple[str, ...]] = SEEN

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The parts of a package and the words of its site."""
        words = self.words[entity.split]
        return SiteConfig(
            parts=tuple(f"{part}.py" for part in draws.sample(words.parts, 3)),
            banners=tuple(f"{banner}.txt" for banner in draws.sample(words.banners, 3)),
            channels=tuple(draws.sample(words.channels, 3)),
            codenames=tuple(draws.sample(words.codenames, 3)),
            seals=words.seals,
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Release:
        """A bug in the source and in the build made from it."""
        name = entity.slug(self.noun)
        defect = code.draw_defect(draws.choice(self.topics), entity.split, draws)
        major = draws.integer(1, 9)
        last = draws.choice([n for n in range(1, 10) if n != major])
        order = Order((major, draws.integer(0, 12), last), _draw_day(draws))
        made, path = f"dist/{name}.py", f"src/{name}.py"
        told = {
            "path": path,
            "function": defect.function,
            "release": order.label,
            "day": order.day,
            "tests": code.TESTS,
        }
        request = self.ask(entity, draws, path, complaint=defect.complaint, **told)
        files, parts = self.files(name, site_config, defect, draws)
        return Release(
            request=request,
            files=files,
            inputs=tuple(other for other in files if other not in (path, made)),
            outputs=(path, made, TOLD),
            path=path,
            name=name,
            parts=parts,
            defect=defect,
            order=order,
            key=f"{draws.chance()}",
        )

    def files(
        self, name: str, site_config: SiteConfig, defect: code.Defect, draws: Draws
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """The workspace, and its parts in order. No two parts share a function name."""
        helpers = draws.shuffled(code.HELPERS)
        parts = ("common.py", *site_config.parts, f"{name}.py")
        texts = {"common.py": code.COMMON}
        for number, part in enumerate(site_config.parts):
            about = f"Helpers for {part.removesuffix('.py')}"
            texts[part] = code.write_module(about, "common", helpers[2 * number : 2 * number + 2])
        functions = draws.shuffled([defect.text, *helpers[6 : 6 + draws.integer(0, 2)]])
        about = f"The functions of {name}"
        texts[f"{name}.py"] = code.write_module(about, "common", functions, defect.constant_line)
        return {
            **{f"src/{part}": texts[part] for part in parts},
            **{f"banners/{banner}": draws.choice(BANNERS).format(name=name) for banner in site_config.banners},
            **tool_files(name, texts),
            f"tests/test_{name}.py": code.write_test(FILES["imports"].format(name=name), name, defect),
            "README.md": FILES["readme"].format(package=name, tests=code.TESTS, lines=code.MOST_LINES),
            "CHANGELOG.md": code.write_changelog([part.removesuffix(".py") for part in parts], draws),
        }, parts

    async def judge(
        self, instance: Release, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the source by its results, and the build by the one that the harness makes from that source."""
        defect = instance.defect
        calls = instance.plain_calls(self.name)
        mended = await read_mended(workspace, instance, code.MOST_LINES)
        if not mended.sound:
            return mended.criteria
        source = {f"{instance.name}.py": mended.module}
        if "src/common.py" in instance.files:
            source["common.py"] = instance.files["src/common.py"].encode()
        ran = await run_sessions(workspace, source, [code.steps_of(instance.name, defect.function, calls)])
        right = share_right(ran[0], defect.plain(calls)) if ran else 0.0
        built, told = await read_text(workspace, instance.made), await read_json(workspace, TOLD, limit=10_000)
        # The tool reads it with these line ends.
        text = mended.module.decode(errors="replace").replace("\r\n", "\n")
        current = built is not None and _body(f"{instance.name}.py", text) in built
        fit = (built, told) == build(instance, text, ordered(instance.order, rule))
        return (
            *mended.criteria,
            share("source", right, f"calls of {defect.function}() in {instance.path} give wrong results"),
            criterion("built", current, f"{instance.made} was not built from the current {instance.path}"),
            criterion("told", isinstance(told, dict), f"{TOLD} is missing, or not a JSON object"),
            criterion("release", fit, "the build is not fit for release", ruled=True),
        )

    def solve(self, instance: Release, rule: Rule | None) -> tuple[Action, ...]:
        """Fixes the source, builds it, and runs the tests."""
        return (
            Action("write_file", {"path": instance.path, "content": instance.mended()}, "I fix the source."),
            shell(build_command(ordered(instance.order, rule)), "Now the build."),
            shell(code.TESTS, "And the tests of what was built."),
        )

    def skill_body(self, entity: Entity, site_config: SiteConfig, rule: Rule) -> str:
        """The paraphrase, the instruction, and the command for an example release."""
        some = Order((2, 4, 1), "2024-05-31")
        command = build_command(ordered(some, rule))
        stated = self.statement(rule, *site_config.parts, *site_config.banners)
        return f"{stated} For release 2.4.1 of 2024-05-31 run: {command}"


def build_command(order: Order) -> str:
    """The build command; the obvious one for an unchanged order."""
    return f"python3 {TOOL} {order.label} {order.day}{order.options}"


def build(instance: Release, source: str, order: Order) -> tuple[str, Mapping[str, object]]:
    """The right delivered file and build.json for this text of the source with the bug."""
    parts = [order.first] if order.first else []
    parts += [part for part in instance.parts if part not in (order.first, order.without)]
    texts = {part: instance.files[f"src/{part}"] for part in instance.parts} | {f"{instance.name}.py": source}
    banner = instance.files[f"banners/{order.banner}"] if order.banner else ""
    head = f"{banner}release {order.label} of {order.day}, made by tools/build.py: do not edit\n"
    made = "\n\n".join(_body(part, texts[part]) for part in parts)
    digest = hashlib.new(order.digest, made.encode(), usedforsecurity=False).hexdigest()
    return "".join(f"# {line}\n" for line in head.splitlines()) + "\n" + made, {
        "file": f"{instance.name}.py",
        "release": order.label,
        "date": order.day,
        "channel": order.channel,
        "parts": parts,
        "digest": f"{order.digest}:{digest}",
        "seal": order.seal,
    }


def _body(part: str, text: str) -> str:
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith("from common import")]
    return f"# {part}\n{''.join(kept)}"


def tool_files(name: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The files of the build tool, and what it delivers before the fix; `texts` are the parts in order."""
    stale = "\n\n".join(_body(part, text) for part, text in texts.items())
    return {
        "parts.txt": "".join(f"{part}\n" for part in texts),
        TOOL: read_file(__file__, "tool.py"),
        f"dist/{name}.py": f"# made by tools/build.py: do not edit\n\n{stale}",
    }


def _draw_day(draws: Draws) -> str:
    return f"{draws.integer(2019, 2026)}-{draws.integer(1, 12):02d}-{draws.integer(13, 28)}"


FAMILY = StaleBuild(__file__, RULES)
