"""Text embeddings from static word vectors shipped with a dependency: no network, no GPU, microseconds per text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSIONS = 256
_loading = Lock()


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embeds the texts as unit vectors: (n, 256) float32. A text without known words gives zeros.

    The vector is the normalised mean of the text's word vectors. It depends only on the text, not on the batch or the
    thread.
    """
    import numpy as np

    rows = np.zeros((len(texts), DIMENSIONS), np.float32)
    if not texts:
        return rows
    tokenizer, vectors = _model()
    for row, text in zip(rows, texts, strict=True):
        if text.strip():
            encodable = text.encode(errors="replace").decode()
            words, counts = np.unique(tokenizer.encode(encodable, add_special_tokens=False).ids, return_counts=True)
            row[:] = counts.astype(np.float32) @ vectors[words]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1)
    return rows


def similarity(a: str, b: str) -> float:
    """The cosine similarity of two texts, in [-1, 1]; 0 if one of them has no known word."""
    rows = embed([a, b])
    return max(-1.0, min(1.0, float(rows[0] @ rows[1])))


def _model() -> tuple[Any, NDArray[np.float32]]:
    """The tokenizer and the word vectors, (32000, 256)."""
    with _loading:
        return _load()


@cache
def _load() -> tuple[Any, NDArray[np.float32]]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    import wordllama  # configures the root logger when imported

    root.handlers[:] = handlers
    root.setLevel(level)
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return model.tokenizer, model.embedding
