"""Texts as vectors."""

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fakes.paragraphs import paragraphs
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.memory.embed import DIMENSIONS, embed, similarity

TEXTS = ["the cat sat on the mat", "a cat sits on a rug", "interest rates rose in March", "", "日本語", "x" * 50_000]


def test_rows_have_length_one_or_say_nothing() -> None:
    rows = embed(TEXTS)
    assert rows.shape == (len(TEXTS), DIMENSIONS)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1, 0, 1, 1], abs=1e-6)
    assert embed([]).shape == (0, DIMENSIONS)


def test_like_meanings_are_nearer_than_unlike_ones() -> None:
    assert similarity(TEXTS[0], TEXTS[1]) > 0.5 > similarity(TEXTS[0], TEXTS[2])
    assert similarity(TEXTS[0], TEXTS[0]) == pytest.approx(1)
    assert similarity(TEXTS[0], " ") == 0


def test_a_vector_depends_on_its_text_alone() -> None:
    alone = np.concatenate([embed([text]) for text in TEXTS])
    assert (embed(TEXTS) == alone).all()
    assert (embed(TEXTS[::-1])[::-1] == alone).all()


def test_threads_get_the_same_vectors() -> None:
    texts = paragraphs(400)
    expected = embed(texts)
    with ThreadPoolExecutor(8) as pool:
        for rows in pool.map(lambda _: embed(texts), range(8)):
            assert (rows == expected).all()


def test_the_direction_is_that_of_the_librarys_own_mean() -> None:
    import wordllama

    from hermes_lab.memory.embed import _load

    tokenizer, vectors = _load()
    theirs = wordllama.WordLlamaInference(vectors, tokenizer).embed([TEXTS[0], TEXTS[2], TEXTS[4]], norm=True)
    assert embed([TEXTS[0], TEXTS[2], TEXTS[4]]) == pytest.approx(theirs, abs=1e-6)


@given(st.text())
def test_any_text_has_a_vector(text: str) -> None:
    length = float(np.linalg.norm(embed([text])))
    assert length == pytest.approx(1, abs=1e-5) or length == 0


def test_a_lone_surrogate_is_no_error() -> None:
    assert np.linalg.norm(embed(["cat \ud800"])) == pytest.approx(1)


def test_loading_leaves_logging_alone_and_importing_loads_nothing() -> None:
    code = (
        "import logging, sys, hermes_lab.memory.vector, hermes_lab.memory.providers\n"
        "import hermes_lab.memory.embed as e\n"
        "assert not {'numpy', 'wordllama', 'psycopg'} & set(sys.modules)\n"
        "e.embed(['x'])\n"
        "assert logging.getLogger().handlers == [] and logging.getLogger().level == logging.WARNING\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert logging.getLogger().level == logging.WARNING
