"""Generates the code of a workspace: small, realistic modules, one of them with a broken function.

It does not use the conventions, so it cannot leak them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hermes_lab.tasks.code_debugging._runner import FixTask, Step
from hermes_lab.tasks.code_debugging._topics import TOPICS
from hermes_lab.tasks.code_debugging._topics.topic import Args, Json, Topic
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.words import load_words

TESTS = "python3 -m unittest discover tests"
MOST_LINES = 20
"""Maximum number of lines that a fix may add and remove."""
CALLS = 8
"""Number of hidden calls of the broken function."""

COMMON = load_words(__file__, str, "common", "modules")
HELPERS = load_words(__file__, tuple[str, ...], "helpers", "modules")
CHANGES = load_words(__file__, tuple[str, ...], "changes", "modules")
TEST = load_words(__file__, str, "test", "modules")


@dataclass(frozen=True)
class Defect:
    """A broken function: its name, the module's constant, and two calls with wrong results."""

    type: str
    """A key of `TOPICS`."""
    function: str
    constant: Json
    broken: str
    """Its body."""
    complaint: str
    """The bug report: the right result of one of the calls."""
    reported: tuple[Args, Args]

    @property
    def topic(self) -> Topic:
        """The topic of the function."""
        return TOPICS[self.type]

    def plain(self, calls: Iterable[Args]) -> list[Json]:
        """The right results of calls without a convention."""
        return [self.topic.plain(self.constant, *args) for args in calls]

    @property
    def constant_line(self) -> str:
        """The assignment of the module's constant, if it has one."""
        return f"{self.topic.constant} = {self.constant!r}\n" if self.topic.constant else ""

    @property
    def text(self) -> str:
        """The broken function."""
        return f'def {self.function}({self.topic.parameters}):\n    """{self.topic.purpose}"""\n{self.broken}\n'


@dataclass(frozen=True, kw_only=True)
class BugTask(FixTask):
    """A task with one broken function."""

    defect: Defect
    key: str
    """The seed of the hidden calls."""

    def mended(self, body: str = "") -> str:
        """The file with `body` as the body of the function; by default with the naive fix."""
        return self.files[self.path].replace(self.defect.broken, body or self.defect.topic.plain_code)

    def plain_calls(self, family: str) -> list[Args]:
        """The reported calls and hidden ones. All have an unambiguous right result."""
        return [*self.defect.reported, *draw_plain_calls(self.defect, CALLS, Draws(family, "calls", self.key))]


def draw_defect(type_: str, split: str, draws: Draws) -> Defect:
    """Draws a bug of a topic, in the words of a split."""
    topic = TOPICS[type_]
    constant = topic.constants(draws)
    first = second = topic.report(draws, constant)
    while second == first:
        second = topic.report(draws, constant)
    function = draws.choice(topic.names[split])
    # All conventions agree on the reported calls, so these do not reveal one.
    want = repr(topic.plain(constant, *first))
    complaint = draws.choice(topic.complaints[split]).format(call=write_call(function, first), want=want)
    return Defect(type_, function, constant, draws.choice(topic.broken_code), complaint, (first, second))


def write_call(function: str, args: Args) -> str:
    """A call as a person writes it."""
    return f"{function}({', '.join(map(repr, args))})"


def write_module(about: str, common: str, functions: Sequence[str], constant: str = "") -> str:
    """A module's text. It imports the helpers that its functions use from the module `common`."""
    text = "\n\n".join(functions)
    imports = ", ".join(name for name in ("numbered", "titled") if f"{name}(" in text)
    head = (f'"""{about}."""\n', f"from {common} import {imports}\n" if imports else "", constant)
    return "\n".join(filter(None, head)) + "\n\n" + text


def write_test(imports: str, module: str, defect: Defect) -> str:
    """Two tests of the reported calls. They fail until the function is fixed."""
    first, second = defect.reported
    first_want, second_want = map(repr, defect.plain(defect.reported))
    return TEST.format(
        imports=imports,
        module=module,
        title=defect.function.title().replace("_", ""),
        function=defect.function,
        first=write_call(defect.function, first),
        first_want=first_want,
        second=write_call(defect.function, second),
        second_want=second_want,
    )


def write_changelog(parts: Sequence[str], draws: Draws) -> str:
    """A changelog with the last two releases."""
    major, minor = draws.integer(1, 4), draws.integer(3, 9)
    releases = [
        f"## {major}.{minor - n}\n\n"
        + "".join(f"- {draws.choice(parts)}: {change}\n" for change in draws.sample(CHANGES, 2))
        for n in range(2)
    ]
    return "# Changes\n\n" + "\n".join(releases)


def draw_plain_calls(defect: Defect, count: int, draws: Draws) -> list[Args]:
    """Distinct calls with an unambiguous right result."""
    topic = defect.topic
    return distinct_calls(lambda: topic.call(draws, defect.constant, draws.choice(topic.rules)), count)


def draw_agreed_calls(defect: Defect, count: int, draws: Draws) -> list[Args]:
    """Distinct calls for which no convention of the topic changes the result."""
    topic = defect.topic

    def draw() -> Args | None:
        args = topic.report(draws, defect.constant)
        if draws.chance() < 0.5:
            args = topic.call(draws, defect.constant, draws.choice(topic.rules))
        return args if topic.agree(defect.constant, args) else None

    return distinct_calls(draw, count)


def distinct_calls(draw: Callable[[], Args | None], count: int) -> list[Args]:
    """`count` distinct calls; `draw` returns None to reject one."""
    found: dict[str, Args] = {}
    while len(found) < count:
        args = draw()
        if args is not None:
            found.setdefault(repr(args), args)
    return list(found.values())


def steps_of(module: str, function: str, calls: Iterable[Args]) -> list[Step]:
    """Calls of one function."""
    return [(module, function, args) for args in calls]
