"""The duplicate detector, measured on skills as agents write them."""

from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

from hermes_lab.memory.embed import embed
from hermes_lab.skills.curator.duplicates import Content, cluster, likeness

CORPUS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("curator_corpus.yaml").read_text())
CONTENTS = [Content(row["name"], row["description"], row["body"].strip(), {}) for row in CORPUS]


class Score(NamedTuple):
    right: int
    wrong: int
    missed: int


def score(alike: np.ndarray, at_least: float, split: str) -> Score:
    right = wrong = missed = 0
    rows = [place for place, row in enumerate(CORPUS) if row["split"] == split]
    for one, other in combinations(rows, 2):
        same, found = CORPUS[one]["kind"] == CORPUS[other]["kind"], bool(alike[one, other] >= at_least)
        right, wrong, missed = right + (same and found), wrong + (found and not same), missed + (same and not found)
    return Score(right, wrong, missed)


def content(body: str, name: str = "report", **scripts: bytes) -> Content:
    return Content(name, "How reports of the house are made", body, scripts)


def are_alike(one: Content, other: Content, at_least: float = 0.5) -> bool:
    return bool(likeness([one, other], at_least)[0, 1])


def test_the_corpus_is_large_enough_to_say_anything() -> None:
    assert len(CORPUS) >= 60
    assert len({row["name"] for row in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("at_least", [0.8, 0.85, 0.9, 0.95])
@pytest.mark.parametrize("split", ["tune", "test", "probe"])
def test_no_look_alike_that_the_rules_were_made_for_is_merged_at_any_threshold(split: str, at_least: float) -> None:
    assert score(likeness(CONTENTS, at_least), at_least, split).wrong == 0


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("tune", Score(5, 0, 2)),
        ("test", Score(8, 0, 0)),
        ("probe", Score(0, 0, 2)),
        ("fresh", Score(2, 1, 2)),  # new customers get the discount, old ones do not: both words are in both skills
    ],
)
def test_the_detector_is_as_good_as_its_description_says(split: str, expected: Score) -> None:
    assert score(likeness(CONTENTS, 0.9), 0.9, split) == expected


def test_the_cosine_alone_would_merge_look_alikes() -> None:
    rows = embed([f"{content.name}: {content.description}\n{content.body}" for content in CONTENTS])
    assert score(rows @ rows.T, 0.9, "test").wrong == 9
    assert score(rows @ rows.T, 0.9, "probe").wrong == 8


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Run `sum in.csv --drop status=held`.", "Run `sum in.csv --drop status=void`."),
        ("A reading over 120 is a fault.", "A reading over 150 is a fault."),
        ("Every third piece is free.", "No piece is free."),
        ("Sort the rows ascending by date.", "Sort the rows descending by date."),
        ("Run `make`: frame.first() is kept.", "Run `make`: frame.last() is kept."),
    ],
)
def test_another_fact_in_the_same_words_is_no_duplicate(one: str, other: str) -> None:
    assert are_alike(content(one), content(one))
    assert not are_alike(content(one), content(other))


def test_scripts_that_differ_are_no_duplicates_and_a_missing_one_may_be() -> None:
    body = "Run `python scripts/report.py`."
    with_script = content(body, **{"scripts/report.py": b"print(1)"})
    assert not are_alike(with_script, content(body, **{"scripts/report.py": b"print(2)"}))
    assert are_alike(with_script, content(body))


def test_nothing_unlike_is_chained_together() -> None:
    chain = np.array([[1.0, 0.95, 0.2], [0.95, 1.0, 0.93], [0.2, 0.93, 1.0]])
    (found,) = cluster(chain, [[0], [1], [2]], 0.9)
    assert (found.members, found.likeness) == ([0, 1], 0.95)


def test_groups_that_were_joined_before_stay_together_and_count_whole() -> None:
    alike = np.array([[1.0, 0.95, 0.2], [0.95, 1.0, 0.93], [0.2, 0.93, 1.0]])
    assert cluster(alike, [[0, 1], [2]], 0.9) == []
    assert cluster(alike, [], 0.9) == []
