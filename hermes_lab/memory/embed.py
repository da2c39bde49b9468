"""Texts as vectors, by static word embeddings whose weights come with the package: no network, no GPU, microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

DIMENSIONS = 256
_CHUNK = 2_000
_loading = Lock()


def embed(texts: Sequence[str]) -> np.ndarray:
    """One row a text, of length 1 each: (n, 256) float32. A text without a known word is a row of zeros."""
    import numpy as np

    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    with_words = [n for n, text in enumerate(texts) if text.strip()]
    for start in range(0, len(with_words), _CHUNK):
        part = with_words[start : start + _CHUNK]
        with _loading:  # the tokenizer is not for several threads at once
            rows[part] = _model().embed([texts[n] for n in part])
    rows = np.nan_to_num(rows)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def similarity(a: str, b: str) -> float:
    """The cosine of two texts' vectors, in [-1, 1]; 0 where one of them has no known word."""
    rows = embed([a, b])
    return float(rows[0] @ rows[1])


@cache
def _model() -> Any:
    import wordllama

    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
