"""The code that lies in a workspace: small modules as people write them, one of them with a broken function.

Nothing here knows a convention, so nothing here can give one away.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hermes_lab.tasks.code_debugging._runner import Step
from hermes_lab.tasks.code_debugging._topics import TOPICS
from hermes_lab.tasks.code_debugging._topics.topic import Args, Json, Topic
from hermes_lab.tasks.draws import Draws

TESTS = "python3 -m unittest discover tests"

COMMON = '''\
"""What the modules share."""


def titled(text):
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def numbered(name, number):
    """A name and a number of four digits."""
    return f"{name}-{number:04d}"
'''

HELPERS = (
    '''\
def label(name, number):
    """What is printed on the label."""
    return titled(numbered(name, number))
''',
    '''\
def heading(name):
    """The first line of a report."""
    return f"== {titled(name)} =="
''',
    '''\
def greeting(name):
    """How a letter begins."""
    return f"Dear {titled(name)},"
''',
    '''\
def initials(names):
    """The first letters of some names."""
    return "".join(titled(name)[:1] for name in names)
''',
    '''\
def file_name(year, kind, number):
    """Where a record is filed."""
    return f"{year}/{numbered(kind, number)}.txt"
''',
    '''\
def shortened(text, width):
    """A text that is not wider than that."""
    return text if len(text) <= width else text[: width - 3] + "..."
''',
    '''\
def footer(page, pages):
    """The last line of a page."""
    return f"page {page} of {pages}"
''',
    '''\
def plural(count, word):
    """A number of things."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
''',
)

CHANGES = (
    "label() prints four digits",
    "headings stand between signs",
    "files are sorted by year",
    "letters begin with a name",
    "titles keep their other capitals",
    "long texts end with dots",
    "faster start",
    "docstrings",
)

TEST = """\
import unittest

{imports}


class {title}Test(unittest.TestCase):
    def test_{function}(self):
        self.assertEqual({module}.{first}, {first_want})

    def test_{function}_again(self):
        self.assertEqual({module}.{second}, {second_want})


if __name__ == "__main__":
    unittest.main()
"""


@dataclass(frozen=True)
class Defect:
    """A broken function: its name, the module's constant, and two calls that come out wrong."""

    type: str
    """A key of `TOPICS`."""
    function: str
    constant: Json
    broken: str
    """Its body."""
    complaint: str
    """What a user says: what one of the calls should give."""
    reported: tuple[Args, Args]

    @property
    def topic(self) -> Topic:
        """What it is about."""
        return TOPICS[self.type]

    def plain(self, calls: Iterable[Args]) -> list[Json]:
        """What calls have to give where no convention holds."""
        return [self.topic.plain(self.constant, *args) for args in calls]

    @property
    def constant_line(self) -> str:
        """The constant of its module, if it needs one."""
        return f"{self.topic.constant} = {self.constant!r}\n" if self.topic.constant else ""

    @property
    def text(self) -> str:
        """The broken function."""
        return f'def {self.function}({self.topic.parameters}):\n    """{self.topic.purpose}"""\n{self.broken}\n'


def draw_defect(type_: str, split: str, draws: Draws) -> Defect:
    """A bug of that topic, in the words of a split."""
    topic = TOPICS[type_]
    constant = topic.constants(draws)
    first = second = topic.report(draws, constant)
    while second == first:
        second = topic.report(draws, constant)
    function = draws.choice(topic.names[split])
    # All fixes agree on the reported calls, so this takes nothing from a convention.
    want = repr(topic.plain(constant, *first))
    complaint = draws.choice(topic.complaints[split]).format(call=write_call(function, first), want=want)
    return Defect(type_, function, constant, draws.choice(topic.broken_code), complaint, (first, second))


def write_call(function: str, args: Args) -> str:
    """A call as a person writes it."""
    return f"{function}({', '.join(map(repr, args))})"


def write_module(about: str, common: str, functions: Sequence[str], constant: str = "") -> str:
    """A module's text, with what its functions need of the module `common`."""
    text = "\n\n".join(functions)
    imports = ", ".join(name for name in ("numbered", "titled") if f"{name}(" in text)
    head = (f'"""{about}."""\n', f"from {common} import {imports}\n" if imports else "", constant)
    return "\n".join(filter(None, head)) + "\n\n" + text


def write_test(imports: str, module: str, defect: Defect) -> str:
    """Two tests, which the reported calls fail until they are mended."""
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
    """The last two releases."""
    major, minor = draws.integer(1, 4), draws.integer(3, 9)
    releases = [
        f"## {major}.{minor - n}\n\n"
        + "".join(f"- {draws.choice(parts)}: {change}\n" for change in draws.sample(CHANGES, 2))
        for n in range(2)
    ]
    return "# Changes\n\n" + "\n".join(releases)


def draw_plain_calls(defect: Defect, count: int, draws: Draws) -> list[Args]:
    """Different calls at which nobody can doubt what the function has to give."""
    topic = defect.topic
    return distinct_calls(lambda: topic.call(draws, defect.constant, draws.choice(topic.rules)), count)


def draw_agreed_calls(defect: Defect, count: int, draws: Draws) -> list[Args]:
    """Different calls at which no convention of the topic makes a difference."""
    topic = defect.topic

    def draw() -> Args | None:
        args = topic.report(draws, defect.constant)
        if draws.chance() < 0.5:
            args = topic.call(draws, defect.constant, draws.choice(topic.rules))
        return args if topic.agree(defect.constant, args) else None

    return distinct_calls(draw, count)


def distinct_calls(draw: Callable[[], Args | None], count: int) -> list[Args]:
    """So many different calls; `draw` gives None for one that is not wanted."""
    found: dict[str, Args] = {}
    while len(found) < count:
        args = draw()
        if args is not None:
            found.setdefault(repr(args), args)
    return list(found.values())


def steps_of(module: str, function: str, calls: Iterable[Args]) -> list[Step]:
    """Calls of one function."""
    return [(module, function, args) for args in calls]
