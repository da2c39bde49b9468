"""The code that lies in a workspace: a module that remembers, and the tests that it lets disturb each other."""

from collections.abc import Mapping

from hermes_lab.tasks.code_debugging._modules import COMMON, HELPERS, write_changelog, write_module
from hermes_lab.tasks.code_debugging.test_order.rules import CODE
from hermes_lab.tasks.draws import Draws

MOST_LINES = 30
TESTS = "python3 tests/shuffled.py"

MODULE = '''\
"""Who has which number at the {module}."""

from {package} import state

FIRST = {first}
MODE = "{begin}"

_next = FIRST
_step = 1
_mode = MODE
_numbers = {{}}
_log = []
_archive = []


def {verb}(name):
    """The number of a name; one that has none gets the next."""
    global _next
    if name not in _numbers:
        _numbers[name] = _next
        _log.append(f"{{_mode}} {{name}} {{_next}}")
        _next += _step
    return _numbers[name]


def {listing}():
    """All names that have a number, in alphabetical order."""
    return sorted(_numbers)


def retire(name):
    """Moves a name to the archive."""
    del _numbers[name]
    _archive.append(name)


def archive():
    """The names that were retired, in that order."""
    return list(_archive)


def log():
    """A line for each number that was given."""
    return list(_log)


def mode():
    """How we work, which the log tells."""
    return _mode


def set_mode(word):
    """Changes how we work."""
    global _mode
    _mode = word


def set_step(step):
    """Changes how far apart the numbers are that come."""
    global _step
    _step = step


'''

STATE = '''\
"""Puts the state of modules back, so that no test sees what another did."""

_hooks = []


def on_reset(function, stage=50, label=""):
    """Registers a function without arguments for `reset_all`; may be used as a decorator."""
    _hooks.append((stage, label or function.__module__, function))
    return function


def reset_all():
    """Calls what was registered, the lowest stage first."""
    for _, _, function in sorted(_hooks, key=lambda hook: hook[0]):
        function()


def hooks():
    """The stages and labels of what was registered."""
    return [[stage, label] for stage, label, _ in _hooks]
'''

SHUFFLED = '''\
"""Runs all tests, in six different orders."""

import random
import sys
import unittest

sys.path.insert(0, ".")


def flat(tests):
    for test in tests:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else (test,)


def main():
    tests = sorted(flat(unittest.defaultTestLoader.discover("tests")), key=lambda test: test.id())
    for seed in range(6):
        random.Random(seed).shuffle(tests)
        if not unittest.TextTestRunner().run(unittest.TestSuite(tests)).wasSuccessful():
            return f"fails in order {seed}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''

TEST = """\
import unittest

from {package} import {module}, state


class {title}Test(unittest.TestCase):
    def setUp(self):
        state.reset_all()

    def test_a_stranger_has_no_number(self):
        self.assertNotIn("{one}", {module}.{listing}())

    def test_a_stranger_is_not_in_the_log(self):
        self.assertNotIn("{one}", " ".join({module}.log()))

    def test_a_name_has_one_number(self):
        self.assertEqual({module}.{verb}("{one}"), {module}.{verb}("{one}"))
        self.assertIn("{one}", {module}.{listing}())

    def test_mode_is_set_by_nobody(self):
        self.assertNotEqual({module}.mode(), "{mode}")

    def test_set_mode(self):
        {module}.set_mode("{mode}")
        self.assertEqual({module}.mode(), "{mode}")

    def test_set_step(self):
        {module}.set_step(3)
        first = {module}.{verb}("{one}")
        self.assertEqual({module}.{verb}("{two}"), first + 3)

    def test_step_is_set_by_nobody(self):
        first = {module}.{verb}("{one}")
        self.assertNotEqual({module}.{verb}("{two}"), first + 3)

    def test_nobody_is_retired(self):
        self.assertNotIn("{three}", {module}.archive())

    def test_retire(self):
        {module}.{verb}("{three}")
        {module}.retire("{three}")
        self.assertIn("{three}", {module}.archive())


if __name__ == "__main__":
    unittest.main()
"""

README = """\
# {package}

Who has which number, at each of our services. Standard library only.

- The tests run in several orders: `{tests}`. Each begins with state.reset_all().
- A module that remembers something has a function `reset` that puts all of it back as it was at import, and registers
  it with state.on_reset().
- A fix stays in its module and is small: at most {lines} lines added or removed, counted together.
"""


def draw_files(names: Mapping[str, object], reset: str, draws: Draws) -> dict[str, str]:
    """The workspace. `names` are all that the texts are about; `reset` is the end of the module."""
    package, module = f"{names['package']}", f"{names['module']}"
    helpers = draws.sample(HELPERS, draws.integer(2, 4))
    return {
        f"{package}/{module}.py": MODULE.format(**names) + reset,
        f"{package}/__init__.py": f'"""{package.title()}: a module for each service."""\n',
        f"{package}/common.py": COMMON,
        f"{package}/letters.py": write_module("What we write to people", f"{package}.common", helpers),
        f"{package}/state.py": STATE,
        f"tests/test_{module}.py": TEST.format(title=module.title(), **names),
        "tests/shuffled.py": SHUFFLED,
        "README.md": README.format(package=package, tests=TESTS, lines=MOST_LINES),
        "CHANGELOG.md": write_changelog([module, "letters", "common"], draws),
    }


def draw_reset(draws: Draws) -> str:
    """A reset that puts two or three things back, and is registered nowhere."""
    lines = [line for line in CODE.partition("\n\n\n")[0].splitlines() if line.startswith("    _")]
    kept = draws.sample(range(len(lines)), draws.integer(2, 3))
    names = [lines[n].split()[0] for n in sorted(kept) if "=" in lines[n]]
    body = [*([f"    global {', '.join(names)}"] if names else []), *(lines[n] for n in sorted(kept))]
    return "\n".join(['def reset():\n    """Puts all state back."""', *body]) + "\n"
