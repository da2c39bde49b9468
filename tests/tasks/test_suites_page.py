"""docs/suites.md is true: its example runs, its gallery is what families draw today, its rows are rows."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.admission import check_rule_types
from hermes_lab.tasks.check import check_suite
from hermes_lab.tasks.gallery import BEGIN, END, entry, replaced
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.registry import domains, served

PAGE = (Path(__file__).parents[2] / "docs" / "suites.md").read_text()
FAMILIES = [*(family for families in domains().values() for family in families), *served()]
OpenSandbox = Callable[[], Sandbox]


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_the_gallery_shows_what_a_family_draws_today(family: str) -> None:
    """Where it does not: python -m hermes_lab.tasks.gallery docs/suites.md"""
    assert f"\n\n{await entry(family, SandboxConfig())}\n\n" in PAGE


def test_the_gallery_shows_nothing_else() -> None:
    gallery = PAGE.partition(BEGIN)[2].partition(END)[0]
    assert re.findall(r"^### `(\w+)`$", gallery, re.MULTILINE) == FAMILIES


def test_a_gallery_is_replaced_between_its_markers() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter"
    assert replaced(page, ["new"]) == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter"
    with pytest.raises(ValueError, match="lacks"):
        replaced("no markers", ["new"])


@pytest.mark.anyio
async def test_the_example_of_a_family_is_a_sound_suite(
    open_sandbox: OpenSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greetings").mkdir()
    files = dict(re.findall(r"^`(greetings/\S+)`.*?:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
    assert len(files) == 3
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    suite = importlib.import_module("greetings").load()
    for split in suite.splits:
        report = await check_suite(suite, split=split, count=2, seed=0, world=0, open_sandbox=open_sandbox)
        assert report.failures == ()
    assert check_rule_types(suite.families[0])[:2] == [
        "3 rule types; at least 8 are required",
        "0 unseen rule types; 2 to 4 are required",
    ]


def test_the_rows_of_the_page_are_rows(tmp_path: Path) -> None:
    rows = re.findall(r"^    (\{.*\})$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    assert JsonlSuite(tmp_path / "rows.jsonl").size == 5
