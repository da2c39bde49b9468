"""Frames for tests of pictures, and what a picture says."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

_ROW: Mapping[str, Any] = {
    **{"run": "r", "lane": "main", "arm": "main", "domain": "d", "model": "m", "adapter": "", "adapter_digest": ""},
    **{"experience": 0, "place": 0, "round": 0, "phase": "learn", "status": "ok", "success": True, "accepted": True},
    **{"tool_errors": 0, "recovered": False, "censored": False, "seconds": 1.0, "iterations": 2},
    **{"prompt_tokens": 10, "completion_tokens": 5, "uncounted_calls": 0},
}


def frame_of(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """What the pictures need of `load_episodes`; each row says what is unusual in it."""
    frame = pd.DataFrame([{**_ROW, **row} for row in rows])
    return frame.astype({"success": "boolean", "accepted": "boolean", "recovered": "boolean"})


def said(ax: Axes) -> str:
    """Every text in the axes and in the legend."""
    legend = ax.get_legend()
    texts = [text.get_text() for text in ax.texts]
    texts += [text.get_text() for text in (*legend.get_texts(), legend.get_title())] if legend else []
    return "\n".join(texts)
