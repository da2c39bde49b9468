"""What a suite of hidden rules must hold, as far as it shows without a sandbox: the law of its families, no rule that
shows anywhere, the same bytes for the same seed, and splits that share nothing."""

import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath

import msgspec

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Rule, RuleType, draw_rule
from hermes_lab.tasks.subtasks import known_skill, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.wording import shared_templates, templates
from hermes_lab.tasks.worlds import SPLITS, AnyFamily, Site, draw_world, redraw
from hermes_lab.types import Task

LEAST_TYPES, LEAST_CLAUSES, LEAST_TEMPLATES = 8, 3, {"train": 8, "validation": 3, "heldout": 5}
UNSEEN_TYPES = (2, 4)
LEAST_DISTINCT = 0.99
"""Share of tasks that are like no other."""
PHRASE = 6
"""Words of a clause in a row that stand in no task: fewer meet by accident."""
SHORTEST = 4
"""Words of a recipe, its literals apart, that stand in no task."""
_OTHERS = 4
"""Rules that are drawn of each type, for the questions that need several."""


@dataclass(frozen=True)
class Static:
    """What was found; `problems` is empty for a sound suite."""

    problems: tuple[str, ...]
    tasks_per_second: float
    """A second of this process's own time, the drawing of worlds included."""
    distinct: float
    """The share of those tasks that are like no other in prompt and files."""
    templates: dict[str, int]
    """Different sentences of the prompts of each split, names and numbers apart."""


