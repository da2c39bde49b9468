"""The files of a workspace: a module with state, and tests that affect each other through it."""

from collections.abc import Mapping

from hermes_lab.tasks.code_debugging import _modules as code
from hermes_lab.tasks.code_debugging.test_order.rules import CODE
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.words import load_words

MOST_LINES = 30
TESTS = "python3 tests/shuffled.py"

FILES = load_words(__file__, dict[str, str], "files")


def draw_files(names: Mapping[str, object], reset: str, draws: Draws) -> dict[str, str]:
    """The workspace. `names` fill in the templates; `reset` is the end of the module."""
    package, module = f"{names['package']}", f"{names['module']}"
    helpers = draws.sample(code.HELPERS, draws.integer(2, 4))
    return {
        f"{package}/{module}.py": FILES["module"].format(**names) + reset,
        f"{package}/__init__.py": f'"""{package.title()}: a module for each service."""\n',
        f"{package}/common.py": code.COMMON,
        f"{package}/letters.py": code.write_module("Texts of letters", f"{package}.common", helpers),
        f"{package}/state.py": FILES["state"],
        f"tests/test_{module}.py": FILES["test"].format(title=module.title(), **names),
        "tests/shuffled.py": FILES["shuffled"],
        "README.md": FILES["readme"].format(package=package, tests=TESTS, lines=MOST_LINES),
        "CHANGELOG.md": code.write_changelog([module, "letters", "common"], draws),
    }


def draw_reset(draws: Draws) -> str:
    """A reset that restores only two or three variables and is not registered."""
    lines = [line for line in CODE.partition("\n\n\n")[0].splitlines() if line.startswith("    _")]
    kept = draws.sample(range(len(lines)), draws.integer(2, 3))
    names = [lines[n].split()[0] for n in sorted(kept) if "=" in lines[n]]
    body = [*([f"    global {', '.join(names)}"] if names else []), *(lines[n] for n in sorted(kept))]
    return "\n".join(['def reset():\n    """Restores all state."""', *body]) + "\n"
