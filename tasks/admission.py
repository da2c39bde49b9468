"""Static checks of a suite with hidden rules, which need no sandbox: enough rule types per family, no rule leaks into a
task, tasks are reproducible from their seed, and splits share no names or wording."""

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
"""Required share of distinct tasks."""
PHRASE = 6
"""Number of consecutive words of a paraphrase that count as a leak; shorter matches happen by chance."""
SHORTEST = 4
"""Number of words of an instruction, without its literals, that count as a leak."""
_DRAWS_PER_TYPE = 4
"""Rules drawn of each type, for checks that need several."""


@dataclass(frozen=True)
class StaticReport:
    """The results of the static checks; `problems` is empty if none were found."""

    problems: tuple[str, ...]
    tasks_per_second: float
    """Tasks generated per second of CPU time, including the generation of worlds."""
    distinct: float
    """The share of tasks with a distinct prompt and files."""
    templates: dict[str, int]
    """By split: the number of distinct prompt sentences, ignoring names and numbers."""


def static_checks(
    suite: WorldSuite, *, count: int, seed: int = 0, world: int = 0, elsewhere: bool = True
) -> StaticReport:
    """Checks `count` tasks of each split, each with its own seed and world, counting up from `seed` and `world`. With
    `elsewhere`, another process also generates them, to compare."""
    tasks = {split: list(spread(suite, split, count, seed, world)) for split in SPLITS}
    problems = [f"{family.name}: {problem}" for family in suite.families for problem in check_rule_types(family)]
    for split in SPLITS:
        some = tasks[split][: max(4, count // 4)]
        problems += [f"{split}: {problem}" for problem in _unique(_world_problems(suite, split, count, world))]
        problems += _unique(problem for task in tasks[split] for problem in find_rule_leaks(task, suite.families))
        problems += _unique(problem for n, task in enumerate(some) for problem in differences(suite, task, seed + n))
        problems += _unique(problem for task in tasks[split] for problem in miscased(task))
    problems += check_splits_disjoint(tasks)
    problems += repeats(suite, min(count, 40), seed, world, elsewhere=elsewhere)
    speed, distinct = _distinct(suite, 10 * count, seed, world)
    if distinct < LEAST_DISTINCT:
        problems.append(f"{1 - distinct:.0%} of the train tasks are duplicates; vary more of their content")
    return StaticReport(tuple(problems), speed, distinct, {split: templates(each) for split, each in tasks.items()})


def spread(suite: WorldSuite, split: str, count: int, seed: int, world: int) -> Iterator[Task]:
    """`count` tasks, each with its own seed and world."""
    for n in range(count):
        # Every other one is the second task of its seed, to include a drift after the first task.
        yield suite.load(split=split, count=1 + n % 2, seed=seed + n, world=world + n)[-1]


def visible(task: Task) -> dict[str, str]:
    """Everything that an agent can see of a task, by location."""
    shown = {"prompt": task.prompt, **{f"file {path}": f"{path}\n{text}" for path, text in task.files.items()}}
    shown |= {f"setup {n}": command for n, command in enumerate(task.setup)}
    return shown | {f"page {page.url}": f"{page.url}\n{page.title}\n{page.text}" for page in task.pages}


# Requirements on a family


def check_rule_types(family: AnyFamily) -> list[str]:
    """Checks a family's rule types: there are enough, some are unseen, and each has several paraphrases."""
    problems = []
    unseen = [name for name, kind in family.rules.items() if kind.unseen]
    if len(family.rules) < LEAST_TYPES:
        problems.append(f"{len(family.rules)} rule types; at least {LEAST_TYPES} are required")
    if not UNSEEN_TYPES[0] <= len(unseen) <= UNSEEN_TYPES[1]:
        problems.append(f"{len(unseen)} unseen rule types; {UNSEEN_TYPES[0]} to {UNSEEN_TYPES[1]} are required")
    for name, kind in family.rules.items():
        if len(kind.paraphrases) < LEAST_CLAUSES:
            problems.append(f"rule {name}: {len(kind.paraphrases)} paraphrases; at least {LEAST_CLAUSES} are required")
        if kind.instruction[:1].isupper() or kind.instruction.endswith("."):
            problems.append(f"rule {name}: the instruction must start in lower case and end without a full stop")
    return problems


def drawable(site: Site, split: str) -> dict[str, RuleType]:
    """The rule types that a site can have."""
    return {
        name: site.family.rules[name]
        for name in site.family.kinds(site.site_config)
        if split == "heldout" or not site.family.rules[name].unseen
    }


def _world_problems(suite: WorldSuite, split: str, count: int, world: int) -> Iterator[str]:
    for number in range(world, world + max(2, count // 10)):
        for site in suite.sites(split=split, world=number):
            yield from (f"{site.family.name}: {problem}" for problem in _site_problems(site, split))


def _site_problems(site: Site, split: str) -> Iterator[str]:
    if site.drawn.type not in site.family.kinds(site.site_config):
        yield f"rule {site.drawn.type} is not one of the `kinds` of its own site"
    try:
        redraw(site, Draws("redraw", site.entity.name))
    except ValueError as error:
        yield str(error)
    if not site.drawn.stated_in(known_skill(site, site.drawn).text):
        yield f"rule {site.drawn.type}: its skill does not state it"
    by_instruction: dict[str, Rule] = {}
    by_paraphrase: dict[tuple[str, str], Rule] = {}
    for rule in possible(site, split):
        for paraphrase in rule.paraphrases:
            if by_paraphrase.setdefault((rule.type, paraphrase), rule).instruction != rule.instruction:
                yield f"rule {rule.type}: the paraphrase {paraphrase!r} is the same for different literals"
        same = by_instruction.setdefault(rule.instruction.lower(), rule)
        if (same.type, same.literals) != (rule.type, rule.literals):
            yield f"{same.type} and {rule.type} share the instruction {rule.instruction!r}"
        if same is rule and not rule.stated_in(site.family.skill_body(site.entity, site.site_config, rule)):
            yield f"rule {rule.type}: its skill body does not state it"


def miscased(task: Task) -> Iterator[str]:
    """Words of a prompt that match a path of the task except for case, so that they cannot be opened."""
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
            yield f"{task.id}: the prompt says {word}, which differs in case from a path of the task"


# Leaks


def differences(suite: WorldSuite, task: Task, draw: int) -> Iterator[str]:
    """Checks that the visible bytes of a task depend neither on which rules its sites have nor on whether they hold."""
    split, world, seed, number = drawn_from(task)
    shown = visible(task)
    kinds = {name for family in suite.families for name in family.rules}

    def of(change: Callable[[Site], Site], what: str) -> Iterator[str]:
        other = visible(_nth(_with_changed_sites(suite, change), split, world, seed, number))
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


def find_rule_leaks(task: Task, families: Sequence[AnyFamily]) -> Iterator[str]:
    """Checks that a task contains no text of a rule: no rule that its sites can have is stated, and no paraphrase,
    instruction, phrase or compound name of any rule type occurs, with any literals."""
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
                    yield f"{family.name}: a task contains {phrase!r}, a phrase of rule {name}"


def possible(site: Site, split: str) -> Iterator[Rule]:
    """Some rules of every type that a site can have."""
    for name, kind in drawable(site, split).items():
        for n in range(_DRAWS_PER_TYPE):
            yield draw_rule(name, kind, Draws("rule", site.entity.name, name, n), site.site_config)


@lru_cache(maxsize=1024)
def _patterns(name: str, kind: RuleType) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Patterns of a rule type's name and its paraphrases and instruction, if they are long enough to be distinctive."""
    texts = [("paraphrase", paraphrase, PHRASE) for paraphrase in kind.paraphrases] + [
        ("instruction", kind.instruction, SHORTEST)
    ]
    patterns = []
    for what, template, least in texts:
        parts = _literal_parts(template)
        if len(_plain_words(" ".join(parts))) >= least:
            gapped = ".{1,60}?".join(re.escape(part.replace("{{", "{").replace("}}", "}")) for part in parts)
            patterns.append((what, re.compile(rf"(?<![\w-]){gapped}(?![\w-])", re.IGNORECASE)))
    if "_" in name or "-" in name:
        compound = "[_-]".join(map(re.escape, re.split("[_-]", name)))
        patterns.append(("name", re.compile(rf"(?<![\w-]){compound}(?![\w-])", re.IGNORECASE)))
    return tuple(patterns)


def _literal_parts(template: str) -> list[str]:
    """The text between the placeholders of a format string."""
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


def _with_changed_sites(suite: WorldSuite, change: Callable[[Site], Site]) -> WorldSuite:
    """A copy of the suite in which `change` is applied to every site."""
    twin = copy(suite)
    vars(twin)["sites"] = lambda **key: tuple(map(change, suite.sites(**key)))  # hides the method of the class
    return twin


def forced(suite: WorldSuite, family: AnyFamily, kind: str, split: str, number: int) -> Task | None:
    """A task with one subtask, at a site where a rule of type `kind` holds; None if no site of the world allows it."""

    def change(site: Site) -> Site:
        own = Draws("forced", split, number, site.entity.name)
        site_config = family.site_config(site.entity, kind, own)
        if kind not in family.kinds(site_config):
            return site
        return replace(
            site, site_config=site_config, drawn=draw_rule(kind, family.rules[kind], own, site_config), ruled=True
        )

    alone = WorldSuite(suite.name, (family,), replace(suite.spec, pieces=1, drift_at=0))
    task = _nth(_with_changed_sites(alone, change), split, number, number, 0)
    return task if subtasks_of(task.truth)[0].site.drawn.type == kind else None


def _nth(suite: WorldSuite, split: str, world: int, seed: int, number: int) -> Task:
    return suite.load(split=split, count=number + 1, seed=seed, world=world)[-1]


def drawn_from(task: Task) -> tuple[str, int, int, int]:
    """The split, world, seed and number that a task was generated from."""
    found = re.fullmatch(r"(\w+)-w(\d+)-s(-?\d+)-(\d+)", task.id)
    assert found, task.id
    return found[1], int(found[2]), int(found[3]), int(found[4])


# Disjoint splits


def check_splits_disjoint(tasks: dict[str, list[Task]]) -> list[str]:
    """Names and prompt sentences that two splits share."""
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


# Reproducibility


def digest(suite: WorldSuite, count: int, seed: int, world: int) -> str:
    """sha256 over the visible content and the triggers of some tasks of each split."""
    hashed = hashlib.sha256()
    for split in SPLITS:
        for task in spread(suite, split, count, seed, world):
            hashed.update(msgspec.json.encode([task.id, visible(task), task.triggers, task.attempts, task.metadata]))
    return hashed.hexdigest()


def repeats(suite: WorldSuite, count: int, seed: int, world: int, *, elsewhere: bool = True) -> list[str]:
    """Checks that loading again gives the same tasks, in this process and in one with another hash seed."""
    here = digest(suite, count, seed, world)
    draw_world.cache_clear()
    if digest(suite, count, seed, world) != here:
        return ["loading twice gives different tasks"]
    if not elsewhere:
        return []
    there = _digest_in_subprocess(suite, count, seed, world)
    return [] if there in (here, "") else ["another process generates different tasks"]


_PRINT_DIGEST = """
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


def _digest_in_subprocess(suite: WorldSuite, count: int, seed: int, world: int) -> str:
    """`digest`, computed by another process; "" if that cannot load the suite, since it is not registered."""
    key = json.dumps([suite.name, asdict(suite.spec), count, seed, world])
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PRINT_DIGEST, key],
        env={"PYTHONHASHSEED": "4711", "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()


def _distinct(suite: WorldSuite, count: int, seed: int, world: int) -> tuple[float, float]:
    """Tasks generated per second, and the share of distinct ones."""
    each = max(1, count // 20)
    started = time.process_time()
    tasks = [task for n in range(20) for task in suite.load(split="train", count=each, seed=seed + n, world=world + n)]
    seconds = time.process_time() - started
    kinds = {hashlib.sha256(msgspec.json.encode(visible(task))).digest() for task in tasks}
    return len(tasks) / seconds, len(kinds) / len(tasks)


def _unique(problems: Iterable[str]) -> list[str]:
    """The first problem of each kind. Problems that differ only in the task id are of one kind."""
    kinds: dict[str, int] = {}
    kept = []
    for problem in problems:
        kind = re.sub(r"\w+-w\d+-s-?\d+-\d+", "", problem)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] == 1:
            kept.append(problem)
    return kept