def examine(suite: WorldSuite, *, count: int, seed: int = 0, world: int = 0, elsewhere: bool = True) -> Static:
    """Examines `count` tasks of each split, each of a seed and a world of its own, from these on; with `elsewhere`
    another process draws them too."""
    tasks = {split: list(spread(suite, split, count, seed, world)) for split in SPLITS}
    problems = [f"{family.name}: {problem}" for family in suite.families for problem in law(family)]
    for split in SPLITS:
        some = tasks[split][: max(4, count // 4)]
        problems += [f"{split}: {problem}" for problem in _unique(_of_worlds(suite, split, count, world))]
        problems += _unique(problem for task in tasks[split] for problem in telltales(task, suite.families))
        problems += _unique(problem for n, task in enumerate(some) for problem in differences(suite, task, seed + n))
        problems += _unique(problem for task in tasks[split] for problem in miscased(task))
    problems += apart(tasks)
    problems += repeats(suite, min(count, 40), seed, world, elsewhere=elsewhere)
    speed, distinct = _distinct(suite, 10 * count, seed, world)
    if distinct < LEAST_DISTINCT:
        problems.append(f"{1 - distinct:.0%} of the tasks of train duplicate another one; draw more of their content")
    return Static(tuple(problems), speed, distinct, {split: templates(each) for split, each in tasks.items()})


def spread(suite: WorldSuite, split: str, count: int, seed: int, world: int) -> Iterator[Task]:
    """`count` tasks, each of a seed and a world of its own."""
    for n in range(count):
        # Every other one is the second of its draw, so that a drift after the first shows too.
        yield suite.load(split=split, count=1 + n % 2, seed=seed + n, world=world + n)[-1]


def visible(task: Task) -> dict[str, str]:
    """All that an agent can see of a task, by where."""
    shown = {"prompt": task.prompt, **{f"file {path}": f"{path}\n{text}" for path, text in task.files.items()}}
    shown |= {f"setup {n}": command for n, command in enumerate(task.setup)}
    return shown | {f"page {page.url}": f"{page.url}\n{page.title}\n{page.text}" for page in task.pages}


# The law of a family


def law(family: AnyFamily) -> list[str]:
    """What its rule types must be: many, some of them held out, each in several words."""
    problems = []
    unseen = [name for name, kind in family.rules.items() if kind.unseen]
    if len(family.rules) < LEAST_TYPES:
        problems.append(f"{len(family.rules)} types of rules; at least {LEAST_TYPES} are required")
    if not UNSEEN_TYPES[0] <= len(unseen) <= UNSEEN_TYPES[1]:
        low, high = UNSEEN_TYPES
        problems.append(f"{len(unseen)} types of rules are unseen; {low} to {high} are required")
    for name, kind in family.rules.items():
        if len(kind.paraphrases) < LEAST_CLAUSES:
            problems.append(f"rule {name}: {len(kind.paraphrases)} of at least {LEAST_CLAUSES} paraphrases")
        if kind.instruction[:1].isupper() or kind.instruction.endswith("."):
            problems.append(f"rule {name}: the instruction must begin in lower case and end without a full stop")
    return problems


def drawable(site: Site, split: str) -> dict[str, RuleType]:
    """The types of rules that could hold at a place."""
    return {
        name: site.family.rules[name]
        for name in site.family.kinds(site.site_config)
        if split == "heldout" or not site.family.rules[name].unseen
    }


def _of_worlds(suite: WorldSuite, split: str, count: int, world: int) -> Iterator[str]:
    for number in range(world, world + max(2, count // 10)):
        for site in suite.sites(split=split, world=number):
            yield from (f"{site.family.name}: {problem}" for problem in _of_place(site, split))


def _of_place(site: Site, split: str) -> Iterator[str]:
    if site.drawn.type not in site.family.kinds(site.site_config):
        yield f"rule {site.drawn.type} cannot hold at a site that was configured for it"
    try:
        redraw(site, Draws("redraw", site.entity.name))
    except ValueError as error:
        yield str(error)
    if not site.drawn.stated_in(known_skill(site, site.drawn).text):
        yield f"rule {site.drawn.type}: the suite's skill for it does not state it"
    told: dict[str, Rule] = {}
    worded: dict[tuple[str, str], Rule] = {}
    for rule in possible(site, split):
        for paraphrase in rule.paraphrases:
            if worded.setdefault((rule.type, paraphrase), rule).instruction != rule.instruction:
                yield f"rule {rule.type}: the paraphrase {paraphrase!r} does not distinguish its literals"
        same = told.setdefault(rule.instruction.lower(), rule)
        if (same.type, same.literals) != (rule.type, rule.literals):
            yield f"rules {same.type} and {rule.type} have the same instruction, {rule.instruction!r}"
        if same is rule and not rule.stated_in(site.family.skill_body(site.entity, site.site_config, rule)):
            yield f"rule {rule.type}: the family's skill for it does not state it"


def miscased(task: Task) -> Iterator[str]:
    """Words of a prompt that are a path of the task but for their capitals: nobody can open what they name."""
    instances = [subtask.instance for subtask in subtasks_of(task.truth)]
    paths = {
        *task.files,
        *(path for instance in instances for path in (*instance.files, *instance.inputs, *instance.outputs)),
    }
    paths |= {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    small = {path.lower() for path in paths}
    for token in task.prompt.split():
        word = token.strip(".,:;!?()\"'`").rstrip("/")
        if ("/" in word or "." in word) and word not in paths and word.lower() in small:
            yield f"{task.id}: the prompt has {word}, a path of the task with different capitalisation"


# No leak


def differences(suite: WorldSuite, task: Task, draw: int) -> Iterator[str]:
    """What a task shows of its rules: it must be the same bytes whatever rule is drawn, and whether it holds."""
    split, world, seed, number = drawn_from(task)
    shown = visible(task)
    kinds = {name for family in suite.families for name in family.rules}

    def of(change: Callable[[Site], Site], what: str) -> Iterator[str]:
        other = visible(_nth(_elsewise(suite, change), split, world, seed, number))
        for where in sorted(shown.keys() | other.keys()):
            if shown.get(where) != other.get(where):
                yield f"{task.id}: {where.partition(' ')[0]} shows {what}"

    yield from of(lambda site: replace(site, ruled=not site.ruled), "whether a rule holds")
    for kind in sorted(kinds):

        def changed(site: Site, kind: str = kind) -> Site:
            if kind not in drawable(site, split):
                return site
            own = Draws("other", site.entity.name, kind, draw)
            return replace(site, drawn=draw_rule(kind, site.family.rules[kind], own, site.site_config), ruled=True)

        yield from of(changed, "which rule holds")


def telltales(task: Task, families: Sequence[AnyFamily]) -> Iterator[str]:
    """Words of any rule in a task: what could be told of its places, the clause or recipe of a rule with whatever
    literals, a phrase of a clause, a compound name."""
    shown = visible(task)
    text = "\n".join(shown.values())
    small, flat = text.lower(), f" {' '.join(_plain_words(text))} "
    for subtask in subtasks_of(task.truth):
        for rule in possible(subtask.site, task.split):
            if any(words.lower() in small for words in (rule.instruction, *rule.paraphrases)) and rule.stated_in(text):
                yield f"{subtask.site.family.name}: a task states {rule.instruction!r}"
    for family in families:
        for name, kind in family.rules.items():
            for what, pattern in _patterns(name, kind):
                if pattern.search(text):
                    where = next((at for at, each in shown.items() if pattern.search(each)), "task")
                    yield f"{family.name}: {where} contains the {what} of rule {name}"
            for phrase in _phrases(kind):
                if f" {phrase} " in flat:
                    yield f"{family.name}: a task contains {phrase!r}, words of rule {name}"


def possible(site: Site, split: str) -> Iterator[Rule]:
    """Some rules that could hold at a place, of every type."""
    for name, kind in drawable(site, split).items():
        for n in range(_OTHERS):
            yield draw_rule(name, kind, Draws("rule", site.entity.name, name, n), site.site_config)


@lru_cache(maxsize=1024)
def _patterns(name: str, kind: RuleType) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Of clauses and recipes with so many words of their own that no other sentence is made like them."""
    told = [("paraphrase", paraphrase, PHRASE) for paraphrase in kind.paraphrases] + [
        ("instruction", kind.instruction, SHORTEST)
    ]
    patterns = []
    for what, template, least in told:
        parts = _literal_parts(template)
        if len(_plain_words(" ".join(parts))) >= least:
            gapped = ".{1,60}?".join(re.escape(part.replace("{{", "{").replace("}}", "}")) for part in parts)
            patterns.append((what, re.compile(rf"(?<![\w-]){gapped}(?![\w-])", re.IGNORECASE)))
    if "_" in name or "-" in name:
        compound = "[_-]".join(map(re.escape, re.split("[_-]", name)))
        patterns.append(("name", re.compile(rf"(?<![\w-]){compound}(?![\w-])", re.IGNORECASE)))
    return tuple(patterns)


def _literal_parts(template: str) -> list[str]:
    """What stands between the literals of a format string."""
    return re.split(r"(?<!\{)\{[a-z_]\w*(?:![rsa])?(?::[^{}]*)?\}(?!\})", template)


@lru_cache(maxsize=1024)
def _phrases(kind: RuleType) -> tuple[str, ...]:
    found = []
    for template in kind.paraphrases:
        for part in _literal_parts(template):
            words = _plain_words(part)
            found += [" ".join(words[n : n + PHRASE]) for n in range(len(words) - PHRASE + 1)]
    return tuple(found)


def _plain_words(text: str) -> list[str]:
    return re.findall(r"\w+(?:['-]\w+)*", text.lower())


def _elsewise(suite: WorldSuite, change: Callable[[Site], Site]) -> WorldSuite:
    """The same suite in a world whose places are others, but called the same."""
    twin = copy(suite)
    vars(twin)["sites"] = lambda **key: tuple(map(change, suite.sites(**key)))  # hides the method of the class
    return twin


def forced(suite: WorldSuite, family: AnyFamily, kind: str, split: str, number: int) -> Task | None:
    """A task of one piece at a place where a rule of that type holds; None where no place of the world can have it."""

    def change(site: Site) -> Site:
        own = Draws("forced", split, number, site.entity.name)
        site_config = family.site_config(site.entity, kind, own)
        if kind not in family.kinds(site_config):
            return site
        return replace(
            site, site_config=site_config, drawn=draw_rule(kind, family.rules[kind], own, site_config), ruled=True
        )

    alone = WorldSuite(suite.name, (family,), replace(suite.spec, pieces=1, drift_at=0))
    task = _nth(_elsewise(alone, change), split, number, number, 0)
    return task if subtasks_of(task.truth)[0].site.drawn.type == kind else None


def _nth(suite: WorldSuite, split: str, world: int, seed: int, number: int) -> Task:
    return suite.load(split=split, count=number + 1, seed=seed, world=world)[-1]


def drawn_from(task: Task) -> tuple[str, int, int, int]:
    """What a task was drawn from: split, world, seed and number."""
    found = re.fullmatch(r"(\w+)-w(\d+)-s(-?\d+)-(\d+)", task.id)
    assert found, task.id
    return found[1], int(found[2]), int(found[3]), int(found[4])


# Splits that share nothing


def apart(tasks: dict[str, list[Task]]) -> list[str]:
    """Names and templates that two splits share."""
    problems = []
    names = {
        split: {subtask.site.entity.name for task in each for subtask in subtasks_of(task.truth)}
        for split, each in tasks.items()
    }
    splits = list(names)
    for n, one in enumerate(splits):
        for other in splits[n + 1 :]:
            if both := names[one] & names[other]:
                problems.append(f"{one} and {other} share the names {', '.join(sorted(both))}")
    return problems + shared_templates(tasks)


# The same bytes


def digest(suite: WorldSuite, count: int, seed: int, world: int) -> str:
    """Of all that some tasks of each split show and trigger."""
    hashed = hashlib.sha256()
    for split in SPLITS:
        for task in spread(suite, split, count, seed, world):
            hashed.update(msgspec.json.encode([task.id, visible(task), task.triggers, task.attempts, task.metadata]))
    return hashed.hexdigest()


def repeats(suite: WorldSuite, count: int, seed: int, world: int, *, elsewhere: bool = True) -> list[str]:
    """Whether loading again gives the same tasks, here and in another process with another hash seed."""
    here = digest(suite, count, seed, world)
    draw_world.cache_clear()
    if digest(suite, count, seed, world) != here:
        return ["loading twice gives different tasks"]
    if not elsewhere:
        return []
    return [] if _digest_elsewhere(suite, count, seed, world) in (here, "") else ["another process draws other tasks"]


_ELSEWHERE = """
import json, sys
from hermes_lab.tasks.admission import digest
from hermes_lab.tasks import load_suite
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.errors import ConfigError
name, spec, *key = json.loads(sys.argv[1])
try:
    suite = load_suite(SuiteConfig(name=name, options=spec))
except ConfigError:
    sys.exit()
print(digest(suite, *key))
"""


def _digest_elsewhere(suite: WorldSuite, count: int, seed: int, world: int) -> str:
    """Empty for a suite that has no name by which another process could find it."""
    key = json.dumps([suite.name, asdict(suite.spec), count, seed, world])
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, key],
        env={"PYTHONHASHSEED": "4711", "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()


def _distinct(suite: WorldSuite, count: int, seed: int, world: int) -> tuple[float, float]:
    """Tasks a second, and the share of them that are like no other."""
    each = max(1, count // 20)
    started = time.process_time()
    tasks = [task for n in range(20) for task in suite.load(split="train", count=each, seed=seed + n, world=world + n)]
    seconds = time.process_time() - started
    kinds = {hashlib.sha256(msgspec.json.encode(visible(task))).digest() for task in tasks}
    return len(tasks) / seconds, len(kinds) / len(tasks)


def _unique(problems: Iterable[str]) -> list[str]:
    """The first three of each kind are enough; task ids make kinds of their own."""
    kinds: dict[str, int] = {}
    kept = []
    for problem in problems:
        kind = re.sub(r"\w+-w\d+-s-?\d+-\d+", "", problem)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] == 1:
            kept.append(problem)
    return kept
