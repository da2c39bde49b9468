"""The code base that lies in the workspace: a small package as people write them, with one function broken.

Nothing here knows a convention, so nothing here can give one away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.repair.topic import Args, Json, Topic
from tasks.repair.words import TESTS
from tasks.worlds import Draws

MAX_CHANGED_LINES = 20

README = """\
# {package}

Small helpers for our departments, one module each. Standard library only.

- Run the tests with `{tests}`.
- A fix stays in its module and is small: at most {lines} lines added or removed, counted together.
- Tests, changelog and the other modules are not part of a fix.
"""

COMMON = '''\
"""What the modules of {package} share."""


def titled(text):
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def numbered(name, number):
    """A name and a number of four digits."""
    return f"{{name}}-{{number:04d}}"
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
def code(number):
    """The code of a record."""
    return numbered(KIND, number)
''',
    '''\
def file_name(year, number):
    """Where a record is filed."""
    return f"{year}/{numbered(KIND, number)}.txt"
''',
    '''\
def is_ours(text):
    """Whether a code is one of this module."""
    return text.startswith(KIND)
''',
    '''\
def greeting(name):
    """How a letter begins."""
    return f"Dear {titled(name)},"
''',
)

CHANGES = (
    "label() prints four digits",
    "codes begin with the kind",
    "new heading for reports",
    "files are sorted by year",
    "letters begin with a name",
    "titles keep their other capitals",
    "faster start",
    "docstrings",
)

TEST = """\
import unittest

from {package} import {component}


class {title}Test(unittest.TestCase):
    def test_{function}(self):
        self.assertEqual({component}.{first}, {first_want})

    def test_{function}_again(self):
        self.assertEqual({component}.{second}, {second_want})


if __name__ == "__main__":
    unittest.main()
"""


@dataclass(frozen=True)
class Defect:
    """A broken function: its name, the module's constant, and two calls that come out wrong."""

    function: str
    constant: Json
    body: str
    reported: tuple[Args, Args]


def draw_defect(topic: Topic, draws: Draws) -> Defect:
    """A bug of that topic."""
    constant = topic.constants(draws)
    first = second = topic.report(draws, constant)
    while second == first:
        second = topic.report(draws, constant)
    return Defect(draws.choice(topic.names), constant, draws.choice(topic.broken_code), (first, second))


def draw_files(
    package: str, component: str, others: Sequence[str], topic: Topic, defect: Defect, draws: Draws
) -> dict[str, str]:
    """The workspace: two more modules, whose functions are of no topic, beside that of the broken function."""
    broken = write_function(topic, defect.function, defect.body)
    constant = f"{topic.constant} = {defect.constant!r}\n" if topic.constant else ""
    files = {module_path(package, component): _module(package, component, constant, broken, draws)}
    for other in draws.sample(others, min(2, len(others))):
        files[module_path(package, other)] = _module(package, other, "", "", draws)
    return {
        **dict(sorted(files.items())),
        f"{package}/__init__.py": f'"""{package.title()}: helpers for our departments."""\n',
        f"{package}/common.py": COMMON.format(package=package),
        f"tests/test_{component}.py": _test(package, component, topic, defect),
        "README.md": README.format(package=package, tests=TESTS, lines=MAX_CHANGED_LINES),
        "CHANGELOG.md": _changelog([component, *others], draws),
    }


def module_path(package: str, component: str) -> str:
    """Where a component's module lies in the workspace."""
    return f"{package}/{component}.py"


def write_function(topic: Topic, name: str, body: str) -> str:
    """A whole function of that topic."""
    return f'def {name}({topic.parameters}):\n    """{topic.purpose}"""\n{body}\n'


def write_call(function: str, args: Args) -> str:
    """A call as a person writes it."""
    return f"{function}({', '.join(map(repr, args))})"


def _module(package: str, component: str, constant: str, broken: str, draws: Draws) -> str:
    """A module's text, with the imports and the constants that it needs."""
    functions = draws.shuffled([*draws.sample(HELPERS, draws.integer(2, 3)), *([broken] if broken else [])])
    text = "\n\n".join(functions)
    imports = ", ".join(name for name in ("numbered", "titled") if f"{name}(" in text)
    kind = f'KIND = "{component[:3].upper()}"\n' if "KIND" in text else ""
    head = (
        f'"""Helpers for {component}."""\n',
        f"from {package}.common import {imports}\n" if imports else "",
        kind + constant,
    )
    return "\n".join(filter(None, head)) + "\n\n" + text


def _test(package: str, component: str, topic: Topic, defect: Defect) -> str:
    first, second = defect.reported
    return TEST.format(
        package=package,
        component=component,
        title=component.title(),
        function=defect.function,
        first=write_call(defect.function, first),
        first_want=repr(topic.plain(defect.constant, *first)),
        second=write_call(defect.function, second),
        second_want=repr(topic.plain(defect.constant, *second)),
    )


def _changelog(components: Sequence[str], draws: Draws) -> str:
    major, minor = draws.integer(1, 4), draws.integer(3, 9)
    releases = [
        f"## {major}.{minor - n}\n\n"
        + "".join(f"- {draws.choice(components)}: {change}\n" for change in draws.sample(CHANGES, 2))
        for n in range(2)
    ]
    return "# Changes\n\n" + "\n".join(releases)
