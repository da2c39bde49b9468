"""Every number of `docs/results.md` is printed by a command that stands in it, from the runs that are kept."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from results_page import BLOCK, PAGE, printed, unpacked

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")
_NO_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with unpacked() as made:
        yield made


def test_the_page_says_what_its_commands_print(folder: Path) -> None:
    blocks = list(BLOCK.finditer(PAGE.read_text()))
    assert blocks
    for block in blocks:
        assert printed(block["command"], folder) == block["output"], block["command"]


def test_every_number_of_its_prose_is_printed_by_a_command() -> None:
    page = PAGE.read_text()
    shown = {number for block in BLOCK.finditer(page) for number in _NUMBER.findall(block["output"])}
    said = _NUMBER.findall(_NO_PROSE.sub(" ", page))
    assert said
    assert [number for number in said if number not in shown] == []
