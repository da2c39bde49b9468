"""The notebooks run, they give what is committed, and every number in their prose is in the code or an output above."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from execute_notebooks import FOLDER, execute, notebooks, text
from fakes.openai_server import FakeOpenAIServer, running

LARGEST = 300_000
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)")
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "notebooks.md"

RUNS = ("0-", "1-", "2-", "4-", "5-", "8-")
"""Notebooks that make runs of their own: slower."""

each = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
each_executed = pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.long] * path.name.startswith(RUNS)) for path in notebooks()],
    ids=lambda path: path.stem,
)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell: Any) -> str:
    return "".join(text(output) for output in cell.outputs)


@each_executed
def test_committed_outputs_are_what_the_code_gives(path: Path, tmp_path: Path) -> None:
    """Where they are not: `make notebooks`, and read what changed."""
    made = execute(path, tmp_path)
    for now, committed in zip(code(made), code(read(path)), strict=True):
        assert not [output.text for output in now.outputs if output.get("name") == "stderr"], "a cell warned"
        assert printed(now) == printed(committed)


@each
def test_every_cell_was_run_once_and_in_order(path: Path) -> None:
    cells = code(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.outputs for cell in cells)


@each
def test_numbers_in_prose_are_in_the_code_or_outputs_above(path: Path) -> None:
    above = ""
    for cell in read(path).cells:
        if cell.cell_type == "code":
            above += f"\n{cell.source}\n{printed(cell)}"
            continue
        prose = re.sub(
            r"`[^`]*`|^ {4}.*$|^#.*$|\((?:[^()]*\b(?:19|20)\d\d[^()]*)\)", "", cell.source, flags=re.MULTILINE
        )
        known = {number.replace(",", "").lstrip("+-") for number in NUMBER.findall(above)}
        for number in NUMBER.findall(prose):
            number = number.rstrip(",").replace(",", "")
            assert len(number) == 1 or number in known, f"{number} in: {cell.source[:80]}"


@each
def test_file_is_small_and_says_nothing_of_a_machine(path: Path) -> None:
    assert path.stat().st_size <= LARGEST
    notebook = read(path)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert "/root/" not in path.read_text()
    assert "/tmp/" not in path.read_text()


def test_all_are_numbered_and_listed() -> None:
    names = [path.name for path in notebooks()]
    assert [int(name.split("-")[0]) for name in names] == list(range(9))
    page = PAGE.read_text()
    assert [name for name in names if name not in page] == []


def test_the_quickstart_runs_at_an_endpoint(tmp_path: Path) -> None:
    short = tmp_path / "short.ipynb"
    smaller = (FOLDER / "0-quickstart.ipynb").read_text().replace('\\"worlds\\": 20', '\\"worlds\\": 2')
    short.write_text(smaller.replace('\\"rounds\\": 10', '\\"rounds\\": 2'))
    with running(FakeOpenAIServer(["Done."])) as server:
        made = execute(short, tmp_path, HERMES_LAB_MODEL_URL=server.base_url, HERMES_LAB_MODEL_NAME="fake")
    which, run, fits, compared = (printed(cell) for cell in code(made))
    assert which == f"{server.base_url}\n"
    assert "8/8 episodes" in run
    assert "skills on: not identified" in fits
    assert compared.startswith("not measured: `on` never learned (4 of 4 episodes were reviewed, and none wrote")
    assert len(server.requests) > 8


@pytest.mark.parametrize("page", [PAGE, ROOT / "README.md"], ids=lambda path: path.name)
def test_pages_show_the_code_of_the_quickstart(page: Path) -> None:
    shown = page.read_text().split("```python\nimport hermes_lab as lab\n")[1].split("```")[0]
    cells = "\n".join(cell.source for cell in code(read(FOLDER / "0-quickstart.ipynb")))
    lines = [line for line in shown.splitlines() if line and not line.startswith("model = ")]
    assert [line for line in lines if line not in cells] == []
