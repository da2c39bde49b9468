"""Lists in pages are written as GitHub reads them; the site reads them alike."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

markdown = pytest.importorskip("markdown", reason="the extra docs is not installed")
pytest.importorskip("mkdocs", reason="the extra docs is not installed")
HOOKS = Path(__file__).parents[2] / "docs" / "site" / "hooks.py"


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def shown(hooks: ModuleType, page: str) -> str:
    html = markdown.markdown(hooks.reindented(page), extensions=["fenced_code", "pymdownx.superfences"])
    return "".join(line.strip() for line in html.splitlines())


def test_code_in_a_step_belongs_to_the_step(hooks: ModuleType) -> None:
    html = shown(hooks, "1. Do this:\n\n   ```bash\n   ls\n   ```\n\n2. Then that.\n")
    assert html.count("<ol>") == 1
    assert html.count("<li>") == 2
    assert "```" not in html


def test_items_below_an_item_are_a_list_of_their_own(hooks: ModuleType) -> None:
    html = shown(hooks, "1. One\n   - a\n   - b\n     more of b\n2. Two\n")
    assert html == "<ol><li>One<ul><li>a</li><li>bmore of b</li></ul></li><li>Two</li></ol>"


def test_an_item_may_follow_a_paragraph_or_code_of_the_item_before(hooks: ModuleType) -> None:
    html = shown(hooks, "1. One\n\n   More of one.\n2. Two\n\n   ```\n   code\n   ```\n3. Three\n")
    assert html.count("<li>") == 3
    assert html.count("<ol>") == 1


def test_a_list_needs_no_blank_line_before_it(hooks: ModuleType) -> None:
    assert shown(hooks, "It has\n- one\n- two\n") == "<p>It has</p><ul><li>one</li><li>two</li></ul>"


def test_code_and_wrapped_text_stay_as_they_are(hooks: ModuleType) -> None:
    for page in (
        "Text of a\nparagraph 2. of it",
        "    - name: x\n      schedule: y",
        "```yaml\n- a\n  - b\n```",
        "- a\n- b\n\nText",
        "| a |\n|---|\n| - |",
    ):
        assert hooks.reindented(page) == page
