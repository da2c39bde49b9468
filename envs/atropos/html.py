"""Groups as an HTML page."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from hermes_lab.envs.atropos.messages import MASKED, ScoredData
from hermes_lab.records import write_atomic

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f5f5f3; padding: .6rem; border-left: 4px solid #bbb }
pre.assistant { border-color: #2f6f9f; background: #eef4f8 }
summary { cursor: pointer; padding: .2rem 0 }
.sequence { margin-left: 1.2rem }
"""


def write_page(path: Path, title: str, groups: Iterable[ScoredData]) -> None:
    """Writes all groups with their sequences and rewards; assistant turns are highlighted."""
    body = "".join(map(_group, groups)) or "<p>No group.</p>"
    write_atomic(
        path,
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n"
        f"<h1>{escape(title)}</h1>\n{body}</html>\n",
    )


def _group(data: ScoredData) -> str:
    about = data.group_overrides
    scores = ", ".join(f"{score:g}" for score in data.scores)
    head = escape(f"{about['suite']} {about['task']} by {about['policy'][:12]}: rewards {scores}")
    sequences = "".join(_sequence(data, number) for number in range(len(data.scores)))
    return f"<details open><summary><b>{head}</b></summary>\n{sequences}</details>\n"


def _sequence(data: ScoredData, number: int) -> str:
    mask_T = data.masks[number]
    trained = sum(mark != MASKED for mark in mask_T)
    head = f"rollout {number}: reward {data.scores[number]:g}, {trained} of {len(mask_T)} tokens trained"
    turns = "".join(map(_turn, data.messages[number])) if data.messages else ""
    return f'<details class="sequence"><summary>{head}</summary>\n{turns}</details>\n'


def _turn(turn: Mapping[str, Any]) -> str:
    role = escape(str(turn["role"]))
    return f'<pre class="{role}"><b>{role}</b>\n{escape(str(turn["content"]))}</pre>\n'
