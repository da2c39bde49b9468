"""Every number of `docs/results.md`, and of what `docs/index.md` says was measured, is printed by a command of that
page, from the runs that are kept."""

import re
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import pytest
from results_page import BLOCK, PAGE, ROOT, printed, unpacked

from hermes_lab.models.adapters import packaged_folder
from hermes_lab.models.cards import read_card

INDEX = ROOT / "docs" / "index.md"
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")
_NO_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)


def answers() -> list[list[set[str]]]:
    """The numbers of each line of each answer, a paragraph of what a command prints; shares as percentages, too. And
    those of the training of the shipped adapter, in minutes."""
    printed = [part for block in BLOCK.finditer(PAGE.read_text()) for part in block["output"].split("\n\n")]
    card = read_card(packaged_folder())
    trained = {str(card.steps), str(round(card.seconds / 60))}
    return [*([_numbers(line) for line in part.splitlines()] for part in printed), [trained]]


def _numbers(line: str) -> set[str]:
    found = set(_NUMBER.findall(line))
    return found | {f"{100 * float(number):.0f}" for number in found if "." in number and "," not in number}


def claims(text: str) -> Iterator[tuple[str, list[str]]]:
    """The sentences of a text that have numbers, and these."""
    for paragraph in re.split(r"\n\n|\n(?=- |\|)", _NO_PROSE.sub(" ", text)):
        for sentence in re.split(r"(?<=[.;:])\s+", " ".join(paragraph.split())):
            if numbers := _NUMBER.findall(sentence):
                yield sentence, numbers


def unfounded(text: str) -> list[str]:
    """The sentences whose numbers are not all in two lines of one answer."""
    told = [first | second for lines in answers() for first, second in combinations_with_replacement(lines, 2)]
    return [sentence for sentence, numbers in claims(text) if not any(set(numbers) <= each for each in told)]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with unpacked() as made:
        yield made


def test_the_page_says_what_its_commands_print(folder: Path) -> None:
    blocks = list(BLOCK.finditer(PAGE.read_text()))
    assert blocks
    for block in blocks:
        assert printed(block["command"], folder) == block["output"], block["command"]


def test_what_a_sentence_says_is_in_two_lines_of_one_answer() -> None:
    page, index = PAGE.read_text(), INDEX.read_text().split("\n## What was measured\n")[1]
    for text in (page, index):
        assert len(list(claims(text))) >= 5
        assert unfounded(text) == []


def test_a_sentence_with_numbers_of_several_answers_is_found_out() -> None:
    (claim,) = [sentence for sentence, _ in claims(PAGE.read_text()) if "6e-05" in sentence]
    assert unfounded(claim) == []
    for true, false in (("+62 points** (46 to 80)", "+96 points** (95 to 100)"), ("62", "60"), ("6e-05", "0.0005")):
        assert true in claim
        assert unfounded(claim.replace(true, false)) != [], false
