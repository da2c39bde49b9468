"""The suite `repair`: bug reports about a house's package, and their verifier."""

from hermes_lab.errors import ConfigError, ToolError
from hermes_lab.protocols import Workspace
from hermes_lab.skills.format import parse, render
from hermes_lab.skills.library import Library
from hermes_lab.types import Skill, Task, Verdict
from tasks.repair.house import SEEN, Component, draw_house
from tasks.repair.judge import changed_lines, run_calls, share_right
from tasks.repair.package import (
    MAX_CHANGED_LINES,
    Defect,
    draw_defect,
    draw_files,
    module_path,
    write_call,
)
from tasks.repair.topic import Args
from tasks.repair.words import REJECTIONS, TESTS, VOCABULARIES
from tasks.worlds import Draws, WorldSpec, task_id

ATTEMPTS = 2
CALLS = 8
"""Hidden calls of either kind: where the convention makes no difference, and where it does."""
LONGEST_MODULE = 10_000


def load(**world: int) -> "RepairSuite":
    """The suite; `world` are fields of `WorldSpec`."""
    names = min(len(words.components) for words in VOCABULARIES.values())
    return RepairSuite(WorldSpec(**world).within(rules=len(SEEN), places=names))


class RepairSuite:
    """Endless tasks: task n of a (split, world, seed) is the same however many are loaded."""

    name = "repair"
    splits = tuple(VOCABULARIES)

    def __init__(self, spec: WorldSpec | None = None, seconds: float = 20.0) -> None:
        """`seconds`: how long all calls of a submission may take together."""
        self.spec = spec or WorldSpec()
        self.seconds = seconds

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` tasks about components drawn uniformly. Raises `ConfigError` for an unknown split or a count of 0."""
        if split not in self.splits:
            raise ConfigError(f"suite.split: repair has no split {split!r}; there are: {', '.join(self.splits)}")
        if count < 1:
            raise ConfigError("suite.count: repair is endless; say how many tasks, at least 1")
        return [self._task(split, world, seed, number) for number in range(count)]

    def _task(self, split: str, world: int, seed: int, number: int) -> Task:
        draws = Draws("repair", split, world, seed, number)
        house = draw_house(split, world, self.spec)
        component = draws.choice(house.components)
        topic, path = component.topic, module_path(house.package, component.name)
        defect = draw_defect(topic, draws)
        others = [other.name for other in house.components if other is not component]
        files = draw_files(house.package, component.name, others, topic, defect, draws)
        prompt = _write_prompt(split, path, component, defect, draws)
        behaviour, convention = _draw_hidden(component, defect, draws)
        trigger = component.type if component.ruled else ""
        return Task(
            id=task_id(split, world, seed, number),
            suite=self.name,
            prompt=prompt,
            domain="code_debugging",
            split=split,
            world=world,
            files=files,
            triggers=(f"{component.name}:{trigger}",) if trigger else (),
            attempts=ATTEMPTS,
            truth={
                "path": path,
                "function": defect.function,
                "broken": defect.body,
                "obvious": topic.plain_code,
                "right": component.fix,
                "hint": _write_hint(component, defect, draws) if trigger else "",
                "calls": {
                    kind: [(args, component.right(defect.constant, args)) for args in calls]
                    for kind, calls in (
                        ("public_tests", defect.reported),
                        ("behaviour", behaviour),
                        ("convention", convention),
                    )
                },
            },
            metadata={"component": component.name, "rule_type": trigger, "seen": component.seen},
        )

    def known_skills(self, *, split: str, world: int) -> Library:
        """A skill for each convention of a world, as someone would write it who knows the house."""
        house = draw_house(split, world, self.spec)
        return Library(_convention_skill(each) for each in house.components if each.ruled)

    async def verify(self, task: Task, workspace: Workspace, answer: str | None) -> Verdict:
        """Judges the module by what it computes, never the prose of `answer`; 1.0 only where every criterion is 1.

        A part of the criteria earns nothing: a score in between would pay for the fix that leaves the rule to chance.
        """
        del answer
        truth = task.truth
        module = await _read(workspace, truth["path"])
        others = {path: text for path, text in task.files.items() if path != truth["path"]}
        touched = [path for path, text in others.items() if await _read(workspace, path) != text.encode()]
        changed = changed_lines(task.files[truth["path"]], module) if module is not None else 0
        calls = [call for kind in truth["calls"].values() for call in kind]
        results = None
        if module is not None:
            args = [args for args, _ in calls]
            results = await run_calls(
                workspace, others, truth["path"], module, truth["function"], args, seconds=self.seconds
            )
        criteria = {
            "module_present": float(module is not None),
            "others_untouched": float(not touched),
            "small_diff": float(module is not None and changed <= MAX_CHANGED_LINES),
            **share_right(truth["calls"], results),
        }
        success = all(value == 1.0 for value in criteria.values())
        feedback = "" if success else _feedback(task, criteria, touched, runs=results is not None)
        return Verdict(score=float(success), success=success, criteria=criteria, feedback=feedback)

    def oracle(self, task: Task) -> tuple[str, ...]:
        """The edit of someone who knows the convention."""
        return (_edit(task, task.truth["right"]),)

    def naive(self, task: Task) -> tuple[str, ...]:
        """The edit of someone who does not."""
        return (_edit(task, task.truth["obvious"]),)

    def inputs(self, task: Task) -> tuple[str, ...]:
        """The files that must stay as they are: all but the broken module."""
        return tuple(path for path in task.files if path != task.truth["path"])

    def outputs(self, task: Task) -> tuple[str, ...]:
        """The file that is judged."""
        return (task.truth["path"],)


def _write_prompt(split: str, path: str, component: Component, defect: Defect, draws: Draws) -> str:
    words, topic, (first, _) = VOCABULARIES[split], component.topic, defect.reported
    places = {"path": path, "component": component.name, "function": defect.function, "tests": TESTS}
    # Both fixes agree on the reported calls, so this takes nothing from the convention.
    want = repr(component.obvious(defect.constant, first))
    complaint = draws.choice(topic.complaints).format(
        call=write_call(defect.function, first), want=want, constant=defect.constant
    )
    opening, closing = (draws.choice(frames).format(**places) for frames in (words.openings, words.closings))
    return f"{opening} {complaint} {closing}"


def _draw_hidden(component: Component, defect: Defect, draws: Draws) -> tuple[list[Args], list[Args]]:
    """Calls that nobody sees: those at which the convention makes no difference, and those at which it does."""
    kinds: tuple[list[Args], list[Args]] = ([], [])
    while any(len(calls) < CALLS for calls in kinds):
        args = component.topic.call(draws, defect.constant, component.rule)
        calls = kinds[component.rule_matters(defect.constant, args)]
        if len(calls) < CALLS and args not in calls:
            calls.append(args)
    return kinds


def _convention_skill(component: Component) -> Skill:
    clause = component.topic.clauses[0].format(rule=component.rule)
    words = component.name.replace("_", " ")
    body = f"In this house {clause}.\n\nThe body of a function that does so:\n\n```python\n{component.fix}\n```"
    description = f"The convention of the {words} module; read it before you mend {component.name}.py"
    return parse(render(f"{component.name.replace('_', '-')}-convention", description, body))


def _write_hint(component: Component, defect: Defect, draws: Draws) -> str:
    clause = draws.choice(component.topic.clauses).format(rule=component.rule)
    return draws.choice(REJECTIONS).format(clause=clause, component=component.name, function=defect.function)


def _edit(task: Task, body: str) -> str:
    return (
        "python3 - <<'EOF'\n"
        "from pathlib import Path\n"
        f"module = Path({task.truth['path']!r})\n"
        f"module.write_text(module.read_text().replace({task.truth['broken']!r}, {body!r}))\n"
        "EOF"
    )


async def _read(workspace: Workspace, path: str) -> bytes | None:
    """A file's bytes; None where it is missing, a link, or longer than any file of a task."""
    try:
        return await workspace.read(path, limit=LONGEST_MODULE)
    except ToolError:
        return None


def _feedback(task: Task, criteria: dict[str, float], touched: list[str], *, runs: bool) -> str:
    path, function = task.truth["path"], task.truth["function"]
    if not criteria["module_present"]:
        return f"Rejected: {path} is missing, too long, or no plain file."
    if touched:
        return f"Rejected: a fix changes {path} alone; {' and '.join(sorted(touched))} must stay as it was."
    if not criteria["small_diff"]:
        return f"Rejected: a fix adds and removes at most {MAX_CHANGED_LINES} lines."
    if not runs:
        return f"Rejected: {function}() of {path} does not run, or does not end."
    if criteria["convention"] < 1.0 and task.truth["hint"]:
        return str(task.truth["hint"])
    if criteria["public_tests"] < 1.0:
        return "Rejected: what was reported is still wrong."
    return f"Rejected: other calls of {function}() come out wrong."
